"""The keys that a policy file may have. These models mirror the file, and only `load` uses them,
except for those in `model`, `limits` and `server`, which other rooms use as written.

A field's description completes "key = value: expected …" unless a check of `checks` has a more
specific message. Contradictions between keys are in `conflicts`.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, Field, PlainValidator

from tallyveil.policy import checks
from tallyveil.policy.axes import AttributeDeclaration
from tallyveil.policy.checks import Declaration
from tallyveil.policy.domain import Neighbours
from tallyveil.policy.limits import Limits
from tallyveil.policy.model import (
    Budget,
    CountRange,
    Defaults,
    InferenceControl,
    Invariant,
    PrivacyUnit,
)
from tallyveil.policy.names import name_mistake
from tallyveil.policy.server import CatalogChoice, Serving

__all__ = [
    "AnalystDeclaration",
    "PolicyDeclaration",
    "PublicDeclaration",
    "SourceDeclaration",
    "TableDeclaration",
    "TableShareDeclaration",
    "ViewDeclaration",
]


def _attribute_name(name: str) -> str:
    mistake = name_mistake(name, cased=True)
    if mistake:
        raise checks.wrong(f'{mistake}; column = "…" can name the source\'s column')
    return name


def _table_name(name: str) -> str:
    mistake = name_mistake(name)
    if mistake:
        raise checks.wrong(f'{mistake}; from = "…" can name the source\'s table')
    if name == "dp":
        raise checks.wrong("expected another name: dp is the schema of tallyveil's relations")
    return name


def _analyst_name(name: str) -> str:
    if not name or name != name.strip() or "\0" in name:
        raise checks.wrong("expected the user name with which an analyst connects")
    return name


_Url: TypeAlias = Annotated[str, PlainValidator(checks.source_url)]


class SourceDeclaration(Declaration):
    url: _Url = Field(description="a path in quotes")


class _FromDeclaration(Declaration):
    """``origin`` is the relation to read; by default the one of the declared name."""

    origin: Annotated[str, AfterValidator(checks.origin)] | None = Field(
        default=None,
        alias="from",
        description="the name of a table or view, or a SELECT, in quotes",
    )


class TableDeclaration(_FromDeclaration):
    privacy_unit: PrivacyUnit = Field(
        default_factory=PrivacyUnit,
        description='"row" or { column = "…", max_rows = 3 }',
    )
    count: str | None = Field(
        default=None,
        min_length=1,
        description="the name of the column with the number of records that a row stands for",
    )
    neighbours: Neighbours = Field(default="add_remove", description='"add_remove" or "replace"')
    budget: Budget = Field(description="a budget such as { epsilon = 3.0 }")
    mechanisms: Annotated[Any, PlainValidator(checks.mechanisms)] = None
    count_range: CountRange | None = Field(
        default=None, description='a whole number or { at_most = 20, by = ["household"] }'
    )
    inference_control: InferenceControl | None = Field(
        default=None, description="a limit such as { min_half_width = 5, confidence = 0.95 }"
    )
    limits: Limits = Field(
        default_factory=Limits,
        description="limits such as { least_cost = 1e-6, rows = 1000000 }",
    )
    data: Annotated[str, PlainValidator(checks.data)] = "fixed"
    beside: Annotated[tuple[str, ...], PlainValidator(checks.table_names)] = ()
    attributes: dict[Annotated[str, AfterValidator(_attribute_name)], AttributeDeclaration] = Field(
        min_length=1, description="at least one attribute such as age = { range = [0, 115] }"
    )
    invariants: list[Invariant] = Field(
        default_factory=list,
        description='tables such as [[tables.person.invariants]] with sql = "SELECT …"',
    )


class PublicDeclaration(_FromDeclaration):
    """A table that everyone may see: a file, or a table or SELECT of a file or of the source."""

    url: _Url | None = None


class ViewDeclaration(Declaration):
    sql: Annotated[str, AfterValidator(checks.query)] = Field(
        description='a SELECT in quotes, such as "SELECT * FROM person WHERE age >= 18"'
    )


class TableShareDeclaration(Declaration):
    budget: Budget = Field(description="a share such as { epsilon = 1.0 }")


class AnalystDeclaration(Declaration):
    """A share of every table's budget, shares by table, or both; `shares` combines them."""

    budget: Budget | None = Field(
        default=None, description="a share of the tables' budgets such as { epsilon = 1.0 }"
    )
    tables: dict[str, TableShareDeclaration] = Field(
        default_factory=dict,
        min_length=1,
        description="shares by table such as person = { budget = { epsilon = 1.0 } }",
    )


class PolicyDeclaration(Declaration):
    source: SourceDeclaration | None = Field(
        default=None, description='a table such as [source] with url = "people.parquet"'
    )
    tables: dict[Annotated[str, AfterValidator(_table_name)], TableDeclaration] = Field(
        min_length=1, description="at least one table such as [tables.person]"
    )
    public: dict[Annotated[str, AfterValidator(_table_name)], PublicDeclaration] = Field(
        default_factory=dict, description='tables such as [public.region] with url = "region.csv"'
    )
    views: dict[Annotated[str, AfterValidator(_table_name)], ViewDeclaration] = Field(
        default_factory=dict, description='views such as [views.adult] with sql = "SELECT …"'
    )
    defaults: Defaults = Field(default_factory=Defaults, description="a table [defaults]")
    analysts: dict[Annotated[str, AfterValidator(_analyst_name)], AnalystDeclaration] = Field(
        default_factory=dict,
        min_length=1,
        description="analysts such as [analysts.alice] with budget = { epsilon = 1.0 }",
    )
    server: Serving = Field(default_factory=Serving, description="a table [server]")
    catalog: CatalogChoice = Field(default_factory=CatalogChoice, description="a table [catalog]")
    ledger: Annotated[tuple[str | None, bool], PlainValidator(checks.ledger)] = (None, False)
