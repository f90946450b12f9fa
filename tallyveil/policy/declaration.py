"""What a policy file may say, key by key. These models mirror the file; nothing else uses them, but
for those that stand in `model`, `limits` and `server`, which are the value as it is written.

A field's description completes "key = value: expected …" where no check of `checks` has more to
say. Contradictions between keys are in `conflicts`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from tallyveil.policy import checks
from tallyveil.policy.checks import Declaration
from tallyveil.policy.limits import Limits
from tallyveil.policy.model import CountRange, InferenceControl
from tallyveil.policy.names import is_table_reference, name_mistake
from tallyveil.policy.server import CatalogChoice, Serving

__all__ = [
    "AnalystDeclaration",
    "AttributeDeclaration",
    "BudgetDeclaration",
    "DefaultsDeclaration",
    "InvariantDeclaration",
    "PolicyDeclaration",
    "PublicDeclaration",
    "SourceDeclaration",
    "TableDeclaration",
    "TableShareDeclaration",
    "UnitDeclaration",
    "ViewDeclaration",
]


def _checked(check: Callable[[Any], Any]) -> BeforeValidator:
    return BeforeValidator(check)


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
        raise checks.wrong("expected the name an analyst connects by")
    return name


def _origin(text: str) -> str:
    stripped = text.strip().removesuffix(";").rstrip()
    first = stripped.split(None, 1)[0].upper() if stripped else ""
    if first in ("SELECT", "WITH", "FROM") or is_table_reference(stripped):
        return stripped
    raise checks.wrong(
        "expected the name of a table or view (parts that are no plain words in double quotes), "
        "or a SELECT"
    )


def _query(text: str) -> str:
    stripped = text.strip().removesuffix(";").rstrip()
    first = stripped.split(None, 1)[0].upper() if stripped else ""
    if first in ("SELECT", "WITH") or stripped.startswith("("):
        return stripped
    raise checks.wrong("expected a SELECT")


class SourceDeclaration(Declaration):
    url: Annotated[str, _checked(checks.source_url)] = Field(description="a path in quotes")


class UnitDeclaration(Declaration):
    """``"row"``, or the column that says whose row it is."""

    column: str | None = Field(default=None, min_length=1, description="the name of a column")
    max_rows: Annotated[int, _checked(checks.max_rows)] = Field(
        default=1, description="how many rows of one unit are kept, a whole number"
    )

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if value == "row":
            return {}
        if not isinstance(value, dict):
            raise checks.wrong('expected "row" or { column = "…", max_rows = 3 }')
        return value


class BudgetDeclaration(Declaration):
    """ε, or ρ and δ, or ε and δ; `conflicts` sees to it that it is one of these."""

    epsilon: Annotated[Any, _checked(checks.epsilon)] = Field(
        default=None, description="the total privacy loss ε, a positive number"
    )
    rho: Annotated[Any, _checked(checks.rho)] = Field(
        default=None, description="the total privacy loss ρ, a positive number"
    )
    delta: Annotated[Any, _checked(checks.delta)] = Field(
        default=None, description="a number δ such as 1e-9"
    )


class AttributeDeclaration(Declaration):
    """One axis. What none of its keys says is in `domain.Attribute`."""

    values: Annotated[Any, _checked(checks.values)] = Field(default=None, description="a list")
    range: Annotated[Any, _checked(checks.range_ends)] = Field(default=None, description="two ends")
    bins: Annotated[Any, _checked(checks.bins)] = Field(default=None, description="a list of edges")
    nullable: bool = Field(default=False, description="true or false")
    other: bool | str = Field(
        default=False, description="true, false, or (for text values) a label"
    )
    clamp: bool = Field(default=False, description="true or false")
    column: str | None = Field(default=None, min_length=1, description="the name of a column")


class InvariantDeclaration(Declaration):
    """Counts that are published exactly; `conflicts` sees to it that they come from one place."""

    sql: Annotated[str, AfterValidator(_query)] | None = Field(
        default=None,
        description='a SELECT in quotes, such as "SELECT state, count(*) FROM person GROUP…"',
    )
    from_public: Annotated[Any, _checked(checks.public_column)] = Field(
        default=None, description='a public table and its column, such as "census.persons"'
    )
    acknowledge: Annotated[Any, _checked(checks.acknowledged)] = Field(
        default=(), description="a list of counts in quotes, as tallyveil check writes them"
    )


class TableDeclaration(Declaration):
    origin: Annotated[str, AfterValidator(_origin)] | None = Field(
        default=None,
        alias="from",
        description="the name of a table or view, or a SELECT, in quotes",
    )
    privacy_unit: UnitDeclaration = Field(
        default_factory=UnitDeclaration,
        description='"row" or { column = "…", max_rows = 3 }',
    )
    count: str | None = Field(
        default=None,
        min_length=1,
        description="the column that says how many records a row stands for",
    )
    neighbours: Literal["add_remove", "replace"] = Field(
        default="add_remove", description='"add_remove" or "replace"'
    )
    budget: BudgetDeclaration = Field(description="a budget such as { epsilon = 3.0 }")
    mechanisms: Annotated[Any, _checked(checks.mechanisms)] = Field(
        default=None, description='a list of names such as ["laplace", "gaussian"]'
    )
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
    invariants: list[InvariantDeclaration] = Field(
        default_factory=list,
        description='tables such as [[tables.person.invariants]] with sql = "SELECT …"',
    )
    data: Annotated[Any, _checked(checks.data)] = Field(default="fixed", description='"fixed"')
    beside: Annotated[Any, _checked(checks.table_names)] = Field(
        default=(), description='a list of tables such as ["person"]'
    )
    attributes: dict[Annotated[str, AfterValidator(_attribute_name)], AttributeDeclaration] = Field(
        min_length=1, description="at least one attribute such as age = { range = [0, 115] }"
    )


class PublicDeclaration(Declaration):
    """A table anyone may see: a file, a table or SELECT of a file, or one of the source."""

    url: Annotated[str, _checked(checks.source_url)] | None = Field(
        default=None, description="a path in quotes"
    )
    origin: Annotated[str, AfterValidator(_origin)] | None = Field(
        default=None,
        alias="from",
        description="the name of a table or view, or a SELECT, in quotes",
    )


class ViewDeclaration(Declaration):
    sql: Annotated[str, AfterValidator(_query)] = Field(
        description='a SELECT in quotes, such as "SELECT * FROM person WHERE age >= 18"'
    )


class DefaultsDeclaration(Declaration):
    epsilon: Annotated[Any, _checked(checks.epsilon)] = Field(
        default=None, description="ε of a query"
    )
    rho: Annotated[Any, _checked(checks.rho)] = Field(default=None, description="ρ of a query")
    half_width: Annotated[Any, _checked(checks.half_width)] = Field(
        default=None, description="a positive number"
    )
    confidence: Annotated[float, _checked(checks.confidence)] = Field(
        default=0.95, description="a number strictly between 0 and 1"
    )
    mechanism: Annotated[str, _checked(checks.mechanism)] = Field(
        default="auto", description='the name of a mechanism, or "auto"'
    )
    nonnegative: bool = Field(default=False, description="true or false")


class TableShareDeclaration(Declaration):
    budget: BudgetDeclaration = Field(description="a share such as { epsilon = 1.0 }")


class AnalystDeclaration(Declaration):
    """A share of every table's budget, or shares table by table; `shares` compares the two."""

    budget: BudgetDeclaration | None = Field(
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
    defaults: DefaultsDeclaration = Field(
        default_factory=DefaultsDeclaration,
        description="a table [defaults]",
    )
    analysts: dict[Annotated[str, AfterValidator(_analyst_name)], AnalystDeclaration] = Field(
        default_factory=dict,
        min_length=1,
        description="analysts such as [analysts.alice] with budget = { epsilon = 1.0 }",
    )
    server: Serving = Field(default_factory=Serving, description="a table [server]")
    catalog: CatalogChoice = Field(default_factory=CatalogChoice, description="a table [catalog]")
    ledger: Annotated[str, _checked(checks.ledger)] | None = Field(
        default=None, description="the path of an SQLite file"
    )
