"""Which recorded columns bear on a question, those first that matter most.

A column can have a part in an answer only if it has cells in common with the question, or with a
column that has, and so on. The fewer such steps, the nearer it is; and of the columns that are
equally near those come first that would answer most precisely by themselves, the latest among
equals. How many of them take part is bounded by the work that makes (`matrix`), and not here.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tallyveil.knowledge.prepared import CELLS
from tallyveil.workload.workload import Column, Factor, IntArray

__all__ = ["Relevance", "may_nest"]

_FIRST: Final = 16

_Bools = npt.NDArray[np.bool_]
_Floats = npt.NDArray[np.float64]
_Axes: TypeAlias = tuple[tuple[str, ...], ...]
_Hull: TypeAlias = Mapping[str, tuple[int, int]]
"""By attribute the least and the greatest value touched; any may be of one that is not here."""


class Relevance:
    """Of columns with additive noise. Threads may share it, but one at a time adds."""

    def __init__(self) -> None:
        self._kinds: dict[_Axes, _Growing] = {}

    def add(self, number: int, column: Column, variance: float) -> None:
        """Column ``number``, with its noise's variance; numbers ascend."""
        axes = tuple(factor.axes for factor in column.factors)
        if axes not in self._kinds:
            self._kinds[axes] = _Growing(axes)
        self._kinds[axes].add(number, column, variance)

    def copy(self) -> Relevance:
        """Apart from this one, to add to."""
        result = Relevance()
        result._kinds = {axes: kind.copy() for axes, kind in tuple(self._kinds.items())}
        return result

    def touches(
        self, seen: int, only: Sequence[int] | None, keys: frozenset[str]
    ) -> Callable[[Mapping[str, int], bool], bool]:
        """Whether any column below ``seen``, or ``only`` of these, may be other than 0 at a point
        or, if True, change there (`outside`)."""
        kinds = [kind.before(seen) for kind in tuple(self._kinds.values())]
        if only is not None:
            numbers = np.sort(np.array(only, dtype=np.int64))
            kinds = [kind.take(np.isin(kind.numbers, numbers)) for kind in kinds]
        return lambda point, change: any(kind.touches(point, keys, change=change) for kind in kinds)

    def nearest(
        self,
        questions: Sequence[Column],
        seen: int,
        exact: Sequence[Column] = (),
        most: int | None = None,
    ) -> Iterator[tuple[int, list[int]]]:
        """The numbers below ``seen`` of the columns that bear on a question, by how near they are:
        at distance 0, with cells in common, and so on, also by way of ``exact`` ones; the first
        ``most`` of each. The least and the greatest values they touch decide: they may seem nearer
        than they are, and never farther."""
        kinds = [kind.before(seen) for kind in tuple(self._kinds.values())]
        axes = frozenset(axis for question in questions for axis in question.axes)
        reached = [_hull_of(question) for question in questions]
        beside = [_hull_of(column) for column in exact]
        for distance in itertools.count():
            which = [np.logical_or.reduce([kind.meets(hull) for hull in reached]) for kind in kinds]
            met = [(kind, own) for kind, own in zip(kinds, which, strict=True) if own.any()]
            joined = [hull for hull in beside if any(_meet(hull, one) for one in reached)]
            if met:
                numbers = np.concatenate([kind.numbers[own] for kind, own in met])
                expected = np.concatenate([kind.expected(axes)[own] for kind, own in met])
                first = _first(expected, numbers, most)
                numbers, expected = numbers[first], expected[first]
                yield distance, numbers[np.lexsort((-numbers, expected))].tolist()
            elif not joined:
                return
            kinds = [kind.take(~own) for kind, own in zip(kinds, which, strict=True)]
            beside = [hull for hull in beside if hull not in joined]
            hulls = [*reached, *joined, *(kind.take(own).hull for kind, own in met)]
            reached = [_united(hulls)]


@dataclass(frozen=True, eq=False)
class _Kind:
    """Columns (n) whose factors have the same ``axes``, as far as choosing needs them.

    ``rows`` (n×factors) is about how many of a factor's rows cover all its cells, ``ends``
    (n×2×axes) the least and the greatest value of each axis that is touched, ``ranges`` (n×axes)
    whether the column has one row and one coefficient for all values between. ``wide`` are those
    that may tell too many cells apart to take part in estimates; they come last.
    """

    axes: _Axes
    numbers: IntArray
    variances: _Floats
    rows: _Floats
    ends: IntArray
    ranges: _Bools
    wide: _Bools

    @property
    def flat(self) -> tuple[str, ...]:
        return tuple(axis for own in self.axes for axis in own)

    @property
    def hull(self) -> _Hull:
        """Of all of them."""
        low, high = self.ends[:, 0].min(axis=0), self.ends[:, 1].max(axis=0)
        return dict(zip(self.flat, zip(low.tolist(), high.tolist(), strict=True), strict=True))

    def take(self, which: _Bools | IntArray | slice) -> _Kind:
        return _Kind(
            self.axes,
            self.numbers[which],
            self.variances[which],
            self.rows[which],
            self.ends[which],
            self.ranges[which],
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

    def meets(self, reached: _Hull) -> _Bools:
        """Which may have cells there."""
        met = np.ones(len(self.numbers), dtype=np.bool_)
        for place, axis in enumerate(self.flat):
            if axis in reached:
                low, high = reached[axis]
                met &= (self.ends[:, 0, place] <= high) & (self.ends[:, 1, place] >= low)
        return met

    def expected(self, axes: frozenset[str]) -> _Floats:
        """About the variance of an answer over these axes by one of them alone."""
        needed = [place for place, own in enumerate(self.axes) if not axes.issuperset(own)]
        result: _Floats = self.variances * self.rows[:, needed].prod(axis=1)
        result[self.wide] = np.inf
        return result


class _Growing:
    """Columns of one kind, in arrays that double."""

    def __init__(self, axes: _Axes) -> None:
        self._count = 0
        self._all = _Kind(
            axes,
            np.zeros(_FIRST, dtype=np.int64),
            np.zeros(_FIRST),
            np.zeros((_FIRST, len(axes))),
            np.zeros((_FIRST, 2, sum(map(len, axes))), dtype=np.int64),
            np.zeros((_FIRST, sum(map(len, axes))), dtype=np.bool_),
            np.zeros(_FIRST, dtype=np.bool_),
        )

    def add(self, number: int, column: Column, variance: float) -> None:
        if self._count == len(self._all.numbers):
            self._all = self._all.take(np.arange(2 * self._count) % self._count)
        place, own = self._count, [_summary(factor) for factor in column.factors]
        every = self._all
        every.numbers[place], every.variances[place] = number, variance
        every.rows[place] = [one.rows for one in own]
        every.ends[place, 0] = [low for one in own for low, _ in one.ends]
        every.ends[place, 1] = [high for one in own for _, high in one.ends]
        every.ranges[place] = [one.is_range for one in own for _ in one.ends]
        every.wide[place] = math.prod(one.apart for one in own) > CELLS
        self._count += 1

    def before(self, seen: int) -> _Kind:
        """Those with a number below ``seen``."""
        every, count = self._all, self._count
        return every.take(slice(int(np.searchsorted(every.numbers[:count], seen))))

    def copy(self) -> _Growing:
        result = copy.copy(self)
        result._all = self._all.take(np.arange(len(self._all.numbers)))
        return result


def _first(expected: _Floats, numbers: IntArray, most: int | None) -> IntArray:
    """The places of the ``most`` of least expected variance, the latest among equals."""
    if most is None or len(numbers) <= most:
        return np.arange(len(numbers))
    limit = np.partition(expected, most)[most]
    less, equal = np.flatnonzero(expected < limit), np.flatnonzero(expected == limit)
    left = most - len(less)
    latest = np.argpartition(-numbers[equal], left)[:left] if left < len(equal) else slice(None)
    return np.concatenate([less, equal[latest]])


class _Summary(NamedTuple):
    """Of a factor: about how many of its rows cover all its cells, the least and the greatest value
    of each axis, whether it is one row with one coefficient for all between, and at most how many
    cells it tells apart."""

    rows: float
    ends: tuple[tuple[int, int], ...]
    is_range: bool
    apart: int


@lru_cache(maxsize=1 << 16)
def _summary(factor: Factor) -> _Summary:
    cells, coefficients = factor.cells, factor.coefficients
    most = len(cells) if factor.height == 1 else int(factor.entries.max(initial=0))
    rows = factor.size / max(1, most)
    if len(factor.axes) != 1 or factor.height != 1 or not len(cells):
        index = np.unravel_index(cells, factor.shape) if factor.axes else ()
        pairs = zip(factor.shape, index, strict=True)
        ends = tuple((int(at.min(initial=size)), int(at.max(initial=-1))) for size, at in pairs)
        return _Summary(rows, ends, False, factor.size)
    low, high = int(cells[0]), int(cells[-1])
    whole = high - low + 1 == len(cells) and bool((coefficients == coefficients[0]).all())
    return _Summary(rows, ((low, high),), whole, min(factor.size, 3) if whole else factor.size)


def _hull_of(column: Column) -> _Hull:
    own = (_summary(factor).ends for factor in column.factors)
    return dict(zip(column.axes, itertools.chain(*own), strict=True))


def _meet(one: _Hull, other: _Hull) -> bool:
    return all(
        one[axis][0] <= other[axis][1] and other[axis][0] <= one[axis][1]
        for axis in one.keys() & other.keys()
    )


def _united(hulls: Sequence[_Hull]) -> _Hull:
    common = frozenset(hulls[0]).intersection(*hulls)
    return {
        axis: (min(h[axis][0] for h in hulls), max(h[axis][1] for h in hulls)) for axis in common
    }


_Support = Mapping[str, npt.NDArray[np.bool_]]
"""By axis the values that are touched."""


def may_nest(one: Column, other: Column) -> bool:
    """False only if no row of one of them lies within a row of the other. Of columns of several
    rows it goes by their axes alone, and of rows that are no boxes by their least boxes."""
    if one.height == other.height == 1:
        return _within(one, other) or _within(other, one)
    return set(one.axes) <= set(other.axes) or set(other.axes) <= set(one.axes)


def _within(inner: Column, outer: Column) -> bool:
    box = _support(inner)
    for axis, touched in _support(outer).items():
        if not (touched | ~box[axis] if axis in box else touched).all():
            return False
    exact = all(_entries_in(factor, {}) == _size(factor, box) for factor in inner.factors)
    return not exact or all(_entries_in(own, box) == _size(own, box) for own in outer.factors)


def _entries_in(factor: Factor, box: _Support) -> int:
    index = np.unravel_index(factor.cells, factor.shape) if factor.axes else ()
    inside = np.ones(len(factor.cells), dtype=np.bool_)
    for axis, at in zip(factor.axes, index, strict=True):
        inside &= box[axis][at] if axis in box else True
    return int(inside.sum())


def _size(factor: Factor, box: _Support) -> int:
    """How many cells of the factor's axes are in the box."""
    return math.prod(
        int(box[axis].sum()) if axis in box else size
        for axis, size in zip(factor.axes, factor.shape, strict=True)
    )


@lru_cache(maxsize=4096)
def _support(column: Column) -> _Support:
    found = {}
    for factor in column.factors:
        places = np.unravel_index(factor.cells, factor.shape) if factor.axes else ()
        for axis, size, at in zip(factor.axes, factor.shape, places, strict=True):
            touched = np.zeros(size, dtype=np.bool_)
            touched[at] = True
            found[axis] = touched
    return found
