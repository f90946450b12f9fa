"""The public domain of a protected table: finite, complete axes with named cells.

An *attribute* is one axis; its *cells* are the values that a record can have there. The product of
the axes is the cube: ``x`` in ``N^n`` counts the records of each cell (BAYES §2.4). Everything here
is public: it comes from the policy, never from the data.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from tallyveil.cache import cached_property
from tallyveil.interval import Interval

__all__ = [
    "JOINT", "Attribute", "Domain", "Key", "Neighbours", "Step", "Value", "duration", "shown",
    "step_text",
]  # fmt: skip

JOINT: Final = "joint"
"""The kind of an axis of joint codes (`Attribute.joint`)."""

Neighbours: TypeAlias = Literal["add_remove", "replace"]
"""Neighbouring tables differ by one record added or removed, or by one record replaced."""

Value: TypeAlias = str | bool | int | float | Decimal | dt.date | dt.time | dt.timedelta | None

Step: TypeAlias = dt.timedelta | Decimal
"""The distance of two cells of a range: a whole number of seconds, or a decimal number."""

_INSTANTS = ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE")


def shown(value: Value) -> str:
    """Return the value as SQL writes it, text without quotes."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case dt.timedelta():
            return str(Interval(0, 0, value // dt.timedelta(microseconds=1)))
    return str(value)


def step_text(step: Step) -> str:
    """Return the step as the policy writes it."""
    if not isinstance(step, dt.timedelta):
        return f"{step:f}"
    seconds = int(step.total_seconds())
    sizes = {3600: "hour", 60: "minute", 1: "second"}
    size = next(size for size in sizes if seconds % size == 0)
    number = seconds // size
    return f"{number} {sizes[size]}{'s' if number > 1 else ''}"


def duration(text: str) -> dt.timedelta:
    """Return the duration of which this is `str`, such as 1 day, 12:00:00."""
    days, _, clock = text.rpartition(", ")
    hours, minutes, seconds = map(int, clock.split(":"))
    whole = int(days.split()[0]) if days else 0
    return dt.timedelta(days=whole, hours=hours, minutes=minutes, seconds=seconds)


@dataclass(frozen=True)
class Attribute:
    """One axis of the cube.

    ``kind`` is the key that declares it: "values", "range" or "bins". ``cells[i]`` is the value
    that an analyst's SQL sees for a record in cell ``i``: a declared value, an integer or a day of
    a range, the lower edge of a bin or what represents it, the label of ``other``, or None for the
    NULL cell. ``sql_type`` is the DuckDB type of these values.

    A record with an undeclared value goes to ``other_cell``, or with ``clamp`` to the nearest end;
    a NULL goes to ``null_cell``, or else to ``other_cell``. If there is no such cell, the record is
    left out of the table (see `complete`).

    ``truncates`` is the DuckDB type of the source's column if it is finer than the cells, so that
    one cell holds several of its values: TIMESTAMP or TIMESTAMP WITH TIME ZONE for days, or
    VARCHAR, which may or may not be finer. It is None before the source is opened, and if each cell
    is one value.

    ``represented`` bins have one value for all numbers in them, which may be computed with.

    ``prefix``: of a text, only so many characters are read.

    ``step`` is the distance of two cells of a range whose values are rounded to them when they are
    read: what the source holds between two steps is no value of the table. Of times with a zone,
    which are instants, the cells are in UTC. With ``rounds``, a
    predicate may compare the attribute with a constant between two steps.

    ``joined``: it is an axis of the table's cells, but an attribute of another table's row of the
    same unit, and no column of this table.

    ``joint`` where the policy was migrated: a ledger has an axis of joint codes instead of this
    one, and this is for each of its cells the cell here, −1 for what is not counted here. Such an
    axis itself is of the kind ``JOINT``; several of its cells may have one value, and with
    ``covers`` every conceivable value has a cell.
    """

    name: str
    kind: str
    sql_type: str
    cells: tuple[Value, ...]
    edges: tuple[int | float, ...] | None = None
    null_cell: int | None = None
    other_cell: int | None = None
    clamp: bool = False
    truncates: str | None = None
    step: Step | None = None
    rounds: bool = False
    represented: bool = False
    prefix: int | None = None
    joined: bool = False
    joint: tuple[int, ...] | None = None
    covers: bool = False

    def __post_init__(self) -> None:
        if not self.cells:
            raise ValueError(f"attribute {self.name} has no cells")
        if self.step is None and self.kind != JOINT and len(set(self.cells)) != len(self.cells):
            raise ValueError(f"attribute {self.name} declares a cell twice")
        for cell in (self.null_cell, self.other_cell):
            if cell is not None and not 0 <= cell < len(self.cells):
                raise ValueError(f"attribute {self.name} has no cell {cell}")

    @property
    def size(self) -> int:
        return len(self.cells)

    @property
    def step_text(self) -> str:
        """The step as the policy writes it; empty without one."""
        return "" if self.step is None else step_text(self.step)

    @cached_property
    def declared(self) -> frozenset[Value]:
        """The values of the cells, without NULL."""
        return frozenset(cell for cell in self.cells if cell is not None)

    @cached_property
    def ends(self) -> tuple[Any, Any] | None:
        """The lowest and the highest declared number or day, or the outer edges of bins; None for
        texts and booleans.
        """
        if self.edges is not None:
            return self.edges[0], self.edges[-1]
        if self.stepped:  # in order, before the cells of other values and NULL
            special = {self.null_cell, self.other_cell} - {None}
            return self.cells[0], self.cells[self.size - len(special) - 1]
        ordered = [v for v in self.cells if not isinstance(v, str | bool) and v is not None]
        return (min(ordered), max(ordered)) if ordered else None

    @property
    def coarse(self) -> bool:
        """Whether a cell certainly holds values that a predicate on the source could
        distinguish."""
        return self.binned or self.truncates in _INSTANTS

    @property
    def binned(self) -> bool:
        """Whether the declared cells are intervals between ``edges``."""
        return self.edges is not None

    @property
    def ordered(self) -> bool:
        """Whether the declared cells follow each other without a gap."""
        return self.kind in ("range", "bins")

    @property
    def stepped(self) -> bool:
        """Whether the declared cells follow each other without a gap, and each is one value."""
        return self.ordered and not self.binned

    @property
    def complete(self) -> bool:
        """Whether every conceivable value has a cell here, so that no record is left out."""
        outside = self.other_cell is not None or self.clamp
        null = self.null_cell is not None or self.other_cell is not None
        return self.covers or (outside and null)


@dataclass(frozen=True)
class Domain:
    """The cube's axes in declared order."""

    table: str
    attributes: tuple[Attribute, ...]

    def __post_init__(self) -> None:
        names = [a.name for a in self.attributes]
        if len(set(names)) != len(names):
            raise ValueError(f"table {self.table} declares an attribute twice")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.attributes)

    @property
    def own(self) -> tuple[Attribute, ...]:
        """The attributes that are columns of the table itself."""
        return tuple(a for a in self.attributes if not a.joined)

    @property
    def size(self) -> int:
        """n, the number of cells of the cube."""
        return math.prod(a.size for a in self.attributes)

    @property
    def complete(self) -> bool:
        """Whether every record lies in exactly one cell, so that N is the sum of the cells."""
        return all(a.complete for a in self.attributes)

    def with_joint(self, joint: Mapping[str, tuple[int, ...]]) -> Domain:
        """The domain with these `Attribute.joint`, by name."""
        attributes = (replace(a, joint=joint.get(a.name)) for a in self.attributes)
        return Domain(self.table, tuple(attributes))

    @cached_property
    def joint(self) -> dict[str, tuple[int, ...]]:
        """`Attribute.joint` of the axes that have it, by name."""
        return {a.name: a.joint for a in self.attributes if a.joint is not None}

    def __getitem__(self, name: str) -> Attribute:
        for attribute in self.attributes:
            if attribute.name == name:
                return attribute
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return any(a.name == name for a in self.attributes)

    def project(self, names: Iterable[str]) -> tuple[Attribute, ...]:
        """Return the named attributes, in declared order. Raises KeyError for unknown names."""
        wanted = set(names)
        unknown = wanted.difference(self.names)
        if unknown:
            raise KeyError(", ".join(sorted(unknown)))
        return tuple(a for a in self.attributes if a.name in wanted)


class Key(NamedTuple):
    """``column`` of a keyed table names the unit, as ``head_column`` does in the table ``head``."""

    column: str
    head: str
    head_column: str

    @property
    def found(self) -> str:
        """The name of the axis that says whether the head has a counted row of the unit."""
        return self.axis(f"{self.head_column} found")

    def axis(self, name: str) -> str:
        """The name of the axis of an attribute of the head. No declared name has a dot."""
        return f"{self.head}.{name}"
