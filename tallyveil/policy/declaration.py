"""What a policy file may say, key by key. These models mirror the file; nothing else uses them.

A field's description completes "key = value: expected …" where no check of `checks` has more to
say. Contradictions between keys are in `conflicts`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from tallyveil.policy import checks, limits
from tallyveil.policy.catalog import CatalogDeclaration
from tallyveil.policy.names import is_table_reference, name_mistake
from tallyveil.policy.server import ServerDeclaration

__all__ = [
    "AnalystDeclaration",
    "AttributeDeclaration",
    "BudgetDeclaration",
    "CountRangeDeclaration",
    "DefaultsDeclaration",
    "InferenceControlDeclaration",
    "InvariantDeclaration",
    "LimitsDeclaration",
    "PolicyDeclaration",
    "PublicDeclaration",
    "SourceDeclaration",
    "TableDeclaration",
    "TableShareDeclaration",
    "UnitDeclaration",
    "ViewDeclaration",
]


class _Declaration(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


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


class SourceDeclaration(_Declaration):
    url: Annotated[str, _checked(checks.source_url)] = Field(description="a path in quotes")


class UnitDeclaration(_Declaration):
    """``"row"``, or the column that says whose row it is."""

    column: str | None = Field(None, min_length=1, description="the name of a column")
    max_rows: Annotated[int, _checked(checks.max_rows)] = Field(
        1, description="how many rows of one unit are kept, a whole number"
    )

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if value == "row":
            return {}
        if not isinstance(value, dict):
            raise checks.wrong('expected "row" or { column = "…", max_rows = 3 }')
        return value


class BudgetDeclaration(_Declaration):
    """ε, or ρ and δ, or ε and δ; `conflicts` sees to it that it is one of these."""

    epsilon: Annotated[Any, _checked(checks.epsilon)] = Field(
        None, description="the total privacy loss ε, a positive number"
    )
    rho: Annotated[Any, _checked(checks.rho)] = Field(
        None, description="the total privacy loss ρ, a positive number"
    )
    delta: Annotated[Any, _checked(checks.delta)] = Field(
        None, description="a number δ such as 1e-9"
    )


class CountRangeDeclaration(_Declaration):
    """``20``, or with the attributes it goes by."""

    at_most: Annotated[int, _checked(checks.largest_count)] = Field(
        description="the largest possible count, a whole number"
    )
    by: Annotated[Any, _checked(checks.attribute_names)] = Field(
        (), description='a list of attributes such as ["household"]'
    )

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return {"at_most": value}
        if not isinstance(value, dict):
            raise checks.wrong('expected a whole number or { at_most = 20, by = ["household"] }')
        return value


class InferenceControlDeclaration(_Declaration):
    """How precisely a count may become known."""

    min_half_width: Annotated[float, _checked(checks.half_width)] = Field(
        description="the least half-width of an interval, a positive number of records"
    )
    confidence: Annotated[float, _checked(checks.confidence)] = Field(
        0.95, description="a number strictly between 0 and 1"
    )
    min_count: Annotated[int, _checked(checks.min_count)] | None = Field(
        None, description="from how many records on a group is not small, a whole number"
    )


class LimitsDeclaration(_Declaration):
    """How much the ledger records of a table; `limits.Limits` has what is left out."""

    least_cost: Annotated[Any, _checked(limits.least_cost)] = Field(
        None, description="a share of the budget such as 1e-6"
    )
    rows: Annotated[Any, _checked(limits.recorded_rows)] = Field(
        None, description="a whole number of rows"
    )
    megabytes: Annotated[Any, _checked(limits.megabytes)] = Field(
        None, description="a whole number of megabytes"
    )
    analyst_rows: Annotated[Any, _checked(limits.recorded_rows)] = Field(
        None, description="a whole number of rows"
    )
    analyst_megabytes: Annotated[Any, _checked(limits.megabytes)] = Field(
        None, description="a whole number of megabytes"
    )


class AttributeDeclaration(_Declaration):
    """One axis. What none of its keys says is in `domain.Attribute`."""

    values: Annotated[Any, _checked(checks.values)] = Field(None, description="a list")
    range: Annotated[Any, _checked(checks.range_ends)] = Field(None, description="two ends")
    bins: Annotated[Any, _checked(checks.bins)] = Field(None, description="a list of edges")
    nullable: bool = Field(False, description="true or false")
    other: bool | str = Field(False, description="true, false, or (for text values) a label")
    clamp: bool = Field(False, description="true or false")
    column: str | None = Field(None, min_length=1, description="the name of a column")


class InvariantDeclaration(_Declaration):
    """Counts that are published exactly; `conflicts` sees to it that they come from one place."""

    sql: Annotated[str, AfterValidator(_query)] | None = Field(
        None, description='a SELECT in quotes, such as "SELECT state, count(*) FROM person GROUP…"'
    )
    from_public: Annotated[Any, _checked(checks.public_column)] = Field(
        None, description='a public table and its column, such as "census.persons"'
    )
    acknowledge: Annotated[Any, _checked(checks.acknowledged)] = Field(
        (), description="a list of counts in quotes, as tallyveil check writes them"
    )


class TableDeclaration(_Declaration):
    origin: Annotated[str, AfterValidator(_origin)] | None = Field(
        None, alias="from", description="the name of a table or view, or a SELECT, in quotes"
    )
    privacy_unit: UnitDeclaration = Field(
        default_factory=lambda: UnitDeclaration.model_validate("row"),
        description='"row" or { column = "…", max_rows = 3 }',
    )
    count: str | None = Field(
        None, min_length=1, description="the column that says how many records a row stands for"
    )
    neighbours: Literal["add_remove", "replace"] = Field(
        "add_remove", description='"add_remove" or "replace"'
    )
    budget: BudgetDeclaration = Field(description="a budget such as { epsilon = 3.0 }")
    mechanisms: Annotated[Any, _checked(checks.mechanisms)] = Field(
        None, description='a list of names such as ["laplace", "gaussian"]'
    )
    count_range: CountRangeDeclaration | None = Field(
        None, description='a whole number or { at_most = 20, by = ["household"] }'
    )
    inference_control: InferenceControlDeclaration | None = Field(
        None, description="a limit such as { min_half_width = 5, confidence = 0.95 }"
    )
    limits: LimitsDeclaration = Field(
        default_factory=lambda: LimitsDeclaration.model_validate({}),
        description="limits such as { least_cost = 1e-6, rows = 1000000 }",
    )
    invariants: list[InvariantDeclaration] = Field(
        default_factory=list,
        description='tables such as [[tables.person.invariants]] with sql = "SELECT …"',
    )
    data: Annotated[Any, _checked(checks.data)] = Field("fixed", description='"fixed"')
    beside: Annotated[Any, _checked(checks.table_names)] = Field(
        (), description='a list of tables such as ["person"]'
    )
    attributes: dict[Annotated[str, AfterValidator(_attribute_name)], AttributeDeclaration] = Field(
        min_length=1, description="at least one attribute such as age = { range = [0, 115] }"
    )


class PublicDeclaration(_Declaration):
    """A table anyone may see: a file, a table or SELECT of a file, or one of the source."""

    url: Annotated[str, _checked(checks.source_url)] | None = Field(
        None, description="a path in quotes"
    )
    origin: Annotated[str, AfterValidator(_origin)] | None = Field(
        None, alias="from", description="the name of a table or view, or a SELECT, in quotes"
    )


class ViewDeclaration(_Declaration):
    sql: Annotated[str, AfterValidator(_query)] = Field(
        description='a SELECT in quotes, such as "SELECT * FROM person WHERE age >= 18"'
    )


class DefaultsDeclaration(_Declaration):
    epsilon: Annotated[Any, _checked(checks.epsilon)] = Field(None, description="ε of a query")
    rho: Annotated[Any, _checked(checks.rho)] = Field(None, description="ρ of a query")
    half_width: Annotated[Any, _checked(checks.half_width)] = Field(
        None, description="a positive number"
    )
    confidence: Annotated[float, _checked(checks.confidence)] = Field(
        0.95, description="a number strictly between 0 and 1"
    )
    mechanism: Annotated[str, _checked(checks.mechanism)] = Field(
        "auto", description='the name of a mechanism, or "auto"'
    )
    nonnegative: bool = Field(False, description="true or false")


class TableShareDeclaration(_Declaration):
    budget: BudgetDeclaration = Field(description="a share such as { epsilon = 1.0 }")


class AnalystDeclaration(_Declaration):
    """A share of every table's budget, or shares table by table; `shares` compares the two."""

    budget: BudgetDeclaration | None = Field(
        None, description="a share of the tables' budgets such as { epsilon = 1.0 }"
    )
    tables: dict[str, TableShareDeclaration] = Field(
        default_factory=dict,
        min_length=1,
        description="shares by table such as person = { budget = { epsilon = 1.0 } }",
    )


class PolicyDeclaration(_Declaration):
    source: SourceDeclaration | None = Field(
        None, description='a table such as [source] with url = "people.parquet"'
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
        default_factory=lambda: DefaultsDeclaration.model_validate({}),
        description="a table [defaults]",
    )
    analysts: dict[Annotated[str, AfterValidator(_analyst_name)], AnalystDeclaration] = Field(
        default_factory=dict,
        min_length=1,
        description="analysts such as [analysts.alice] with budget = { epsilon = 1.0 }",
    )
    server: ServerDeclaration = Field(
        default_factory=lambda: ServerDeclaration.model_validate({}),
        description="a table [server]",
    )
    catalog: CatalogDeclaration = Field(
        default_factory=lambda: CatalogDeclaration.model_validate({}),
        description="a table [catalog]",
    )
    ledger: Annotated[str, _checked(checks.ledger)] | None = Field(
        None, description="the path of an SQLite file"
    )
