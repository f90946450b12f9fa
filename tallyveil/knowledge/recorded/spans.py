"""The ranges that columns span along attributes, which bound where they meet and the work."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import BoolArray, FloatArray, IntArray
from tallyveil.knowledge.recorded.column_store import ColumnKind, ends_of, least_of
from tallyveil.workload.workload import Column

__all__ = ["Cuts", "Spans", "inserted", "sizes_of"]

_FIRST: Final = 32  # columns that are always allowed

T = TypeVar("T", bound=np.generic)


class Cuts:
    """The cuts before, between and after the values of the axes, numbered across all axes.
    ``first`` and ``last`` are the first and the last cut of each axis."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.place = {axis: n for n, axis in enumerate(sizes)}
        self.last = np.cumsum([size + 1 for size in sizes.values()], dtype=np.int64) - 1
        self.first = self.last - np.array([*sizes.values()], dtype=np.int64)
        self._whole = [*self.first.tolist(), *self.last.tolist(), *([1] * len(sizes))]

    @classmethod
    def of(cls, sizes: Iterable[Iterable[tuple[str, int]]]) -> Cuts:
        return cls(dict(itertools.chain(*sizes)))

    def row(self, ends: Iterable[tuple[str, int, int, bool]]) -> list[int]:
        """A column's entries in the table of `Spans`, from the least and the greatest value it
        touches of each axis, and whether these bound a range."""
        row, number = self._whole.copy(), len(self.place)
        for axis, low, high, is_range in ends:
            place = self.place[axis]
            start = self._whole[place]
            row[place], row[number + place] = start + low, start + high + 1
            row[2 * number + place] = is_range
        return row


@dataclass(frozen=True, eq=False)
class Spans:
    """The spans of columns (n) along the axes of ``cuts``.

    The ``table`` (3·axes×n) has the cuts `low` and `high` between which each column spans each
    axis, and whether the axis is `counted`: the column has all entries between, with one
    coefficient, or does not mention the axis. ``least`` (n) bounds the entries of its other factors
    from below.
    """

    cuts: Cuts
    table: IntArray
    least: FloatArray

    @classmethod
    def of(cls, cuts: Cuts, kinds: Sequence[tuple[ColumnKind, IntArray]], count: int) -> Spans:
        """The spans of ``count`` columns, given by kind with their places."""
        whole = np.array(cuts.row(()), dtype=np.int64)
        found = cls(cuts, np.repeat(whole[:, None], count, axis=1), np.ones(count))
        for kind, places in kinds:
            own = np.array([cuts.place[axis] for axis in kind.flat], dtype=np.int64)
            where, start = (own[:, None], places), cuts.first[own]
            found.low[where] = (kind.ends[:, 0] + start).T
            found.high[where] = (kind.ends[:, 1] + (start + 1)).T
            found.counted[where] = kind.ranges.T
            found.least[places] = kind.least.prod(axis=1)  # a range's is 1
        return found

    @classmethod
    def of_columns(cls, columns: Sequence[Column], cuts: Cuts | None = None) -> Spans:
        cuts = cuts or Cuts.of(map(sizes_of, columns))
        rows = [cuts.row(ends_of(column)) for column in columns]
        table = np.array(rows, dtype=np.int64).reshape(len(rows), 3 * len(cuts.place)).T
        return cls(cuts, table, np.array([*map(least_of, columns)], dtype=np.float64))

    @property
    def low(self) -> IntArray:
        return self.table[: len(self.cuts.place)]

    @property
    def high(self) -> IntArray:
        return self.table[len(self.cuts.place) : 2 * len(self.cuts.place)]

    @property
    def counted(self) -> IntArray:
        return self.table[2 * len(self.cuts.place) :]

    def take(self, which: IntArray | slice) -> Spans:
        return Spans(self.cuts, self.table[:, which], self.least[which])

    def inserted(self, place: int, row: list[int], least: float, most: int) -> Spans:
        """Return the spans with one more column at ``place``, cut to the first ``most``."""
        column = np.array(row, dtype=np.int64)[:, None]
        table = inserted(self.table, place, column, most)
        return Spans(self.cuts, table, inserted(self.least, place, np.array([least]), most))

    def meeting(self, questions: Spans, axes: Iterable[str]) -> IntArray:
        """The places of columns that may have cells in common with any of the questions, which
        mention these axes only."""
        own = [self.cuts.place[axis] for axis in axes]
        low, high = self.low, self.high
        found = np.zeros(len(self.least), dtype=np.bool_)
        for start, end in zip(questions.low.T.tolist(), questions.high.T.tolist(), strict=True):
            sides = ((low[n] < end[n], high[n] > start[n]) for n in own)
            here = functools.reduce(np.logical_and, itertools.chain(*sides), True)
            found = np.logical_or(found, here)
        return np.flatnonzero(found)

    def touching(
        self, point: Mapping[str, int], keys: frozenset[str], *, change: bool
    ) -> BoolArray:
        """Which columns may be nonzero at a point, or with ``change`` may change there
        (`undetermined_proof`)."""
        cuts = self.cuts
        if change and any(at for axis, at in point.items() if axis not in cuts.place):
            return np.zeros(len(self.least), dtype=np.bool_)
        at = (cuts.first + [point.get(axis, 0) for axis in cuts.place])[:, None]
        if change:
            found = (self.low == at) | (self.high == at) | (self.counted == 0)
        else:
            found = (self.low <= at) & (at < self.high)
        if keys:
            found[[n for axis, n in cuts.place.items() if axis in keys]] = True
        met: BoolArray = found.all(axis=0)
        return met

    def along(self, axis: str, size: int) -> IntArray:
        """The cuts of one axis, numbered from 0, between which each column spans it, and whether it
        is `counted` there (3×columns)."""
        place = self.cuts.place.get(axis)
        if place is None:
            return np.repeat(np.array([[0], [size], [1]], dtype=np.int64), len(self.least), axis=1)
        found = self.table[place :: len(self.cuts.place)].copy()
        found[:2] -= self.cuts.first[place]
        return found

    def room(self, questions: Spans, work: int, each: int) -> int:
        """About how many columns, from the first, fit beside the questions in ``work`` entries,
        where each column counts as ``each`` more; one more than there are if all fit."""
        size, most = _FIRST, len(self.least)
        while size <= most:
            more = 2 * size if 2 * size <= most else size
            entries = self._entries(questions, more)
            # Beside more columns these have no fewer entries, so often they are known to fit.
            own = entries[: len(questions.least) + size].sum()
            if own + each * size > work and (
                self._entries(questions, size).sum() + each * size > work
            ):
                return size
            if entries.sum() + each * more > work:
                return more
            size = 2 * more
        return most + 1

    def _entries(self, questions: Spans, count: int) -> FloatArray:
        """Lower bounds of the entries of the questions and of the first ``count`` columns, over the
        cells that they distinguish."""
        axes = len(self.cuts.place)
        table = np.concatenate([questions.table, self.table[:, :count]], axis=1)
        ends = table[: 2 * axes]
        cuts = np.concatenate([self.cuts.first, self.cuts.last, ends.ravel()])
        cuts.sort()
        cuts = cuts[np.flatnonzero(cuts[1:] != cuts[:-1])]  # distinct, without the last
        places = cuts.searchsorted(ends)
        across = places[axes:] - places[:axes]
        across[table[2 * axes :] == 0] = 1
        entries: FloatArray = np.multiply.reduce(across, axis=0, dtype=np.float64)
        entries *= np.concatenate([questions.least, self.least[:count]])
        return entries


def sizes_of(column: Column) -> Iterator[tuple[str, int]]:
    """The column's axes and their sizes."""
    return zip(column.axes, column.shape, strict=True)


def inserted(array: NDArray[T], place: int, other: NDArray[T], most: int) -> NDArray[T]:
    """Insert the one entry of ``other`` at a place of the last axis; keep the first ``most``."""
    parts = [array[..., :place], other, array[..., place:]]
    return np.concatenate(parts, axis=-1)[..., :most]
