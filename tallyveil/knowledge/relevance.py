"""Which recorded columns bear on a question, those first that matter most.

A column can have a part in an answer only if it has cells in common with the question, or with a
column that has, and so on. The fewer such steps, the nearer it is; and of the columns that are
equally near those come first that would answer most precisely by themselves, the latest among
equals. How many of them take part is bounded by the work that makes (`matrix`), and not here.
"""

from __future__ import annotations

import copy
import itertools
import json
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from tallyveil.accountant import Arrays
from tallyveil.inference.noise import FloatArray
from tallyveil.knowledge.kinds import (
    ARRAYS,
    FIRST,
    Axes,
    Growing,
    Hull,
    Kind,
    Spans,
    hull_of,
)
from tallyveil.workload.workload import Column, IntArray

__all__ = ["Relevance"]

_FEW: Final = 256  # columns that are searched for at first


class Relevance:
    """Of columns with additive noise. Threads may share it, but one at a time adds."""

    def __init__(self) -> None:
        self._kinds: list[Growing] = []
        self._by_axes: dict[Axes, int] = {}
        self._kind_of = array("i")  # by number, -1 for a column that is not here

    def add(self, number: int, column: Column, variance: float) -> None:
        """Column ``number``, with its noise's variance; numbers ascend."""
        axes = tuple(factor.axes for factor in column.factors)
        if axes not in self._by_axes:
            self._kinds.append(Growing(axes, column.shape))
            self._by_axes[axes] = len(self._by_axes)
        kind = self._by_axes[axes]
        self._kinds[kind].add(number, column, variance)
        self._kind_of.extend([-1] * (number + 1 - len(self._kind_of)))
        self._kind_of[number] = kind

    def written(self) -> Arrays:
        """What is in it, for `resumed`."""
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
            every = Kind(own, tuple(shape), *(written[f"{n}/{name}"] for name in ARRAYS))
            result._by_axes[own] = n
            result._kinds.append(Growing.resumed(every))
        result._kind_of = array("i", written["kind_of"].tobytes())
        return result

    def copy(self, seen: int) -> Relevance:
        """Of the columns with a number below ``seen``, to add to: others may be added here since
        it was looked how many there are."""
        result = copy.copy(self)
        result._kinds = [kind.copy(seen) for kind in tuple(self._kinds)]
        kinds = len(result._kinds)
        result._by_axes = {axes: n for axes, n in tuple(self._by_axes.items()) if n < kinds}
        result._kind_of = self._kind_of[:seen]
        return result

    @property
    def is_short(self) -> bool:
        """Whether there are so few columns that all may be looked at."""
        return not any(kind.is_long for kind in tuple(self._kinds))

    def touches(
        self, numbers: Sequence[int] | None, keys: frozenset[str]
    ) -> Callable[[Mapping[str, int], bool], bool]:
        """Whether any of some columns, or of all, may be other than 0 at a point or, if True,
        change there (`outside`)."""
        if numbers is None:
            kinds = [kind.before(None) for kind in tuple(self._kinds)]
        else:
            kinds = [kind for kind, _ in self._of(numbers)]
        return lambda point, change: any(kind.touches(point, keys, change=change) for kind in kinds)

    def bearing(
        self,
        same: Sequence[int],
        questions: Sequence[Column],
        seen: int,
        exact: Sequence[Column],
        work: int,
        each: int,
    ) -> list[int]:
        """Below ``seen``, the columns ``same`` and then the `nearest`: as many as can be looked at
        (`room`). Most often these are few, so that few are searched for at first."""
        most, every, room = work // each, list(same), 0
        for limit in sorted({min(_FEW, most), most}):
            found = dict.fromkeys(same)
            for _, level in self.nearest(questions, seen, exact, limit):
                found |= dict.fromkeys(level)
                if len(found) >= limit:
                    break
            every = [*found][:limit]
            room = self.room(every, questions, work, each)
            if room < limit:
                break
        return every[:room]

    def room(
        self, numbers: Sequence[int], questions: Sequence[Column], work: int, each: int
    ) -> int:
        """How many columns, from the first, can be looked at beside some questions at the most: no
        more of them, or about, are ``work`` entries together, ``each`` of them so many more."""
        asked = [(Kind.of(one), np.array([place])) for place, one in enumerate(questions)]
        spans, ready, size = None, 0, 2 * FIRST
        while size < len(numbers):
            if spans is None or size > ready:
                ready = 4 * size
                own = self._of(numbers[:ready])
                spans = Spans([*asked, *((kind, at + len(asked)) for kind, at in own)])
            if spans.entries(len(asked) + size) + each * size > work:
                return size
            size *= 2
        return len(numbers)

    def _of(self, numbers: Sequence[int]) -> Iterator[tuple[Kind, IntArray]]:
        """The columns of these numbers, all of which are here, and the place of each."""
        wanted = np.array(numbers, dtype=np.int64)
        kinds = np.array([self._kind_of[number] for number in numbers], dtype=np.int64)
        for kind in set(kinds.tolist()):
            places = np.flatnonzero(kinds == kind)
            yield self._kinds[kind].having(wanted[places]), places

    def nearest(
        self,
        questions: Sequence[Column],
        seen: int,
        exact: Sequence[Column] = (),
        most: int | None = None,
    ) -> Iterator[tuple[int, list[int]]]:
        """The numbers below ``seen`` of the columns that bear on a question, by how near they are:
        at distance 0, with cells in common, and so on, also by way of ``exact`` ones; the first
        ``most`` of each, and no further once there are so many. The least and the greatest values
        they touch decide: they may seem nearer than they are, and never farther."""
        axes = frozenset(axis for question in questions for axis in question.axes)
        reached = [hull_of(question) for question in questions]
        if most and not self.is_short:
            nearest = self._with_cells_there(reached, axes, seen, most)
            if len(nearest) == most:
                yield 0, nearest
                return
        kinds = [kind.before(seen) for kind in tuple(self._kinds)]
        beside = [hull_of(column) for column in exact]
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

    def _with_cells_there(
        self, reached: Sequence[Hull], axes: frozenset[str], seen: int, most: int
    ) -> list[int]:
        """The first ``most`` that have cells in common with a question, in order. Blocks of columns
        are looked at in the order of what each may have at best, until none can have better."""
        kinds = tuple(self._kinds)
        every = [kind.best(axes) for kind in kinds]
        best, last = (np.concatenate(each) for each in zip(*every, strict=True))
        starts = np.cumsum([0, *(len(own) for own, _ in every)])
        numbers, expected = np.zeros(0, dtype=np.int64), np.zeros(0)
        for place in np.lexsort((-last, best)).tolist():
            if len(numbers) == most and (expected[-1], -numbers[-1]) <= (best[place], -last[place]):
                break
            kind = int(starts.searchsorted(place, side="right")) - 1
            some = kinds[kind].block(place - starts[kind], seen)
            own = np.logical_or.reduce([some.meets(hull) for hull in reached])
            numbers = np.concatenate([numbers, some.numbers[own]])
            expected = np.concatenate([expected, some.expected(axes)[own]])
            order = np.lexsort((-numbers, expected))[:most]
            numbers, expected = numbers[order], expected[order]
        return numbers.tolist()


def _first(expected: FloatArray, numbers: IntArray, most: int | None) -> IntArray:
    """The places of the ``most`` of least expected variance, the latest among equals."""
    if most is None or len(numbers) <= most:
        return np.arange(len(numbers))
    limit = np.partition(expected, most)[most]
    less, equal = np.flatnonzero(expected < limit), np.flatnonzero(expected == limit)
    left = most - len(less)
    latest = np.argpartition(-numbers[equal], left)[:left] if left < len(equal) else slice(None)
    return np.concatenate([less, equal[latest]])


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
