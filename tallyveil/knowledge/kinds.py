"""Recorded columns as far as choosing among them needs them, in arrays: those of one kind together.

A kind is what the factors' axes are. Of each factor there are ends and bounds, and not its entries.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tallyveil.cache import kept_with
from tallyveil.inference.noise import FloatArray
from tallyveil.knowledge.prepared import CELLS
from tallyveil.workload.workload import Column, Factor, IntArray

__all__ = ["ARRAYS", "FIRST", "Axes", "Growing", "Hull", "Kind", "Spans", "hull_of"]

FIRST: Final = 16
_BLOCK: Final = 1024
_TOUCHED: Final = 8  # so many cells for each entry are sooner marked than entries looked at

_Bools: TypeAlias = npt.NDArray[np.bool_]

Axes: TypeAlias = tuple[tuple[str, ...], ...]

Hull: TypeAlias = Mapping[str, tuple[int, int]]
"""By attribute the least and the greatest value touched; any may be of one that is not here."""


@dataclass(frozen=True, eq=False)
class Kind:
    """Columns (n) whose factors have the same ``axes``, as far as choosing needs them.

    ``rows`` (n×factors) is about how many of a factor's rows cover all its cells, ``ends``
    (n×2×axes) the least and the greatest value of each axis that is touched, ``ranges`` (n×axes)
    whether the column has one row and one coefficient for all values between, ``least`` (n×factors)
    how many entries a factor has at least. ``wide`` are those that may tell too many cells apart to
    take part in estimates; they come last. The axes have ``shape``.
    """

    axes: Axes
    shape: tuple[int, ...]
    numbers: IntArray
    variances: FloatArray
    rows: FloatArray
    ends: IntArray
    ranges: _Bools
    least: FloatArray
    wide: _Bools

    @classmethod
    def of(cls, column: Column, number: int = 0, variance: float = 0.0) -> Kind:
        """Of one column."""
        arrays = zip(_entries(column, number, variance), ARRAYS.values(), strict=True)
        axes = tuple(factor.axes for factor in column.factors)
        return cls(axes, column.shape, *(np.array([entry], dtype=kind) for entry, kind in arrays))

    @property
    def flat(self) -> tuple[str, ...]:
        return tuple(axis for own in self.axes for axis in own)

    def hull(self, which: _Bools) -> Hull:
        """Of some of them."""
        ends = self.ends[which]
        low, high = ends[:, 0].min(axis=0), ends[:, 1].max(axis=0)
        return dict(zip(self.flat, zip(low.tolist(), high.tolist(), strict=True), strict=True))

    def take(self, which: _Bools | IntArray | slice) -> Kind:
        return Kind(
            self.axes,
            self.shape,
            self.numbers[which],
            self.variances[which],
            self.rows[which],
            self.ends[which],
            self.ranges[which],
            self.least[which],
            self.wide[which],
        )

    def touches(self, point: Mapping[str, int], keys: frozenset[str], *, change: bool) -> bool:
        """Whether any may be other than 0 at a point, or ``change`` there, as `outside` has it."""
        found = np.ones(len(self.numbers), dtype=np.bool_)
        for place, axis in enumerate(self.flat):
            if axis in keys:
                continue
            low, high = self.ends[:, 0, place], self.ends[:, 1, place]
            at = point.get(axis, 0)
            if change:
                found &= (low == at) | (high + 1 == at) | ~self.ranges[:, place]
            else:
                found &= (low <= at) & (at <= high)
        others = keys.union(self.flat)
        constant = not change or all(not at for axis, at in point.items() if axis not in others)
        return constant and bool(found.any())

    def meets(self, reached: Hull) -> _Bools:
        """Which may have cells there."""
        met = np.ones(len(self.numbers), dtype=np.bool_)
        for place, axis in enumerate(self.flat):
            if axis in reached:
                low, high = reached[axis]
                met &= (self.ends[:, 0, place] <= high) & (self.ends[:, 1, place] >= low)
        return met

    def expected(self, axes: frozenset[str]) -> FloatArray:
        """About the variance of an answer over these axes by one of them alone."""
        result = self.variances.copy()
        for place in self.needed(axes):
            result *= self.rows[:, place]
        result[self.wide] = np.inf
        return result

    def needed(self, axes: frozenset[str]) -> list[int]:
        """The factors that such an answer has to add up over."""
        return [place for place, own in enumerate(self.axes) if not axes.issuperset(own)]


ARRAYS: Final = MappingProxyType(
    {
        "numbers": np.int64,
        "variances": np.float64,
        "rows": np.float64,
        "ends": np.int64,
        "ranges": np.bool_,
        "least": np.float64,
        "wide": np.bool_,
    }
)
"""Those of a `Kind`, in its order, with the types of their entries."""


def _entries(column: Column, number: int, variance: float) -> tuple[Any, ...]:
    """Of one column, in each of the `ARRAYS`."""
    own = [_summary(factor) for factor in column.factors]
    ends = [end for one in own for end in one.ends]
    return (
        number,
        variance,
        [one.rows for one in own],
        [[low for low, _ in ends], [high for _, high in ends]],
        [one.is_range for one in own for _ in one.ends],
        [one.least for one in own],
        math.prod(one.apart for one in own) > CELLS,
    )


class Growing:
    """Columns of one kind, in arrays that double."""

    def __init__(self, axes: Axes, shape: tuple[int, ...]) -> None:
        self._count = 0
        self._least = np.full((1, 1 + len(axes)), math.inf)
        """Of each block of columns the least variance and the least ``rows``, without wide ones."""
        self._all = Kind(
            axes,
            shape,
            np.zeros(FIRST, dtype=np.int64),
            np.zeros(FIRST),
            np.zeros((FIRST, len(axes))),
            np.zeros((FIRST, 2, sum(map(len, axes))), dtype=np.int64),
            np.zeros((FIRST, sum(map(len, axes))), dtype=np.bool_),
            np.zeros((FIRST, len(axes))),
            np.zeros(FIRST, dtype=np.bool_),
        )

    @classmethod
    def resumed(cls, every: Kind) -> Growing:
        """With these columns, to add to."""
        result = cls(every.axes, every.shape)
        result._all, result._count = every, len(every.numbers)
        for start in range(0, result._count, _BLOCK):
            some = every.take(slice(start, start + _BLOCK))
            result._bound(start, np.column_stack([some.variances, some.rows])[~some.wide])
        return result

    def _bound(self, place: int, columns: FloatArray) -> None:
        """Take up columns of one block, that of a place, in what it has at the least: of each its
        variance and its ``rows``."""
        block = place // _BLOCK
        if block == len(self._least):
            self._least = np.concatenate([self._least, np.full_like(self._least, math.inf)])
        least = self._least[block]
        np.minimum(least, columns.min(axis=0, initial=math.inf), out=least)

    @property
    def is_long(self) -> bool:
        """Whether there are several blocks of columns."""
        return self._count > _BLOCK

    def having(self, numbers: IntArray) -> Kind:
        """Those with these numbers, all of which are here."""
        every, count = self._all, self._count
        return every.take(np.searchsorted(every.numbers[:count], numbers))

    def add(self, number: int, column: Column, variance: float) -> None:
        if self._count == len(self._all.numbers):
            self._all = self._all.take(np.arange(2 * self._count) % self._count)
        place, entries = self._count, _entries(column, number, variance)
        for name, entry in zip(ARRAYS, entries, strict=True):
            getattr(self._all, name)[place] = entry
        rows, wide = entries[2], entries[-1]
        self._bound(place, np.array([[variance, *rows]], dtype=np.float64)[[not wide]])
        self._count += 1

    def best(self, axes: frozenset[str]) -> tuple[FloatArray, IntArray]:
        """Of each block of columns, no more than the least that is expected of any (`Kind`), and
        the number of the last."""
        least, count = self._least, self._count
        blocks = -(-count // _BLOCK)
        last = np.minimum(np.arange(1, blocks + 1) * _BLOCK, count) - 1
        needed = [0, *(1 + place for place in self._all.needed(axes))]
        return least[:blocks, needed].prod(axis=1), self._all.numbers[last]

    def block(self, number: int, seen: int) -> Kind:
        """Its columns with a number below ``seen``."""
        every = self._all.take(slice(number * _BLOCK, min((number + 1) * _BLOCK, self._count)))
        return every.take(slice(int(np.searchsorted(every.numbers, seen))))

    def before(self, seen: int | None) -> Kind:
        """Those with a number below ``seen``, or all."""
        every, count = self._all, self._count
        last = count if seen is None else int(np.searchsorted(every.numbers[:count], seen))
        return every.take(slice(last))

    def copy(self, seen: int) -> Growing:
        """Those with a number below ``seen``, to add to."""
        result, every = copy.copy(self), self._all
        result._count = int(np.searchsorted(every.numbers[: self._count], seen))
        result._all = every.take(np.arange(len(every.numbers)))
        result._least = self._least.copy()
        return result


class Spans:
    """Columns of several kinds, one after the other, by what they span of all axes.

    The values of all axes are numbered together. Where a column has all entries between two cuts,
    or none of its own as it does not mention the axis, ``counted``, it spans ``low`` to ``high``.
    ``least`` is how many entries its other factors have at least.
    """

    def __init__(self, kinds: Sequence[tuple[Kind, IntArray]]) -> None:
        """``kinds`` with the place of each of their columns."""
        found: dict[str, int] = {}
        for kind, _ in kinds:
            found.update(zip(kind.flat, kind.shape, strict=True))
        place = {axis: n for n, axis in enumerate(found)}
        sizes = np.array([*found.values()], dtype=np.int64)
        last = np.cumsum(sizes + 1) - 1
        first = last - sizes
        count = sum(len(places) for _, places in kinds)
        self._edges = np.concatenate([first, last])
        shape = count, len(found)
        self._low, self._high = np.full(shape, first), np.full(shape, last)
        self._counted = np.ones(shape, dtype=np.bool_)
        self._least = np.ones(count)
        for kind, places in kinds:
            own = np.array([place[axis] for axis in kind.flat], dtype=np.int64)
            where = places[:, None], own
            self._low[where] = kind.ends[:, 0] + first[own]
            self._high[where] = kind.ends[:, 1] + first[own] + 1
            self._counted[where] = kind.ranges
            self._least[places] = kind.least.prod(axis=1)  # of a range it is 1

    def entries(self, count: int) -> float:
        """How many entries the first of them have at least, over the cells they tell apart."""
        low, high = self._low[:count], self._high[:count]
        cuts = np.sort(np.concatenate([self._edges, low.ravel(), high.ravel()]))
        cuts = cuts[np.concatenate([cuts[1:] != cuts[:-1], [True]])]
        spanned = cuts.searchsorted(high) - cuts.searchsorted(low)
        across = np.where(self._counted[:count], spanned, 1).prod(axis=1, dtype=np.float64)
        return float(across @ self._least[:count])


def hull_of(column: Column) -> Hull:
    own = (_summary(factor).ends for factor in column.factors)
    return dict(zip(column.axes, itertools.chain(*own), strict=True))


class _Summary(NamedTuple):
    """Of a factor: about how many of its rows cover all its cells, the least and the greatest value
    of each axis, whether it is one row with one coefficient for all between, at least how many
    entries it has, and at most how many cells it tells apart."""

    rows: float
    ends: tuple[tuple[int, int], ...]
    is_range: bool
    least: int
    apart: int


@kept_with
def _summary(factor: Factor) -> _Summary:
    cells, coefficients = factor.cells, factor.coefficients
    most = len(cells) if factor.height == 1 else int(factor.entries.max(initial=0))
    rows = factor.size / max(1, most)
    if len(factor.axes) != 1 or factor.height != 1 or not len(cells):
        return _Summary(rows, _ends(factor), False, len(factor.starts), factor.size)
    low, high = int(cells[0]), int(cells[-1])
    alike = bool((coefficients == coefficients[0]).all())
    least = 1 if alike else len(np.unique(coefficients))
    whole = high - low + 1 == len(cells) and alike
    apart = min(factor.size, 3) if whole else factor.size
    return _Summary(rows, ((low, high),), whole, least, apart)


def _ends(factor: Factor) -> tuple[tuple[int, int], ...]:
    """The least and the greatest value of each axis that is touched."""
    if factor.size <= len(factor.cells) * _TOUCHED:
        touched = np.zeros(factor.shape, dtype=np.bool_)
        touched.ravel()[factor.cells] = True
        every = range(touched.ndim)
        index = [np.flatnonzero(touched.any(axis=tuple({*every} - {n}))) for n in every]
    else:
        index = list(np.unravel_index(factor.cells, factor.shape)) if factor.axes else []
    pairs = zip(factor.shape, index, strict=True)
    return tuple((int(at.min(initial=size)), int(at.max(initial=-1))) for size, at in pairs)
