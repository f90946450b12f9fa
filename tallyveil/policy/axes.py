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
from tallyveil.policy.value_checks import MAX_CELLS, exact_number, is_integer, listed

__all__ = ["AttributeDeclaration", "attribute"]

_KINDS = ("values", "range", "bins")
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
    """Check both ends of an inclusive range of whole numbers or of days."""
    expected = "[lowest, highest], two whole numbers or two dates"
    given = listed(value, expected)
    if len(given) != 2 or not (all(is_integer(v) for v in given) or all(_is_day(v) for v in given)):
        raise wrong(f"expected {expected}")
    low, high = given
    if low > high:
        raise wrong(f"expected {expected}, the lower end first")
    if is_integer(low):
        _need_64_bits(given)
    size = high - low + 1 if is_integer(low) else (high - low).days + 1
    if size > MAX_CELLS:
        raise wrong(f"expected at most {MAX_CELLS:,} cells, found {size:,}; declare bins")
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


def _need_64_bits(given: Sequence[int]) -> None:
    if not all(-_INT64 <= v < _INT64 for v in given):
        raise wrong("expected whole numbers of at most 64 bits")


def _is_day(value: Any) -> bool:
    return isinstance(value, dt.date) and not isinstance(value, dt.datetime)


class AttributeDeclaration(Declaration):
    """The keys of one attribute. `domain.Attribute` documents their meaning."""

    values: Annotated[Any, PlainValidator(_values)] = None
    range: Annotated[Any, PlainValidator(_range_ends)] = None
    bins: Annotated[Any, PlainValidator(_bins)] = None
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

    def conflicts(self) -> Iterator[InitErrorDetails]:
        kinds = [kind for kind in _KINDS if getattr(self, kind) is not None]
        if len(kinds) != 1:
            found = " and ".join(kinds) if kinds else "none"
            yield conflict(f"expected exactly one of {', '.join(_KINDS)}; found {found}")
            return
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


def attribute(name: str, declared: AttributeDeclaration) -> Attribute:
    """Return the axis: the declared cells in their order, then ``other``, then NULL.

    Among text, ``other`` is a label. Numbers, dates and booleans have no value that could stand for
    it, so there it shares the NULL cell. A NULL goes to ``other`` if there is no cell for it.
    """
    kind, cells, edges = _declared(declared)
    sql_type = _sql_type(edges if edges is not None else cells)
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
    )


def _declared(
    declared: AttributeDeclaration,
) -> tuple[str, tuple[Value, ...], tuple[int | float, ...] | None]:
    """Return kind, cells and edges, without the cells of ``other`` and NULL."""
    if declared.values is not None:
        return "values", declared.values, None
    if declared.bins is not None:
        return "bins", declared.bins[:-1], declared.bins
    low, high = declared.range
    if isinstance(low, dt.date):
        first, last = low.toordinal(), high.toordinal()
        return "range", tuple(dt.date.fromordinal(d) for d in range(first, last + 1)), None
    return "range", tuple(range(low, high + 1)), None


def _sql_type(cells: Sequence[Value]) -> str:
    """Return DuckDB's type of the declared cells, which are all of one Python type."""
    match cells[0]:
        case bool():
            return "BOOLEAN"
        case str():
            return "VARCHAR"
        case dt.date():
            return "DATE"
        case float():
            return "DOUBLE"
    small = all(isinstance(c, int) and -_INT32 <= c < _INT32 for c in cells)
    return "INTEGER" if small else "BIGINT"
