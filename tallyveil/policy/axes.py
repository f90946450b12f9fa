"""The declaration of an attribute, and the axis of the cube that it becomes."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Annotated, Any

from pydantic import Field, PlainValidator
from pydantic_core import InitErrorDetails

from tallyveil.policy.declaration import Declaration, conflict, mistaken, wrong
from tallyveil.policy.domain import Attribute, Value
from tallyveil.policy.mistakes import written
from tallyveil.policy.steps import (
    as_instant,
    decimal_type,
    decimals,
    duration_of,
    is_time,
    number_of,
    range_mistake,
    step_of,
    stepped_cells,
)
from tallyveil.policy.value_checks import (
    MAX_CELLS,
    PublicColumn,
    exact_number,
    is_integer,
    listed,
    whole_of,
)

__all__ = ["UNREAD", "AttributeDeclaration", "attribute"]

_KINDS = ("values", "values_from", "range", "bins")
UNREAD = "unread"
"""The kind of an attribute whose values are not read yet (`cube.declared_values`)."""
_LABEL = "other"
_INT32 = 2**31
_INT64 = 2**63


def _values(value: Any) -> tuple[Any, ...]:
    """Check distinct values of one type: text, booleans, whole numbers, or dates."""
    expected = "a list of values of one type: text, booleans, whole numbers or dates"
    given = listed(value, expected)
    if not given:
        raise wrong(f"expected {expected}; it is empty")
    if len(given) > MAX_CELLS:
        raise wrong(f"expected at most {MAX_CELLS:,} values, found {len(given):,}")
    if any(isinstance(v, float | Decimal) for v in given):
        raise wrong(f"expected {expected}; for numbers with a fraction declare bins")
    kind = type(given[0])
    if kind not in (str, bool, int, dt.date) or any(type(v) is not kind for v in given):
        raise wrong(f"expected {expected}")
    if kind is int:
        _need_64_bits(given)
    if kind is str and any("\0" in v for v in given):
        raise wrong("expected text without NUL characters")
    seen: set[Any] = set()
    for item in given:
        if item in seen:
            raise wrong(f"expected each value once; {written(item)} occurs twice")
        seen.add(item)
    return tuple(given)


def _range_ends(value: Any) -> tuple[Any, Any]:
    """Check both ends of an inclusive range of numbers, days or times."""
    expected = "[lowest, highest], two whole numbers or two dates; or, with a step, two numbers of"
    expected += " at most 6 decimals, two timestamps, two times of day, or two durations such as"
    expected += ' "72 hours", in whole seconds'
    given = [duration_of(as_instant(v)) for v in listed(value, expected)]
    if len({v.tzinfo is None for v in given if isinstance(v, dt.datetime)}) > 1:
        raise wrong(
            f"expected {expected}, both with an offset or neither: with one, such as"
            " 2026-01-01 00:00:00Z, they are instants, which each session sees in its time zone"
        )
    if len(given) == 2 and not all(is_integer(v) for v in given):
        timed = dt.date | dt.time | dt.timedelta
        given = [v if isinstance(v, timed) else number_of(v) for v in given]
    kinds = {dt.date if _is_day(v) else type(v) for v in given}
    if len(given) != 2 or len(kinds) > 1 or not all(map(_is_end, given)):
        raise wrong(f"expected {expected}")
    low, high = given
    if low > high:
        raise wrong(f"expected {expected}, the lower end first")
    if is_integer(low):
        _need_64_bits(given)
    return low, high


def _bins(value: Any) -> tuple[int | float, ...]:
    """Check increasing edges of half-open bins [a, b). They become floats unless all are whole."""
    expected = "a list of at least two increasing numbers, the edges of the bins [a, b)"
    given = listed(value, expected)
    if len(given) < 2 or any(exact_number(v) is None for v in given):
        raise wrong(f"expected {expected}")
    if len(given) - 1 > MAX_CELLS:
        raise wrong(f"expected at most {MAX_CELLS:,} bins, found {len(given) - 1:,}")
    edges: list[int | float]
    if all(is_integer(v) for v in given):
        edges = given
        _need_64_bits(given)
    else:
        edges = [float(v) + 0.0 for v in given]  # + 0.0 turns -0.0 into 0.0
    increasing = all(a < b for a, b in pairwise(edges))
    if not increasing or not all(math.isfinite(e) for e in edges):
        raise wrong(f"expected {expected}")
    return tuple(edges)


def _represented(value: Any) -> Any:
    """Check the values that stand for the numbers of bins."""
    if value == "middle":
        return value
    expected = '"middle", or a list of a number for each bin, of at most 6 decimals'
    numbers = [number_of(one) for one in listed(value, expected)]
    if None in numbers:
        raise wrong(f"expected {expected}")
    return tuple(numbers)


def _need_64_bits(given: Sequence[int]) -> None:
    if not all(-_INT64 <= v < _INT64 for v in given):
        raise wrong("expected whole numbers of at most 64 bits")


def _is_day(value: Any) -> bool:
    return isinstance(value, dt.date) and not isinstance(value, dt.datetime)


def _is_end(value: Any) -> bool:
    return is_integer(value) or isinstance(value, Decimal) or _is_day(value) or is_time(value)


class AttributeDeclaration(Declaration):
    """The keys of one attribute. `domain.Attribute` documents their meaning."""

    values: Annotated[Any, PlainValidator(_values)] = None
    values_from: PublicColumn | None = None
    range: Annotated[Any, PlainValidator(_range_ends)] = None
    bins: Annotated[Any, PlainValidator(_bins)] = None
    represent: Annotated[Any, PlainValidator(_represented)] = None
    step: Annotated[Any, PlainValidator(step_of)] = None
    prefix: Annotated[Any, whole_of("characters", 1000)] = None
    round: bool = Field(default=False, description="true or false")
    nullable: bool = Field(default=False, description="true or false")
    other: bool | str = Field(
        default=False, description="true, false, or (for text values) a label"
    )
    clamp: bool = Field(default=False, description="true or false")
    column: str | None = Field(default=None, min_length=1, description="the name of a column")

    @property
    def label(self) -> bool | str:
        """The label of ``other`` among text; true or false elsewhere, where it reads as NULL."""
        texts = self.values is not None and isinstance(self.values[0], str)
        return _LABEL if self.other is True and texts else self.other

    def keys(self, name: str) -> dict[str, Any]:
        """Return the keys that are given and say where records go, for the attribute of this
        ``name``; what means the same is written in one way."""
        fields = type(self).model_fields.items()
        given = {
            key: getattr(self, key)
            for key, one in fields
            if key != "round" and getattr(self, key) != one.default
        }
        if self.label is not False:
            given["other"] = self.label
        if self.column == name:
            del given["column"]
        return given

    def conflicts(self) -> Iterator[InitErrorDetails]:
        kinds = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(kinds) != 1:
            found = " and ".join(kinds) if kinds else "none"
            yield conflict(f"expected exactly one of {', '.join(_KINDS)}; found {found}")
            return
        if self.values_from is not None:
            return  # checked with the values
        if self.step is not None and self.range is None:
            yield conflict("expected with a range only", "step")
        yield from self._bin_conflicts()
        yield from self._prefix_conflicts()
        if self.round and self.step is None:
            yield mistaken(True, "expected with a step only; nothing else is rounded", "round")
        mistake = None if self.range is None else range_mistake(self.range, self.step)
        if mistake is not None:
            yield mistaken(self.range, mistake, "range")
        if self.clamp and self.values is not None:
            yield mistaken(True, "expected with range or bins only; values have no ends", "clamp")
        if self.clamp and self.other is not False:
            yield conflict("expected either clamp or other; both are given")
        label, values = self.label, self.values or ()
        if not isinstance(label, str):
            return
        if not (values and isinstance(values[0], str)):
            yield mistaken(
                self.other,
                "expected true or false; a label goes with text values only, elsewhere other reads"
                " as NULL",
                "other",
            )
        elif label in values:
            yield mistaken(
                self.other,
                f"expected a label that is not among the values; {written(label)} is, so write"
                ' other = "another label"',
                "other",
            )
        elif "\0" in label:
            yield mistaken(self.other, "expected text without NUL characters", "other")

    def _bin_conflicts(self) -> Iterator[InitErrorDetails]:
        if self.represent is None:
            return
        if self.bins is None:
            yield conflict("expected with bins only", "represent")
        elif self.represent != "middle" and not (
            len(self.represent) == len(self.bins) - 1
            and all(
                low <= (float(value) if isinstance(low, float) else value) < high
                for value, (low, high) in zip(self.represent, pairwise(self.bins), strict=True)
            )
        ):
            yield mistaken(
                self.represent, 'expected "middle", or a number within each bin', "represent"
            )

    def _prefix_conflicts(self) -> Iterator[InitErrorDetails]:
        if self.prefix is None:
            return
        if not (self.values and isinstance(self.values[0], str)):
            yield conflict("expected with values that are texts only", "prefix")
        elif any(len(value) > self.prefix for value in self.values):
            yield mistaken(self.prefix, "expected values of at most so many characters", "prefix")


def attribute(name: str, declared: AttributeDeclaration) -> Attribute:
    """Return the axis: the declared cells in their order, then ``other``, then NULL.

    Among text, ``other`` is a label. Numbers, dates and booleans have no value that could stand for
    it, so there it shares the NULL cell. A NULL goes to ``other`` if there is no cell for it.
    """
    kind, cells, edges = _declared(declared)
    sql_type = _sql_type(cells if edges is None or declared.represent is not None else edges)
    label = declared.label
    other_cell = null_cell = None
    if isinstance(label, str):
        other_cell = len(cells)
        cells = (*cells, label)
    if declared.nullable or label is True:
        null_cell = len(cells)
        other_cell = null_cell if label is True else other_cell
        cells = (*cells, None)
    return Attribute(
        name=name,
        kind=kind,
        sql_type=sql_type,
        cells=cells,
        edges=edges,
        null_cell=null_cell,
        other_cell=other_cell,
        clamp=declared.clamp,
        step=declared.step,
        rounds=declared.round,
        represented=declared.represent is not None,
        prefix=declared.prefix,
    )


def _declared(
    declared: AttributeDeclaration,
) -> tuple[str, tuple[Value, ...], tuple[int | float, ...] | None]:
    """Return kind, cells and edges, without the cells of ``other`` and NULL."""
    if declared.values is not None:
        return "values", declared.values, None
    if declared.values_from is not None:
        return UNREAD, ("",), None
    if declared.bins is not None:
        return "bins", _bin_values(declared), declared.bins
    low, high = declared.range
    if declared.step is not None:
        return "range", stepped_cells(low, high, declared.step), None
    if isinstance(low, dt.date):
        first, last = low.toordinal(), high.toordinal()
        return "range", tuple(dt.date.fromordinal(d) for d in range(first, last + 1)), None
    return "range", tuple(range(low, high + 1)), None


def _bin_values(declared: AttributeDeclaration) -> tuple[Value, ...]:
    """What the bins are shown as: their lower edges, or numbers of one type that represent them."""
    edges, represent = declared.bins, declared.represent
    if represent is None:
        return tuple(edges[:-1])
    if not is_integer(edges[0]):
        middles = [low / 2 + high / 2 for low, high in pairwise(edges)]
        return tuple(middles if represent == "middle" else map(float, represent))
    middles = [Decimal(low + high) / 2 for low, high in pairwise(edges)]
    numbers = middles if represent == "middle" else represent
    places = decimals(*numbers)
    if not places:
        return tuple(map(int, numbers))
    return tuple(one.quantize(Decimal(1).scaleb(-places)) for one in numbers)


def _sql_type(cells: Sequence[Value]) -> str:
    """Return DuckDB's type of the declared cells, which are all of one Python type."""
    match cells[0]:
        case bool():
            return "BOOLEAN"
        case str():
            return "VARCHAR"
        case dt.datetime():
            return "TIMESTAMP" if cells[0].tzinfo is None else "TIMESTAMP WITH TIME ZONE"
        case dt.date():
            return "DATE"
        case dt.time():
            return "TIME"
        case dt.timedelta():
            return "INTERVAL"
        case Decimal():
            return decimal_type(cells)
        case float():
            return "DOUBLE"
    small = all(isinstance(c, int) and -_INT32 <= c < _INT32 for c in cells)
    return "INTEGER" if small else "BIGINT"
