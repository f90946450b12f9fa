"""The policy as other rooms use it: immutable values, public facts only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, Field, PlainValidator, model_validator

from tallyveil.cache import cached_property
from tallyveil.policy import checks
from tallyveil.policy.checks import Declaration
from tallyveil.policy.domain import Domain, Neighbours
from tallyveil.policy.fingerprint import digest
from tallyveil.policy.limits import Limits
from tallyveil.policy.names import is_table_reference
from tallyveil.policy.server import CatalogChoice, Serving
from tallyveil.policy.source_kinds import SourceKind, source_kind

__all__ = [
    "Budget",
    "CountRange",
    "Defaults",
    "InferenceControl",
    "Invariant",
    "Neighbours",
    "Policy",
    "PrivacyUnit",
    "PublicTable",
    "Source",
    "Table",
]


_Epsilon: TypeAlias = Annotated[Fraction | None, PlainValidator(checks.epsilon)]
_Rho: TypeAlias = Annotated[Fraction | None, PlainValidator(checks.rho)]
_Confidence: TypeAlias = Annotated[float, PlainValidator(checks.confidence)]


@dataclass(frozen=True)
class Source:
    """Where the confidential rows are: ``url`` as written, ``path`` resolved."""

    url: str
    path: Path
    kind: SourceKind


class PrivacyUnit(Declaration):
    """The unit of protection: one row, written ``"row"``, or all rows that share a value of
    ``column``.

    At most ``max_rows`` rows of a unit are counted, whether they have a cell or not, so one unit
    moves the cube by at most ``max_rows`` in the L1 norm under add/remove.
    """

    column: str | None = Field(default=None, min_length=1, description="the name of a column")
    max_rows: Annotated[int, PlainValidator(checks.max_rows)] = 1

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        return {} if value == "row" else value


class CountRange(Declaration):
    """A bound that the custodian guarantees: at most ``at_most`` records have the same values of
    the attributes ``by``, where NULL and "other" count as values.

    Without attributes, the table has at most ``at_most`` records; this can be written as a number.
    """

    at_most: Annotated[int, PlainValidator(checks.largest_count)] = Field(
        description="the largest possible count, a whole number"
    )
    by: Annotated[tuple[str, ...], PlainValidator(checks.attribute_names)] = ()

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        return {"at_most": value} if checks.is_integer(value) else value


class InferenceControl(Declaration):
    """A limit of how precisely purchases may make a count known.

    No interval at ``confidence`` may become narrower than ± ``min_half_width`` records, unless
    history shows at this confidence that the count is ``min_count`` or more. Without ``min_count``
    the limit holds for counts of any size.
    """

    min_half_width: Annotated[float, PlainValidator(checks.half_width)] = Field(
        description="the least half-width of an interval, a positive number of records"
    )
    confidence: _Confidence = 0.95
    min_count: Annotated[int | None, PlainValidator(checks.min_count)] = None


class Invariant(Declaration):
    """Counts of a table that are published exactly, without protection.

    They are the counts of a query, ``sql``, in PostgreSQL's SQL; or the counts in a column of a
    public table, ``from_public``, whose other columns are matched with the table's attributes.

    ``acknowledge`` lists small counts that this reveals and that the custodian accepts.
    """

    sql: Annotated[str, AfterValidator(checks.query)] | None = Field(
        default=None,
        description='a SELECT in quotes, such as "SELECT state, count(*) FROM person GROUP…"',
    )
    from_public: Annotated[tuple[str, str] | None, PlainValidator(checks.public_column)] = None
    acknowledge: Annotated[tuple[str, ...], PlainValidator(checks.acknowledged)] = ()

    @property
    def source(self) -> str:
        """Where its counts come from, as the policy writes it."""
        return self.sql or ".".join(self.from_public or ())


class Budget(Declaration):
    """A total privacy loss per privacy unit, exactly as written, in one of three forms.

    ``epsilon`` alone: pure ε-DP. ``rho`` and ``delta``: ρ-zCDP, also reported as ε at δ.
    ``epsilon`` and ``delta``: the largest ρ of zCDP that implies (ε, δ)-DP. An analyst's share
    uses its table's ``delta``.
    """

    epsilon: _Epsilon = None
    rho: _Rho = None
    delta: Annotated[Fraction | None, PlainValidator(checks.delta)] = None

    @property
    def pure(self) -> bool:
        """Whether the ledger counts it in ε; otherwise in ρ."""
        return self.delta is None


class Defaults(Declaration):
    """A session's initial settings: a cost ``epsilon`` or ``rho``, or a target ``half_width``.

    ``mechanism`` is a mechanism's name, or "auto". ``nonnegative``: no count is reported below 0.
    """

    epsilon: _Epsilon = None
    rho: _Rho = None
    half_width: Annotated[float | None, PlainValidator(checks.half_width)] = None
    confidence: _Confidence = 0.95
    mechanism: Annotated[str, PlainValidator(checks.mechanism)] = "auto"
    nonnegative: bool = Field(default=False, description="true or false")


@dataclass(frozen=True)
class Table:
    """One protected table.

    - ``origin``: the source's table, view or SELECT; its column ``columns[i]`` holds
      ``domain.attributes[i]``.
    - ``neighbours``: neighbouring tables differ in one privacy unit, added or removed
      (``add_remove``) or exchanged for another (``replace``).
    - ``count``: a column of whole numbers, the number of records that each row of the source stands
      for; each of these records is a unit by itself.
    - ``mechanisms``: the names of those that may answer, None if all may.
    - ``count_range`` bounds how many records have equal values, ``inference_control`` how precisely
      a count may become known, and ``limits`` what the ledger records.
    - ``beside``: tables in the ledger, of the same rows or from former policies. The custodian
      accepts that this table has a budget of its own in addition to theirs.
    - ``invariants``: those that the custodian declares; `exact` has all.
    """

    name: str
    origin: str
    source_url: str | None
    privacy_unit: PrivacyUnit
    neighbours: Neighbours
    budget: Budget
    domain: Domain
    columns: tuple[str, ...]
    count: str | None = None
    mechanisms: tuple[str, ...] | None = None
    count_range: CountRange | None = None
    inference_control: InferenceControl | None = None
    limits: Limits = field(default_factory=Limits)
    beside: tuple[str, ...] = ()
    invariants: tuple[Invariant, ...] = ()

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.domain.attributes):
            raise ValueError(f"table {self.name}: every attribute needs a column")
        if self.count is not None and self.privacy_unit != PrivacyUnit():
            raise ValueError(f"table {self.name}: count needs the privacy unit of one row")
        if self.count_range and not set(self.count_range.by) <= set(self.domain.names):
            raise ValueError(f"table {self.name}: count_range.by must name its attributes")

    @property
    def unit_words(self) -> str:
        """A short name of one privacy unit, for messages."""
        return self.privacy_unit.column or ("row" if self.count is None else f"one of {self.count}")

    @property
    def capped(self) -> str | None:
        """How many rows of a privacy unit are counted, for messages; None where all are."""
        unit = self.privacy_unit
        if unit.column is None:
            return None
        rows = (
            "1 row of each {} is"
            if unit.max_rows == 1
            else f"{unit.max_rows} rows of each {{}} are"
        )
        return (
            f"at most {rows.format(unit.column)} counted, and totals are too low where one has more"
        )

    @property
    def whole(self) -> bool:
        """Whether every record of the source is a row of the table, for any values of the record.

        A SELECT may filter, a CSV file can have lines that cannot be read, and a row without a
        privacy unit is left out: then replacing a record may change the number of rows.
        """
        named = is_table_reference(self.origin)
        alone = self.privacy_unit.column is None
        return named and alone and self.left_out is None

    @property
    def left_out(self) -> str | None:
        """As `SourceKind.left_out`; None for a table in memory."""
        kind = source_kind(self.source_url or "")
        return None if kind is None else kind.left_out

    @property
    def total_public(self) -> bool:
        """Whether ``replace`` makes the number of rows public, so that count(*) is exact."""
        return self.neighbours == "replace" and self.domain.complete and self.whole

    @property
    def exact(self) -> tuple[Invariant, ...]:
        """All invariants, including the number of records if the neighbouring relation makes it
        public."""
        if not self.total_public:
            return self.invariants
        return (Invariant(sql=f"SELECT count(*) FROM {self.name}"), *self.invariants)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of everything that determines the meaning of the ledger's charges.

        It covers where the rows come from, the neighbouring relation, the privacy unit and the
        domain. It does not cover the invariants, each of which the ledger records separately, nor
        the budget, the range of counts, the inference control, the limits and the defaults, which
        the custodian may change later.
        """
        own = self.privacy_unit
        unit = (own.column, own.max_rows, *([] if self.count is None else [self.count]))
        origin = (self.name, self.origin, self.source_url)
        return digest(origin, self.neighbours, unit, self.domain, self.columns)


@dataclass(frozen=True)
class PublicTable:
    """A table that everyone may see: ``origin`` read from ``file``, or from the policy's source.

    No charge depends on it. A charge records the coefficients themselves, so a change of a public
    table affects later questions, but no past charge.
    """

    name: str
    origin: str
    file: Source | None = None


@dataclass(frozen=True)
class Policy:
    """The custodian's declarations. ``path`` is the file they were read from, if any. A ledger
    that is missing is made, unless it ``must_exist``.

    ``views`` are queries by name, in PostgreSQL's SQL, over tables and public tables.
    ``analysts[NAME][TABLE]`` is an analyst's share of a table's budget, a budget of the same kind:
    the most that this analyst's purchases may cost. If analysts are declared, nobody else may buy;
    if none are, everybody may, up to the tables' budgets.
    """

    tables: Mapping[str, Table]
    ledger: Path
    ledger_must_exist: bool = False
    source: Source | None = None
    defaults: Defaults = field(default_factory=Defaults)
    path: Path | None = None
    public: Mapping[str, PublicTable] = field(default_factory=dict)
    views: Mapping[str, str] = field(default_factory=dict)
    analysts: Mapping[str, Mapping[str, Budget]] = field(default_factory=dict)
    server: Serving = field(default_factory=Serving)
    catalog: CatalogChoice = field(default_factory=CatalogChoice)
