"""The keys of a protected table that are tables of keys themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from pydantic import Field, PlainValidator, model_validator
from pydantic_core import InitErrorDetails

from tallyveil.policy.declaration import Declaration, conflict, wrong
from tallyveil.policy.value_checks import (
    AttributeNames,
    Confidence,
    CountTexts,
    Delta,
    Epsilon,
    HalfWidth,
    LargestCount,
    MaxRows,
    MinCount,
    PublicColumn,
    Query,
    Rho,
    is_integer,
    whole_of,
)

__all__ = [
    "Budget",
    "CountRange",
    "InferenceControl",
    "Invariant",
    "PerUnit",
    "PrivacyUnit",
    "Share",
]


def _period(value: Any) -> str:
    if value == "day":
        return "day"
    raise wrong('expected "day"')


class PrivacyUnit(Declaration):
    """The unit of protection: one row, written ``"row"``, or all rows that share a value of
    ``column``.

    At most ``max_rows`` rows of a unit are counted, whether they have a cell or not, so one unit
    moves the cube by at most ``max_rows`` in the L1 norm under add/remove.

    They are chosen by a hash of the row, or are the earliest by the column ``earliest_by``, and the
    hash chooses among equal times.

    Of data that grows, so many ``per`` day may be counted instead of in all. Then what is protected
    are a unit's rows of any ``window`` successive days (w-event privacy: Kellaris, Papadopoulos,
    Xiao, Papadias 2014).
    """

    column: str | None = Field(default=None, min_length=1, description="the name of a column")
    max_rows: MaxRows = 1
    earliest_by: str | None = Field(
        default=None, min_length=1, description="the name of a column of times or days"
    )
    per: Annotated[Any, PlainValidator(_period)] = None
    window: Annotated[int, whole_of("days", 3660)] = 1

    @property
    def declared(self) -> Any:
        """Its keys, as a ledger is bound to them."""
        if self.column is None:
            return "row"
        period = {"per", "window"} if self.per is not None else set()
        chosen = {"earliest_by"} if self.earliest_by is not None else set()
        return self.model_dump(include={"column", "max_rows", *period, *chosen})

    @property
    def alone(self) -> bool:
        """Whether a unit has one row at most."""
        return self.max_rows == 1 and self.per is None

    @property
    def known_rows(self) -> int:
        """The most rows of a unit, 2 standing for any number where they are bounded by the day."""
        return self.max_rows if self.per is None else max(2, self.protected_rows)

    @property
    def protected_rows(self) -> int:
        """The most rows that are protected together."""
        return self.max_rows * self.window

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        return {"column": None, "max_rows": 1} if value == "row" else value

    def conflicts(self) -> Iterator[InitErrorDetails]:
        missing = [key for key in ("column", "max_rows") if key not in self.model_fields_set]
        if missing:
            yield conflict(
                f'{" and ".join(missing)} missing; expected "row" or'
                ' { column = "…", max_rows = 3 }'
            )
        if "window" in self.model_fields_set and self.per is None:
            yield conflict('expected with per = "day" only', "window")


class Share(Declaration):
    """A share of a table's budget, in the unit of that budget and at its ``delta``."""

    _forms: ClassVar[str] = "the unit of its table's budget"

    epsilon: Epsilon | None = None
    rho: Rho | None = None
    delta: Delta | None = None

    def conflicts(self) -> Iterator[InitErrorDetails]:
        if (self.epsilon is None) == (self.rho is None):
            found = "neither is given" if self.epsilon is None else "both are given"
            yield conflict(f"{found}, epsilon and rho; expected {self._forms}")


class PerUnit(Declaration):
    """An attribute that says how many rows of its unit the table ``count`` counts: all, or those
    that meet ``where``, a condition in the source's SQL on columns of that table. More than
    ``at_most`` are counted as so many.
    """

    count: str = Field(description='the name of a table with a key to this one, such as "visit"')
    where: str | None = Field(
        default=None, min_length=1, description="a condition in quotes, such as \"ward = 'north'\""
    )
    at_most: LargestCount | None = Field(default=None, description="a whole number")


class CountRange(Declaration):
    """A bound that the custodian guarantees: at most ``at_most`` records have the same values of
    the attributes ``by``, where NULL and "other" count as values.

    Without attributes, the table has at most ``at_most`` records; this can be written as a number.
    """

    at_most: LargestCount = Field(description="the largest possible count, a whole number")
    by: AttributeNames = ()

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> Any:
        return {"at_most": value} if is_integer(value) else value


class InferenceControl(Declaration):
    """A limit of how precisely purchases may make a count known.

    No interval at ``confidence`` may become narrower than ± ``min_half_width`` records, unless
    history shows at this confidence that the count is ``min_count`` or more. Without ``min_count``
    the limit holds for counts of any size.
    """

    min_half_width: HalfWidth = Field(
        description="the least half-width of an interval, a positive number of records"
    )
    confidence: Confidence = 0.95
    min_count: MinCount | None = None


class Invariant(Declaration):
    """Counts of a table that are published exactly, without protection.

    They are the counts of a query, ``sql``, in PostgreSQL's SQL; or the counts in a column of a
    public table, ``from_public``, whose other columns are matched with the table's attributes.

    ``acknowledge`` lists small counts that this reveals and that the custodian accepts.
    """

    sql: Query | None = Field(
        default=None,
        description='a SELECT in quotes, such as "SELECT state, count(*) FROM person GROUP…"',
    )
    from_public: PublicColumn | None = None
    acknowledge: CountTexts = ()

    def conflicts(self) -> Iterator[InitErrorDetails]:
        if (self.sql is None) == (self.from_public is None):
            found = "neither is given" if self.sql is None else "both are given"
            yield conflict(f'expected sql = "SELECT …" or from_public = "…"; {found}')

    @property
    def source(self) -> str:
        """Where its counts come from, as the policy writes it."""
        return self.sql or ".".join(self.from_public or ())


class Budget(Share):
    """A total privacy loss per privacy unit, exactly as written, in one of three forms.

    ``epsilon`` alone: pure ε-DP. ``rho`` and ``delta``: ρ-zCDP, also reported as ε at δ.
    ``epsilon`` and ``delta``: the largest ρ of zCDP that implies (ε, δ)-DP.
    """

    _forms: ClassVar[str] = (
        "{ epsilon = 3.0 }, { rho = 0.1, delta = 1e-9 } or { epsilon = 3.0, delta = 1e-9 }"
    )

    def conflicts(self) -> Iterator[InitErrorDetails]:
        yield from super().conflicts()
        if self.epsilon is None and self.rho is not None and self.delta is None:
            yield conflict(f"delta missing; expected {self._forms}")

    @property
    def pure(self) -> bool:
        """Whether the ledger counts it in ε; otherwise in ρ."""
        return self.delta is None
