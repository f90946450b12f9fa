"""The recorded columns that would answer some questions best, updated as columns come.

Most questions have cells in common with enough of these, so that no others need to be searched.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil.arrays import FloatArray, IntArray
from tallyveil.knowledge.recorded.column_store import ColumnKind, QueryAxes
from tallyveil.knowledge.recorded.spans import Cuts, Spans, inserted

__all__ = ["Ranking", "first"]

_MOST: Final = 1024


@dataclass(frozen=True, eq=False)
class Ranking:
    """The best columns numbered below ``seen``, ordered by the ``expected`` variance of an answer
    to what is ``sought`` from one of them alone, the latest first among equals. ``complete`` if
    none is left out.
    """

    sought: QueryAxes
    seen: int
    numbers: IntArray
    expected: FloatArray
    spans: Spans
    complete: bool

    @classmethod
    def of(cls, sought: QueryAxes, kinds: Sequence[ColumnKind], cuts: Cuts, seen: int) -> Ranking:
        starts = itertools.accumulate((len(kind.numbers) for kind in kinds), initial=0)
        numbers = np.concatenate([np.zeros(0, np.int64), *(kind.numbers for kind in kinds)])
        expected = np.concatenate([np.zeros(0), *(kind.expected(sought) for kind in kinds)])
        order = first(expected, numbers, _MOST)
        own = []
        for start, kind in zip(starts, kinds, strict=False):
            places = np.flatnonzero((order >= start) & (order < start + len(kind.numbers)))
            own.append((kind.take(order[places] - start), places))
        spans, complete = Spans.of(cuts, own, len(order)), len(order) == len(numbers)
        return cls(sought, seen, numbers[order], expected[order], spans, complete)

    @property
    def weight(self) -> int:
        """About its bytes."""
        return 1_000 + 24 * len(self.numbers) * (1 + len(self.spans.low))

    def covers(self, axes: Iterable[str]) -> bool:
        """Whether columns with these axes can be added."""
        return self.spans.cuts.place.keys() >= set(axes)

    def with_latest(self, column: ColumnKind) -> Ranking:
        """Return the ranking with the one column that was recorded next."""
        expected, cuts = column.expected(self.sought), self.spans.cuts
        place = int(self.expected.searchsorted(expected[0]))
        if place == len(self.numbers) and not self.complete:
            return self
        (low, high), ranges = column.ends[0].tolist(), column.ranges[0].tolist()
        row = cuts.row(zip(column.flat, low, high, ranges, strict=True))
        least = math.prod(column.least[0].tolist())
        return Ranking(
            self.sought,
            self.seen,
            inserted(self.numbers, place, column.numbers, _MOST),
            inserted(self.expected, place, expected, _MOST),
            self.spans.inserted(place, row, least, _MOST),
            self.complete and len(self.numbers) < _MOST,
        )

    def meeting(self, questions: Spans, seen: int) -> IntArray:
        """The places of columns below ``seen`` that may have cells in common with a question."""
        met = self.spans.meeting(questions, self.sought.axes)
        return met if seen >= self.seen else met[self.numbers[met] < seen]


def first(expected: FloatArray, numbers: IntArray, most: int | None) -> IntArray:
    """The places of the ``most`` columns of least expected variance, in order, the latest first
    among equals."""
    places = np.arange(len(numbers))
    if most is not None and most < len(numbers):
        limit = np.partition(expected, most)[most]
        less, equal = np.flatnonzero(expected < limit), np.flatnonzero(expected == limit)
        left = most - len(less)
        latest = np.argpartition(-numbers[equal], left)[:left] if left < len(equal) else slice(None)
        places = np.concatenate([less, equal[latest]])
    return places[np.lexsort((-numbers[places], expected[places]))]
