"""Arrays that summarise recorded columns, enough to choose among them.

Columns of one kind, whose factors have the same axes, are stored together. The arrays hold ends and
bounds of each factor, not its entries.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from tallyveil.arrays import BoolArray, FloatArray, IntArray
from tallyveil.cache import kept_with
from tallyveil.knowledge.recorded.prepared import CELLS
from tallyveil.workload.workload import Column, Factor

__all__ = [
    "ARRAYS",
    "Axes",
    "ColumnKind",
    "ColumnStore",
    "Hull",
    "QueryAxes",
    "ends_of",
    "hull_of",
    "least_of",
    "may_nest",
    "summarise",
]

_FIRST: Final = 16
_TOUCHED: Final = 8  # up to this many cells for each entry, marking all cells is faster


Axes: TypeAlias = tuple[tuple[str, ...], ...]

Hull: TypeAlias = Mapping[str, tuple[int, int]]
"""By attribute the least and the greatest value touched. Attributes left out are not bounded."""


class QueryAxes(NamedTuple):
    """The ``axes`` of some questions. Along ``uneven`` ones some row of a question has several
    coefficients, as a sum has."""

    axes: frozenset[str]
    uneven: frozenset[str]

    @classmethod
    def of(cls, questions: Iterable[Column]) -> QueryAxes:
        factors = {factor for question in questions for factor in question.factors}
        uneven = (factor for factor in factors if _summary(factor).uneven > 1)
        return cls(
            frozenset(axis for factor in factors for axis in factor.axes),
            frozenset(axis for factor in uneven for axis in factor.axes),
        )


@dataclass(frozen=True, eq=False)
class ColumnKind:
    """Summaries of columns (n) whose factors have the same ``axes``, of this ``shape``.

    ``variances`` (n) are in units of a column's largest coefficient. ``rows`` (n×factors) is about
    how many of a factor's rows cover all its cells. ``uneven`` (n×factors) is the largest ratio of
    two coefficients in one row. ``ends`` (n×2×axes) are the least and the greatest value touched of
    each axis. ``ranges`` (n×axes) says whether the column has one row and one coefficient for all
    values between. ``least`` (n×factors) bounds a factor's entries from below. ``wide`` columns may
    distinguish too many cells to take part in estimates, and come last in rankings.
    """

    axes: Axes
    shape: tuple[int, ...]
    numbers: IntArray
    variances: FloatArray
    rows: FloatArray
    uneven: FloatArray
    ends: IntArray
    ranges: BoolArray
    least: FloatArray
    wide: BoolArray

    @property
    def flat(self) -> tuple[str, ...]:
        return tuple(axis for own in self.axes for axis in own)

    def hull(self, which: BoolArray) -> Hull:
        """The hull of the columns ``which``."""
        ends = self.ends[which]
        low, high = ends[:, 0].min(axis=0), ends[:, 1].max(axis=0)
        return dict(zip(self.flat, zip(low.tolist(), high.tolist(), strict=True), strict=True))

    def take(self, which: BoolArray | IntArray | slice) -> ColumnKind:
        arrays = (getattr(self, name)[which] for name in ARRAYS)
        return ColumnKind(self.axes, self.shape, *arrays)

    def meets(self, reached: Hull) -> BoolArray:
        """Which columns may have cells in the hull ``reached``."""
        met = np.ones(len(self.numbers), dtype=np.bool_)
        for place, axis in enumerate(self.flat):
            if axis in reached:
                low, high = reached[axis]
                met &= (self.ends[:, 0, place] <= high) & (self.ends[:, 1, place] >= low)
        return met

    def expected(self, sought: QueryAxes, which: IntArray | slice = slice(None)) -> FloatArray:
        """About the variance of an answer to some questions from each of the columns alone.

        Unless a question has several coefficients along an axis, the least one of a column counts:
        a sum determines little about a count."""
        result = np.where(self.wide[which], np.inf, self.variances[which])
        for place, own in enumerate(self.axes):
            if not sought.axes.issuperset(own):  # the answer is a sum over this factor's rows
                result *= self.rows[which, place]
            if sought.uneven.isdisjoint(own):
                result *= self.uneven[which, place] ** 2
        return result


ARRAYS: Final = ("numbers", "variances", "rows", "uneven", "ends", "ranges", "least", "wide")
"""The arrays of a `ColumnKind`, in its order."""


def _entries(column: Column, number: int, variance: float) -> tuple[Any, ...]:
    """One column's entries in the `ARRAYS`."""
    own = [_summary(factor) for factor in column.factors]
    ends = [end for one in own for end in one.ends]
    return (
        number,
        variance / max(1, column.largest) ** 2,
        [one.rows for one in own],
        [one.uneven for one in own],
        [[low for low, _ in ends], [high for _, high in ends]],
        [one.is_range for one in own for _ in one.ends],
        [one.least for one in own],
        math.prod(one.apart for one in own) > CELLS,
    )


class ColumnStore:
    """Columns of one kind, in arrays that double in size when full."""

    def __init__(self, axes: Axes, shape: tuple[int, ...]) -> None:
        self._count = 0
        self._all = ColumnKind(
            axes,
            shape,
            np.zeros(_FIRST, dtype=np.int64),
            np.zeros(_FIRST),
            np.zeros((_FIRST, len(axes))),
            np.zeros((_FIRST, len(axes))),
            np.zeros((_FIRST, 2, sum(map(len, axes))), dtype=np.int64),
            np.zeros((_FIRST, sum(map(len, axes))), dtype=np.bool_),
            np.zeros((_FIRST, len(axes))),
            np.zeros(_FIRST, dtype=np.bool_),
        )

    @classmethod
    def resumed(cls, every: ColumnKind) -> ColumnStore:
        """Start with these columns."""
        result = cls(every.axes, every.shape)
        result._all, result._count = every, len(every.numbers)
        return result

    @property
    def axes(self) -> tuple[str, ...]:
        return self._all.flat

    @property
    def sizes(self) -> Iterator[tuple[str, int]]:
        """The axes and their sizes."""
        return zip(self._all.flat, self._all.shape, strict=True)

    def having(self, numbers: IntArray) -> ColumnKind:
        """The columns with these numbers, which must all be present."""
        every, count = self._all, self._count
        return every.take(np.searchsorted(every.numbers[:count], numbers))

    def one(self, number: int) -> ColumnKind:
        """The column with this number, which must be present."""
        place = int(self._all.numbers[: self._count].searchsorted(number))
        return self._all.take(slice(place, place + 1))

    def add(self, number: int, column: Column, variance: float) -> None:
        if self._count == len(self._all.numbers):
            self._all = self._all.take(np.arange(2 * self._count) % self._count)
        for name, entry in zip(ARRAYS, _entries(column, number, variance), strict=True):
            getattr(self._all, name)[self._count] = entry
        self._count += 1

    def numbers_before(self, seen: int) -> IntArray:
        """The numbers of the columns below ``seen``."""
        every = self._all.numbers[: self._count]
        return every[: every.searchsorted(seen)]

    def before(self, seen: int | None) -> ColumnKind:
        """The columns numbered below ``seen``, or all."""
        every, count = self._all, self._count
        last = count if seen is None else int(np.searchsorted(every.numbers[:count], seen))
        return every.take(slice(last))

    def copy(self, seen: int) -> ColumnStore:
        """A copy to add to, with the columns numbered below ``seen``."""
        result, every = copy.copy(self), self._all
        result._count = int(np.searchsorted(every.numbers[: self._count], seen))
        result._all = every.take(np.arange(len(every.numbers)))
        return result


def ends_of(column: Column) -> Iterator[tuple[str, int, int, bool]]:
    """For each axis the least and the greatest value touched, and whether the column has one row
    and one coefficient for all values between."""
    for factor in column.factors:
        own = _summary(factor)
        for axis, (low, high) in zip(factor.axes, own.ends, strict=True):
            yield axis, low, high, own.is_range


def least_of(column: Column) -> int:
    """A lower bound of the column's entries, where a range counts as one."""
    return math.prod(_summary(factor).least for factor in column.factors)


def hull_of(column: Column) -> Hull:
    return {axis: (low, high) for axis, low, high, _ in ends_of(column)}


def may_nest(one: Column, other: Column) -> bool:
    """False only if no row of either column lies within a row of the other.

    Columns of one row are compared by their hulls, others by their axes alone."""
    if one.height == other.height == 1:
        return _within(one, other) or _within(other, one)
    return set(one.axes) <= set(other.axes) or set(other.axes) <= set(one.axes)


def _within(inner: Column, outer: Column) -> bool:
    whole = {axis: (0, size - 1) for axis, size in zip(outer.axes, outer.shape, strict=True)}
    own = {**whole, **hull_of(inner)}
    return all(
        low <= own[axis][0] and own[axis][1] <= high for axis, (low, high) in hull_of(outer).items()
    )


def summarise(column: Column) -> None:
    """Work out, and cache, what a store keeps of the column."""
    _ = column.largest
    for factor in column.factors:
        _summary(factor)


class _Summary(NamedTuple):
    """A factor's part of a `ColumnKind`; ``apart`` is the most cells it may distinguish."""

    rows: float
    uneven: float
    ends: tuple[tuple[int, int], ...]
    is_range: bool
    least: int
    apart: int


@kept_with
def _summary(factor: Factor) -> _Summary:
    cells, coefficients = factor.cells, factor.coefficients
    most = len(cells) if factor.height == 1 else int(factor.entries.max(initial=0))
    rows, uneven = factor.size / max(1, most), _uneven(factor)
    if len(factor.axes) != 1 or factor.height != 1 or not len(cells):
        return _Summary(
            rows, _uneven(factor), _ends(factor), False, len(factor.starts), factor.size
        )
    low, high = int(cells[0]), int(cells[-1])
    alike = bool((coefficients == coefficients[0]).all())
    least = 1 if alike else len(np.unique(coefficients))
    whole = high - low + 1 == len(cells) and alike
    apart = min(factor.size, 3) if whole else factor.size
    return _Summary(rows, uneven, ((low, high),), whole, least, apart)


def _uneven(factor: Factor) -> float:
    coefficients = factor.coefficients
    if not len(coefficients) or (coefficients == coefficients[0]).all():
        return 1.0
    sizes = np.abs(coefficients.astype(np.float64))
    least = np.minimum.reduceat(sizes, factor.starts)
    return float((factor.largest_by_row / least).max())


def _ends(factor: Factor) -> tuple[tuple[int, int], ...]:
    """The least and the greatest value touched of each axis."""
    if factor.size <= len(factor.cells) * _TOUCHED:
        touched = np.zeros(factor.shape, dtype=np.bool_)
        touched.ravel()[factor.cells] = True
        every = range(touched.ndim)
        index = [np.flatnonzero(touched.any(axis=tuple({*every} - {n}))) for n in every]
    else:
        index = list(np.unravel_index(factor.cells, factor.shape)) if factor.axes else []
    pairs = zip(factor.shape, index, strict=True)
    return tuple((int(at.min(initial=size)), int(at.max(initial=-1))) for size, at in pairs)
