"""Previews of a purchase: how precisely counts would be known after it.

They check the rows to be bought, relevant recorded rows, and the differences of two nested groups
of which one is to be bought: the counts of a group with and without a few records give the count of
these few.
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
from tallyveil.alike import distinct_rows
from tallyveil.arrays import BoolArray
from tallyveil.inference import NoiseLaw, Noises
from tallyveil.knowledge.answers.precision import (
    Precision,
    Preview,
    too_complex,
)
from tallyveil.knowledge.recorded.column_store import may_nest
from tallyveil.knowledge.recorded.drawn import noises_of
from tallyveil.knowledge.recorded.matrix import Related, related
from tallyveil.knowledge.recorded.prepared import PreparedColumn, prepared
from tallyveil.knowledge.state import State
from tallyveil.mechanisms import law_of
from tallyveil.workload.workload import Column

__all__ = ["previews"]

_ROWS: Final = 20_000  # rows to check, differences included
_ENTRIES: Final = 1_000_000  # entries of the differences
_BESIDE: Final = 1_000  # rows in all, if optional recorded ones are added
_TERMS: Final = 400_000  # entries of all rows


def previews(
    charge: Charge, state: State, seen: int, pending: Sequence[Answer]
) -> Iterator[Preview]:
    """What ``charge`` would add to the first ``seen`` recorded columns and to ``pending`` answers,
    which are charged but not recorded; nothing if it buys nothing.

    The charge is checked as a whole. If relevant recorded answers do not fit beside it, because
    they distinguish too many cells, each column is also checked alone. So a column over other
    attributes hides no answers that are relevant to this one.

    Raises StatementTooComplex if there is too much to check, and TypeError if the noise is not
    additive.
    """
    columns = zip(charge.workload.columns, charge.scales, strict=True)
    fresh = []
    for number, (column, scale) in enumerate(columns):
        law = law_of(charge.mechanism, scale)
        if law is None:
            raise TypeError(f"the noise of {charge.mechanism} is not additive")
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
    """A column of the charge, with the law of the noise it would get."""

    number: int
    column: Column
    law: NoiseLaw


class _Recorded:
    """The first ``seen`` columns of a state, followed by the pending ones."""

    def __init__(self, state: State, seen: int, pending: Sequence[Answer]) -> None:
        self._state = state
        self.seed = state.seed
        self._seen = seen
        self._pending = [answer for answer in pending if answer.law is not None]
        self._relevance = state.relevance.copy(seen) if self._pending else state.relevance
        for number, answer in enumerate(self._pending, seen):
            if answer.law is not None and answer.column.height:
                self._relevance.add(number, answer.column, answer.law.variance)

    def relevant(self, fresh: Sequence[Column]) -> tuple[list[Answer], int]:
        """The answers that are relevant to the fresh columns, and how many of them, from the first,
        the check must include.

        It must include exact rows, columns with rows of the fresh ones, and columns that have cells
        in common with them and may contain one of their rows or lie within one. The nearest others
        follow, of these the most precise first, while there are few enough rows. So answers about
        other people displace nothing.
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
    """The preview of these columns, and whether it includes all relevant answers."""
    others, needed = recorded.relevant([one.column for one in fresh])
    every = [
        *(PreparedColumn.of(recorded.seed, one.column) for one in fresh),
        *prepared(recorded.seed, [answer.column for answer in others]),
    ]
    # Of several fresh columns each is checked alone too, if this is not complete.
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
    # Answers that are not recorded yet have a known precision, but no values so far.
    old = np.flatnonzero((origins < 0) & np.isfinite(answers))
    seed = recorded.seed
    before = cache(lambda: Precision.of(rows[old], answers[old], noises.take(old), seed))
    return [Preview(rows, origins, answers, noises, queries[:, used], seed, before)], complete


def _noises(law: NoiseLaw, column: Column) -> Noises:
    return Noises.of(type(law), np.full(column.height, law.scale))


def _recorded_noises(answer: Answer) -> Noises:
    """The noises of an answer's rows. Joint noise counts as independent noise of its variances,
    which is as informative together with the exact rows."""
    noises = noises_of(answer)
    if noises.together is None:
        return noises
    plain = Noises(noises.laws, noises.scales)
    return Noises(noises.laws, noises.scales * np.sqrt(noises.variances / plain.variances))


def _fitting(every: Sequence[PreparedColumn], needed: int) -> Related:
    """The ``needed`` first columns, and as many of the others as fit.

    Raises StatementTooComplex if the first do not fit."""
    others = len(every) - needed
    while True:
        found = related([every[0]], range(needed + others), every.__getitem__, _TERMS, needed)
        if found is not None and found.used[:needed] == tuple(range(needed)):
            return found
        if not others:
            raise too_complex()
        others //= 2


def _connected(rows: sparse.csr_matrix, fresh: BoolArray) -> BoolArray:
    """Which rows are connected to a fresh one through common cells."""
    together = (rows != 0).astype(np.int8)
    _, labels = csgraph.connected_components(
        sparse.bmat([[None, together], [together.T, None]]), directed=False
    )
    labels = labels[: rows.shape[0]]
    found: BoolArray = np.isin(labels, labels[fresh]) & (np.diff(rows.indptr) > 0)
    return found


def _queries(rows: sparse.csr_matrix, fresh: BoolArray) -> sparse.csr_matrix:
    """The distinct rows that are not empty, and the nested differences."""
    filled = np.flatnonzero(np.diff(rows.indptr) > 0)
    every = sparse.vstack([rows[filled], *_differences(rows, fresh)], format="csr")
    if every.shape[0] > _ROWS:
        raise too_complex()
    return every[distinct_rows(every)]


def _differences(rows: sparse.csr_matrix, fresh: BoolArray) -> list[sparse.csr_matrix]:
    """The larger less the smaller of two groups, of which one is fresh and one contains the other.

    A group is a row whose coefficients are all equal.
    """
    sizes = np.diff(rows.indptr)
    least = rows.min(axis=1, explicit=True).toarray().ravel()
    most = rows.max(axis=1, explicit=True).toarray().ravel()
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
