"""Which recorded columns are relevant to a question, the most relevant first.

A column can contribute to an estimate only if it has cells in common with the question, or with a
column that has, and so on. The fewer such steps, the nearer it is. Equally near columns are ordered
by how precisely they would answer alone, then the latest first. The number of columns used is
bounded by their work (`matrix`), not here.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np

from tallyveil.accountant import Arrays
from tallyveil.cache import Cache
from tallyveil.knowledge.recorded.column_store import (
    ARRAYS,
    Axes,
    ColumnKind,
    ColumnStore,
    Hull,
    QueryAxes,
    hull_of,
)
from tallyveil.knowledge.recorded.ranking import Ranking, first
from tallyveil.knowledge.recorded.spans import Cuts, Spans, sizes_of
from tallyveil.workload.workload import Column

__all__ = ["Relevance"]

_Few: TypeAlias = Sequence[frozenset[str]]

_FEW: Final = 128  # columns to search for at first
_NARROW: Final = 4_000  # cells of few attributes, at most


class Relevance:
    """An index of columns with additive noise. Threads may share it, but only one may add."""

    def __init__(self) -> None:
        self._kinds: list[ColumnStore] = []
        self._by_axes: dict[Axes, int] = {}
        self._kind_of = array("i")  # by number, -1 for a column that is not in the index
        self._rankings = _rankings()
        self._few = _few()

    def add(self, number: int, column: Column, variance: float) -> None:
        """Add column ``number``, with its noise's variance. Numbers must ascend."""
        axes = tuple(factor.axes for factor in column.factors)
        if axes not in self._by_axes:
            self._kinds.append(ColumnStore(axes, column.shape))
            self._by_axes[axes] = len(self._by_axes)
        kind = self._by_axes[axes]
        self._kinds[kind].add(number, column, variance)
        self._kind_of.extend([*([-1] * (number - len(self._kind_of))), kind])

    def written(self) -> Arrays:
        """Its arrays, for `resumed`."""
        kinds = [kind.before(None) for kind in self._kinds]
        about = json.dumps([(kind.axes, kind.shape) for kind in kinds]).encode()
        return {
            "kinds": np.frombuffer(about, np.uint8),
            "kind_of": np.array(self._kind_of),
            **{f"{n}/{a}": getattr(kind, a) for n, kind in enumerate(kinds) for a in ARRAYS},
        }

    @classmethod
    def resumed(cls, written: Arrays) -> Relevance:
        result = cls()
        for n, (axes, shape) in enumerate(json.loads(written["kinds"].tobytes())):
            own = tuple(map(tuple, axes))
            every = ColumnKind(own, tuple(shape), *(written[f"{n}/{name}"] for name in ARRAYS))
            result._by_axes[own] = n
            result._kinds.append(ColumnStore.resumed(every))
        result._kind_of = array("i", written["kind_of"].tobytes())
        return result

    def copy(self, seen: int) -> Relevance:
        """A copy to add to, with the columns below ``seen``: another thread may have added more."""
        result = copy.copy(self)
        result._kinds = [kind.copy(seen) for kind in tuple(self._kinds)]
        kinds = len(result._kinds)
        result._by_axes = {axes: n for axes, n in tuple(self._by_axes.items()) if n < kinds}
        result._kind_of = self._kind_of[:seen]
        result._rankings, result._few = _rankings(), _few()
        return result

    def every(self, questions: Sequence[Column], seen: int) -> Spans | None:
        """The spans of all columns below ``seen``, and perhaps of more; None if they are many."""
        ranking = self._ranking(questions, seen)
        return ranking.spans if ranking.complete else None

    def spans(self, numbers: Sequence[int], questions: Sequence[Column]) -> Spans:
        """The spans of the columns with these numbers, which must be in the index."""
        return self._spans(numbers, self._cuts(questions))

    def _cuts(self, questions: Sequence[Column]) -> Cuts:
        """The cuts of all axes of the index and of the questions."""
        return Cuts.of([*(kind.sizes for kind in tuple(self._kinds)), *map(sizes_of, questions)])

    def _spans(self, numbers: Sequence[int], cuts: Cuts) -> Spans:
        wanted = np.array(numbers, dtype=np.int64)
        kinds = np.array([self._kind_of[number] for number in numbers], dtype=np.int64)
        own = []
        for kind in set(kinds.tolist()):
            places = np.flatnonzero(kinds == kind)
            own.append((self._kinds[kind].having(wanted[places]), places))
        return Spans.of(cuts, own, len(numbers))

    def _ranking(self, questions: Sequence[Column], seen: int) -> Ranking:
        """The cached ranking for such questions, of at least the columns below ``seen``."""
        sought = QueryAxes.of(questions)
        found, seen = self._rankings.find(sought), min(seen, len(self._kind_of))
        if found is None or seen > found.seen + _FEW:
            found = self._ranked(sought, questions, seen)
        elif found.seen >= seen:
            return found
        for number in range(found.seen, seen):
            if (kind := self._kind_of[number]) >= 0:
                latest = self._kinds[kind].one(number)
                if not found.covers(latest.flat):
                    found = self._ranked(sought, questions, seen)
                    break
                found = found.with_latest(latest)
        found = replace(found, seen=seen)
        self._rankings.put(sought, found)
        return found

    def _ranked(self, sought: QueryAxes, questions: Sequence[Column], seen: int) -> Ranking:
        kinds = [kind.before(seen) for kind in tuple(self._kinds)]
        return Ranking.of(sought, kinds, self._cuts(questions), seen)

    def relevant(
        self,
        same: Sequence[int],
        questions: Sequence[Column],
        seen: int,
        exact: Sequence[Column],
        work: int,
        each: int,
    ) -> tuple[list[int], Spans]:
        """The columns ``same`` and then the `nearest`, all below ``seen``, as many as fit in
        ``work`` (`Spans.room`), and their spans. Few usually fit, so it searches for few first."""
        most, ranking = work // each, self._ranking(questions, seen)
        asked = Spans.of_columns(questions, ranking.spans.cuts)
        met = ranking.meeting(asked, seen)[: min(most, _FEW)]
        if not same:
            spans = ranking.spans.take(met)
            room = spans.room(asked, work, each)
            if room <= len(met):
                return ranking.numbers[met[:room]].tolist(), spans.take(slice(room))
        found = dict.fromkeys(same)
        for _, level in self.nearest(questions, seen, exact, most):
            found |= dict.fromkeys(level)
            if len(found) >= most:
                break
        return self.fitting([*found][:most], questions, work, each)

    def fitting(
        self, numbers: list[int], questions: Sequence[Column], work: int, each: int
    ) -> tuple[list[int], Spans]:
        """Of the columns with these numbers the first that fit in ``work``, and their spans."""
        cuts = self._cuts(questions)
        spans = self._spans(numbers, cuts)
        room = spans.room(Spans.of_columns(questions, cuts), work, each)
        return numbers[:room], spans.take(slice(room))

    def mentioning(self, axis: str, seen: int, most: int) -> list[int] | None:
        """The columns below ``seen`` that mention the attribute; None if there are more than
        ``most``."""
        found: list[int] = []
        for kind in tuple(self._kinds):
            if axis in kind.axes:
                numbers = kind.numbers_before(seen)
                if len(found) + len(numbers) > most:
                    return None
                found += numbers.tolist()
        return found

    def narrow(self, questions: Sequence[Column], seen: int, most: int) -> Iterator[list[int]]:
        """Choices of columns below ``seen`` over few attributes only: those of the questions and of
        one kind of columns, if they have few cells together. The fewest cells come first. Each
        choice has the ``most`` columns that would answer most precisely."""
        sought, kinds = QueryAxes.of(questions), tuple(self._kinds)
        key = sought.axes, len(kinds)
        for few in self._few.get(key, lambda: _few_axes(sought.axes, kinds, questions)):
            within = [kind.before(seen) for kind in kinds if few.issuperset(kind.axes)]
            numbers = np.concatenate([kind.numbers for kind in within])
            expected = np.concatenate([kind.expected(sought) for kind in within])
            yield numbers[first(expected, numbers, most)].tolist()

    def nearest(
        self,
        questions: Sequence[Column],
        seen: int,
        exact: Sequence[Column] = (),
        most: int | None = None,
    ) -> Iterator[tuple[int, list[int]]]:
        """The relevant columns below ``seen``, by distance: at 0 those with cells in common with a
        question, and so on, also through ``exact`` columns. Yields the first ``most`` of each
        distance, and stops once there are that many. Distances are computed from the least and the
        greatest values touched, so they may be too small but never too large."""
        sought = QueryAxes.of(questions)
        reached = [hull_of(question) for question in questions]
        if most:
            ranking = self._ranking(questions, seen)
            asked = Spans.of_columns(questions, ranking.spans.cuts)
            places = ranking.meeting(asked, seen)[:most]
            if len(places) == most:
                yield 0, ranking.numbers[places].tolist()
                return
        kinds = [kind.before(seen) for kind in tuple(self._kinds)]
        beside = [hull_of(column) for column in exact]
        for distance in itertools.count():
            which = [np.logical_or.reduce([kind.meets(hull) for hull in reached]) for kind in kinds]
            met = [(kind, own) for kind, own in zip(kinds, which, strict=True) if own.any()]
            joined = [hull for hull in beside if any(_meet(hull, one) for one in reached)]
            if met:
                here = [(kind, np.flatnonzero(own)) for kind, own in met]
                numbers = np.concatenate([kind.numbers[own] for kind, own in here])
                expected = np.concatenate([kind.expected(sought, own) for kind, own in here])
                numbers = numbers[first(expected, numbers, most)]
                yield distance, numbers.tolist()
                if len(numbers) == most:
                    return
            elif not joined:
                return
            left = [(kind, ~own) for kind, own in zip(kinds, which, strict=True) if not own.all()]
            kinds = [kind.take(others) for kind, others in left]
            if not kinds:
                return
            beside = [hull for hull in beside if hull not in joined]
            hulls = [*reached, *joined, *(kind.hull(own) for kind, own in met)]
            reached = [_united(hulls)]


def _rankings() -> Cache[Ranking]:
    return Cache(64, 1 << 25, lambda _, ranking: ranking.weight)


def _few() -> Cache[_Few]:
    return Cache(256, 1 << 20, lambda _, some: 100 + 1_000 * len(some))


def _few_axes(
    asked: frozenset[str], kinds: Sequence[ColumnStore], questions: Sequence[Column]
) -> _Few:
    """The attributes ``asked`` with those of each kind of columns, if they are not all attributes
    and have few cells together; the fewest cells first."""
    each = itertools.chain((kind.sizes for kind in kinds), map(sizes_of, questions))
    sizes = dict(itertools.chain.from_iterable(each))
    some = {asked.union(kind.axes) for kind in kinds}
    cells = {few: math.prod(sizes[axis] for axis in few) for few in some if len(few) < len(sizes)}
    return sorted(
        (few for few, number in cells.items() if number <= _NARROW),
        key=lambda few: (cells[few], sorted(few)),
    )


def _meet(one: Hull, other: Hull) -> bool:
    return all(
        one[axis][0] <= other[axis][1] and other[axis][0] <= one[axis][1]
        for axis in one.keys() & other.keys()
    )


def _united(hulls: Sequence[Hull]) -> Hull:
    common = frozenset(hulls[0]).intersection(*hulls)
    return {
        axis: (min(h[axis][0] for h in hulls), max(h[axis][1] for h in hulls)) for axis in common
    }
