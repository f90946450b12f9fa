"""What a purchase would tell: previews of how precisely counts would be known.

It checks the rows to be bought, recorded rows that bear on them, and the differences of two
nested groups of which one is to be bought: who knows a group, and the same group less a few
records, knows these few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from tallyveil import deadline
from tallyveil.accountant import Answer, Charge
from tallyveil.arrays import BoolArray
from tallyveil.inference import NoiseLaw, Noises
from tallyveil.knowledge.answers.precision import (
    Precision,
    Preview,
    row_bytes,
    stretches,
    too_complex,
)
from tallyveil.knowledge.recorded.drawn import noises_of
from tallyveil.knowledge.recorded.matrix import Related, related
from tallyveil.knowledge.recorded.nesting import may_nest
from tallyveil.knowledge.recorded.prepared import PreparedColumn, prepared
from tallyveil.knowledge.state import State
from tallyveil.mechanisms import law_of
from tallyveil.workload.workload import Column

__all__ = ["previews"]

_ROWS: Final = 20_000  # that are looked at, differences included
_ENTRIES: Final = 1_000_000  # of the differences
_BESIDE: Final = 1_000  # rows, where recorded ones are neither of the same rows nor nested
_TERMS: Final = 400_000  # of all rows


def previews(
    charge: Charge, state: State, seen: int, pending: Sequence[Answer]
) -> Iterator[Preview]:
    """What ``charge`` would add to the first ``seen`` recorded columns about its table and to what
    is charged and ``pending``; none if nothing is bought.

    It is looked at as a whole. Where not all recorded answers can be looked at with it, since they
    tell too many cells apart, each of its columns is looked at by itself too: so that a column over
    other attributes does not keep answers from sight that say something about this one.

    Raises StatementTooComplex where there is too much to look at, and TypeError if the noise is not
    added.
    """
    columns = zip(charge.workload.columns, charge.scales, strict=True)
    fresh = []
    for number, (column, scale) in enumerate(columns):
        law = law_of(charge.mechanism, scale)
        if law is None:
            raise TypeError(f"{charge.mechanism} is no noise that is added")
        if scale and column.height:
            fresh.append(_Fresh(number, column, law))
    if not fresh:
        return
    recorded = _Recorded(state, seen, pending)
    found, complete = _preview(fresh, recorded)
    yield from found
    if not complete and len(fresh) > 1:
        for one in fresh:
            deadline.check()
            yield from _preview([one], recorded)[0]


@dataclass(frozen=True, eq=False)
class _Fresh:
    """A column of the charge, and the law of the noise that it would get."""

    number: int
    column: Column
    law: NoiseLaw


class _Recorded:
    """The first ``seen`` columns of a state, and after them those that are pending."""

    def __init__(self, state: State, seen: int, pending: Sequence[Answer]) -> None:
        self._state = state
        self._seen = seen
        self._pending = [answer for answer in pending if answer.law is not None]
        self._relevance = state.relevance.copy(seen) if self._pending else state.relevance
        for number, answer in enumerate(self._pending, seen):
            if answer.law is not None and answer.column.height:
                self._relevance.add(number, answer.column, answer.law.variance)

    def relevant(self, fresh: Sequence[Column]) -> tuple[list[Answer], int]:
        """Those that bear on the fresh columns, and how many of them, from the first, are needed:
        without which too little would be looked at.

        These are exact rows, columns with rows of the fresh ones, and those that have cells in
        common with them and may hold one of their rows or lie within one; then come the nearest,
        and of these the most precise, while there are few enough rows. So what is about other
        people pushes nothing out.
        """
        keys = frozenset(key for column in fresh for key in column.row_keys)
        same = set(self._state.holding(fresh, self._seen))
        needed, others = list(self._state.exact), []
        exact = [one.column for one in needed]
        every = self._seen + len(self._pending)
        for distance, near in self._relevance.nearest(fresh, every, exact):
            for number in near:
                answer = self._answer(number)
                if (
                    number in same
                    or (number >= self._seen and not keys.isdisjoint(answer.column.row_keys))
                    or (not distance and any(may_nest(one, answer.column) for one in fresh))
                ):
                    needed.append(answer)
                else:
                    others.append(answer)
        chosen, height = list(needed), sum(one.column.height for one in needed)
        height += sum(column.height for column in fresh)
        for answer in others:
            if height + answer.column.height <= _BESIDE:
                chosen.append(answer)
                height += answer.column.height
        return chosen, len(needed)

    def _answer(self, number: int) -> Answer:
        if number < self._seen:
            return self._state.answer(number)
        return self._pending[number - self._seen]


def _preview(fresh: Sequence[_Fresh], recorded: _Recorded) -> tuple[list[Preview], bool]:
    """Of some of the charge's columns, and whether all that was chosen of history is in it."""
    others, needed = recorded.relevant([one.column for one in fresh])
    every = [
        *(PreparedColumn.of(one.column) for one in fresh),
        *prepared([answer.column for answer in others]),
    ]
    # Columns bought together are looked at one by one as well, where this is not all.
    found = _fitting(every, len(fresh) + (needed if len(fresh) == 1 else 0))
    laws = [_noises(one.law, one.column) for one in fresh]
    laws += [_recorded_noises(one) for one in others if one.law is not None]
    values = [np.full(one.column.height, np.nan) for one in fresh]
    values += [np.array(answer.values, dtype=np.float64) for answer in others]
    origin = [np.full(one.column.height, one.number) for one in fresh]
    origin += [np.full(answer.column.height, -1) for answer in others]
    complete = len(found.used) == len(every)
    rows, origins = found.history, np.concatenate([origin[n] for n in found.used])
    rows.sort_indices()
    places = np.flatnonzero(_connected(rows, origins >= 0))
    if not len(places):
        return [], complete
    rows, origins = rows[places], origins[places]
    queries, used = _queries(rows, origins >= 0), np.unique(rows.indices)
    rows, answers = rows[:, used], np.concatenate([values[n] for n in found.used])[places]
    noises = Noises.concatenated([laws[n] for n in found.used]).take(places)
    # What is charged and not recorded yet says how precise it will be, but nothing so far.
    old = np.flatnonzero((origins < 0) & np.isfinite(answers))
    before = cache(lambda: Precision.of(rows[old], answers[old], noises.take(old)))
    return [Preview(rows, origins, answers, noises, queries[:, used], before)], complete


def _noises(law: NoiseLaw, column: Column) -> Noises:
    return Noises.of(type(law), np.full(column.height, law.scale))


def _recorded_noises(answer: Answer) -> Noises:
    """Noise that was drawn together counts as independent noise of its variances, which say as
    much together with what is exact."""
    noises = noises_of(answer)
    if noises.together is None:
        return noises
    plain = Noises(noises.laws, noises.scales)
    return Noises(noises.laws, noises.scales * np.sqrt(noises.variances / plain.variances))


def _fitting(every: Sequence[PreparedColumn], needed: int) -> Related:
    """The first columns, which are needed, with those of the others for which there is room."""
    others = len(every) - needed
    while True:
        found = related([every[0]], range(needed + others), every.__getitem__, _TERMS, needed)
        if found is not None and found.used[:needed] == tuple(range(needed)):
            return found
        if not others:
            raise too_complex()
        others //= 2


def _connected(rows: sparse.csr_matrix, fresh: BoolArray) -> BoolArray:
    """Which rows have to do with a fresh one, through cells that rows have in common."""
    together = (rows != 0).astype(np.int8)
    _, labels = csgraph.connected_components(
        sparse.bmat([[None, together], [together.T, None]]), directed=False
    )
    labels = labels[: rows.shape[0]]
    found: BoolArray = np.isin(labels, labels[fresh]) & (np.diff(rows.indptr) > 0)
    return found


def _queries(rows: sparse.csr_matrix, fresh: BoolArray) -> sparse.csr_matrix:
    """The rows that are not empty, and the nested differences, each once."""
    filled = np.flatnonzero(np.diff(rows.indptr) > 0)
    every = sparse.vstack([rows[filled], *_differences(rows, fresh)], format="csr")
    if every.shape[0] > _ROWS:
        raise too_complex()
    first: dict[bytes, int] = {}
    for number, key in enumerate(row_bytes(every)):
        first.setdefault(key, number)
    return every[list(first.values())]


def _differences(rows: sparse.csr_matrix, fresh: BoolArray) -> list[sparse.csr_matrix]:
    """Of groups, one of which is fresh, of which one holds the other: the larger less the smaller.

    A group is a row whose coefficients are all the same.
    """
    sizes = np.diff(rows.indptr)
    least = np.array([rows.data[a:b].min(initial=2**62) for a, b in stretches(rows)])
    most = np.array([rows.data[a:b].max(initial=0) for a, b in stretches(rows)])
    groups = np.flatnonzero((least == most) & (least > 0))
    patterns = rows[groups].copy()
    patterns.data = np.ones_like(patterns.data)
    own = np.flatnonzero(fresh[groups])
    shared = (patterns[own] @ patterns.T).tocoo()
    mine, theirs = sizes[groups[own[shared.row]]], sizes[groups[shared.col]]
    nested = (mine != theirs) & (shared.data == np.minimum(mine, theirs))
    if nested.sum() > _ROWS or np.abs(mine - theirs)[nested].sum() > _ENTRIES:
        raise too_complex()
    if not nested.any():
        return []
    first, second = own[shared.row[nested]], shared.col[nested]
    swapped = (mine < theirs)[nested]
    larger, smaller = np.where(swapped, second, first), np.where(swapped, first, second)
    found = patterns[larger] - patterns[smaller]
    found.eliminate_zeros()
    found.sort_indices()
    return [found]
