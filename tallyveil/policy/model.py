"""The policy as the other rooms see it: immutable values, public facts only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, Field, PlainValidator, model_validator

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
    """Whose presence is protected: one row, written ``"row"``, or all rows that share a value of
    ``column``.

    At most ``max_rows`` rows of a unit are counted, so one unit moves the cube by at most
    ``max_rows`` in the L1 norm under add/remove.
    """

    column: str | None = Field(default=None, min_length=1, description="the name of a column")
    max_rows: Annotated[int, PlainValidator(checks.max_rows)] = 1

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        return {} if value == "row" else value


class CountRange(Declaration):
    """What the custodian vouches for: at most ``at_most`` records have the same values of the
    attributes ``by``, NULL and "other" being values too; of no attributes, at most that many are
    in the table. ``20`` is written for a range by no attributes.
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
    """How precisely a count may become known by what is bought: no interval at ``confidence`` is
    to be narrower than ± ``min_half_width`` records, unless history says at this confidence that
    the count is ``min_count`` or more. Without ``min_count`` it holds for counts of any size.
    """

    min_half_width: Annotated[float, PlainValidator(checks.half_width)] = Field(
        description="the least half-width of an interval, a positive number of records"
    )
    confidence: _Confidence = 0.95
    min_count: Annotated[int | None, PlainValidator(checks.min_count)] = None


class Invariant(Declaration):
    """Counts of a table that are published exactly, without protection: those that ``sql`` asks,
    in PostgreSQL's SQL; or those in a column of a public table, ``from_public``, which everybody
    has already, by what the other columns say of its attributes.

    ``acknowledge`` names small counts that become known by it, which the custodian has seen.
    """

    sql: Annotated[str, AfterValidator(checks.query)] | None = Field(
        default=None,
        description='a SELECT in quotes, such as "SELECT state, count(*) FROM person GROUP…"',
    )
    from_public: Annotated[tuple[str, str] | None, PlainValidator(checks.public_column)] = None
    acknowledge: Annotated[tuple[str, ...], PlainValidator(checks.acknowledged)] = ()

    @property
    def source(self) -> str:
        """Where its counts are from, as the policy says it."""
        return self.sql or ".".join(self.from_public or ())


class Budget(Declaration):
    """A total privacy loss per privacy unit, exactly as written, in one of three forms.

    ``epsilon`` alone: pure ε-DP. ``rho`` and ``delta``: ρ-zCDP, stated as ε at δ too. ``epsilon``
    and ``delta``: the largest ρ of zCDP that implies (ε, δ)-DP. An analyst's share is written
    without ``delta``, which is its table's.
    """

    epsilon: _Epsilon = None
    rho: _Rho = None
    delta: Annotated[Fraction | None, PlainValidator(checks.delta)] = None

    @property
    def pure(self) -> bool:
        """Whether it is counted in ε, and not in ρ."""
        return self.delta is None


class Defaults(Declaration):
    """What a session starts with: a cost ``epsilon`` or ``rho``, or a target ``half_width``.

    ``mechanism`` is the name of one, or "auto". ``nonnegative``: no count is reported below 0.
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

    ``origin`` is the source's table, view or SELECT; ``columns[i]`` is its column that holds
    ``domain.attributes[i]``. Neighbouring tables differ in one privacy unit, added or removed
    (``add_remove``) or exchanged for another (``replace``). With ``count``, a column of whole
    numbers, each row of the source stands for so many records, and each of these is a unit by
    itself. ``mechanisms`` are the names of those that may answer, None if all may. ``count_range``
    bounds how many records are alike, and
    ``inference_control`` how precisely a count may become known. ``limits`` bound what the ledger
    records. ``beside`` names tables the ledger knows, of the same rows or from former policies: the
    custodian knows that this one has a budget of its own beside theirs. ``invariants`` are what the
    custodian declares; `exact` has the others too.
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
            raise ValueError("a row that stands for several records is no row of one unit")
        if self.count_range and not set(self.count_range.by) <= set(self.domain.names):
            raise ValueError(f"table {self.name}: a range of counts goes by its attributes")

    @property
    def unit_words(self) -> str:
        """What one privacy unit is, in a few words."""
        return self.privacy_unit.column or ("row" if self.count is None else f"one of {self.count}")

    @property
    def whole(self) -> bool:
        """Whether every record of the source is a row of the table, whatever it says.

        A SELECT may filter, a CSV file has lines that cannot be read, and a row without a privacy
        unit is left out: then exchanging a record may change the number of rows.
        """
        named = is_table_reference(self.origin)
        alone = self.privacy_unit.column is None
        return named and alone and self.left_out is None

    @property
    def left_out(self) -> str | None:
        """As `SourceKind.left_out`; a table in memory has none such."""
        kind = source_kind(self.source_url or "")
        return None if kind is None else kind.left_out

    @property
    def total_public(self) -> bool:
        """Whether ``replace`` makes the number of rows public, so that count(*) is exact."""
        return self.neighbours == "replace" and self.domain.complete and self.whole

    @property
    def exact(self) -> tuple[Invariant, ...]:
        """All invariants: the number of records too, where the neighbouring relation makes it
        public."""
        if not self.total_public:
            return self.invariants
        return (Invariant(sql=f"SELECT count(*) FROM {self.name}"), *self.invariants)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all that gives the ledger's charges their meaning.

        It covers where the rows come from, the neighbouring relation, the privacy unit and the
        domain; not the invariants, each of which the ledger records by itself; and not the budget,
        the range of counts, the inference control, the limits or the defaults, which may be changed
        later on.
        """
        own = self.privacy_unit
        unit = (own.column, own.max_rows, *([] if self.count is None else [self.count]))
        origin = (self.name, self.origin, self.source_url)
        return digest(origin, self.neighbours, unit, self.domain, self.columns)


@dataclass(frozen=True)
class PublicTable:
    """A table anyone may see in full: ``origin`` read from ``file``, or from the policy's source.

    It belongs to no charge's meaning. A charge records the coefficients themselves, so a public
    table that changes later changes later questions and no past charge.
    """

    name: str
    origin: str
    file: Source | None = None


@dataclass(frozen=True)
class Policy:
    """The custodian's declarations. ``path`` is the file they were read from, if any.

    ``views`` are queries by name, in PostgreSQL's SQL, over the tables and the public ones.
    ``analysts[NAME][TABLE]`` is an analyst's share of a table's budget, as a budget of the same
    kind: the most that what this analyst buys may cost. Where there are analysts nobody else may
    buy; where there are none, everybody may, up to the tables' budgets.
    """

    tables: Mapping[str, Table]
    ledger: Path
    source: Source | None = None
    defaults: Defaults = field(default_factory=Defaults)
    path: Path | None = None
    public: Mapping[str, PublicTable] = field(default_factory=dict)
    views: Mapping[str, str] = field(default_factory=dict)
    analysts: Mapping[str, Mapping[str, Budget]] = field(default_factory=dict)
    server: Serving = field(default_factory=Serving)
    catalog: CatalogChoice = field(default_factory=CatalogChoice)
