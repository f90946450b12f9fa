"""Which recorded columns bear on a question, those first that matter most.

A column can have a part in an answer only if it has cells in common with the question, or with a
column that has, and so on. Of these, columns with rows of the question come first, the latest
first, and exact ones; then those that are nearest, and of these the ones that would answer most
precisely by themselves, the latest among equals. How many of them take part is bounded by the work
that makes (`related`), and not here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tallyveil.knowledge.span import Span
from tallyveil.workload.workload import Column, IntArray

__all__ = ["Candidates", "Chosen", "rows_needed"]

_WORK: Final = 100_000
_UNKNOWN: Final = 20_000  # for each row, where it is not known whether history determines them

_Bools = npt.NDArray[np.bool_]
_Floats = npt.NDArray[np.float64]
_Hull: TypeAlias = Mapping[str, tuple[int, int]]
"""By attribute the least and the greatest value touched; any may be of one that is not here."""


@dataclass(frozen=True)
class Chosen:
    """Columns of the history, the most useful first, and the ``work`` they are worth.

    It is ``outside`` if neither a row of the question nor a combination of its rows lies in the
    span of the history.
    """

    numbers: tuple[int, ...]
    work: int
    outside: bool = False


class Candidates:
    """The recorded columns with additive noise. Threads may share it, but one at a time adds."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[tuple[str, ...], ...], _Growing] = {}
        self._span = Span()

    def add(self, number: int, column: Column, variance: float) -> None:
        """Column ``number``; numbers ascend."""
        axes = tuple(factor.axes for factor in column.factors)
        if axes not in self._kinds:
            self._kinds[axes] = _Growing(axes)
        self._kinds[axes].add(number, column, variance)
        self._span.add(column)

    def choose(self, question: Column, same: Sequence[int], seen: int) -> Chosen:
        """The columns below ``seen`` to look at; ``same`` are those that hold some of the
        question's own rows."""
        inside = True if same else self._span.may_determine(question)
        if inside is False:
            return Chosen((), 0, outside=True)
        first = sorted((number for number in set(same) if number < seen), reverse=True)
        others = self._connected(question, seen)
        others = others[~np.isin(others, first)]
        work = _WORK if inside else min(_WORK, _UNKNOWN * question.height)
        return Chosen((*first, *others.tolist()), work)

    def _connected(self, question: Column, seen: int) -> IntArray:
        """The numbers of those that have to do with the question through cells that columns have in
        common, in order. The least and greatest values they touch decide: too many may be found,
        never too few."""
        kinds = [kind.before(seen) for kind in tuple(self._kinds.values())]
        axes, reached = frozenset(question.axes), hull_of(question)
        exact = [kind.numbers[kind.variances == 0] for kind in kinds]
        nearest = [np.zeros(0, dtype=np.int64)]
        while True:
            met = [kind.take(which) for kind in kinds if (which := kind.meets(reached)).any()]
            if not met:
                found = np.concatenate(nearest)
                known = np.isin(found, np.concatenate([found[:0], *exact]))
                return np.concatenate([found[known], found[~known]])
            numbers = np.concatenate([kind.numbers for kind in met])
            expected = np.concatenate([kind.expected(axes) for kind in met])
            nearest.append(numbers[np.lexsort((-numbers, expected))])
            kinds = [kind.take(~kind.meets(reached)) for kind in kinds]
            reached = _united([reached, *(kind.hull for kind in met)])


@dataclass(frozen=True, eq=False)
class _Kind:
    """Columns (n) whose factors have the same ``axes``, as far as choosing needs them.

    ``rows`` (n×factors) is about how many of a factor's rows cover all its cells, ``ends``
    (n×2×axes) the least and the greatest value of each axis that is touched.
    """

    axes: tuple[tuple[str, ...], ...]
    numbers: IntArray
    variances: _Floats
    rows: _Floats
    ends: IntArray

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
        )

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
        return result


class _Growing:
    """Columns of one kind, in arrays that double."""

    def __init__(self, axes: tuple[tuple[str, ...], ...]) -> None:
        self._count = 0
        self._all = _Kind(
            axes,
            np.zeros(16, dtype=np.int64),
            np.zeros(16),
            np.zeros((16, len(axes))),
            np.zeros((16, 2, sum(map(len, axes))), dtype=np.int64),
        )

    def add(self, number: int, column: Column, variance: float) -> None:
        if self._count == len(self._all.numbers):
            self._all = self._all.take(np.arange(2 * self._count) % self._count)
        place, hull = self._count, hull_of(column)
        self._all.numbers[place] = number
        self._all.variances[place] = variance
        self._all.rows[place] = rows_of(column)
        self._all.ends[place] = np.array([hull[axis] for axis in self._all.flat]).reshape(-1, 2).T
        self._count += 1

    def before(self, seen: int) -> _Kind:
        """Those with a number below ``seen``."""
        every, count = self._all, self._count
        return every.take(slice(int(np.searchsorted(every.numbers[:count], seen))))


def rows_of(column: Column) -> list[float]:
    """By factor about how many of its rows cover all its cells."""
    return [factor.size / max(1, int(factor.entries.max(initial=0))) for factor in column.factors]


def rows_needed(column: Column, axes: frozenset[str]) -> float:
    """About how many of a column's rows it takes to answer a question over these axes."""
    own = zip(column.factors, rows_of(column), strict=True)
    return math.prod(rows for factor, rows in own if not axes.issuperset(factor.axes))


def hull_of(column: Column) -> _Hull:
    found = {}
    for factor in column.factors:
        index = np.unravel_index(factor.cells, factor.shape) if factor.axes else ()
        for axis, size, at in zip(factor.axes, factor.shape, index, strict=True):
            found[axis] = (int(at.min(initial=size)), int(at.max(initial=-1)))
    return found


def _united(hulls: Sequence[_Hull]) -> _Hull:
    common = frozenset(hulls[0]).intersection(*hulls)
    return {
        axis: (min(h[axis][0] for h in hulls), max(h[axis][1] for h in hulls)) for axis in common
    }
