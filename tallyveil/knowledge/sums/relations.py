"""All linear relations between rows, in integers: a basis of the u with u Q + v C = 0, for the rows
Q that a statement asks and the exact rows C.

Rows are reduced one after the other, exact rows first, then those of the fewest cells. A row that
follows from rows before it gives a relation; the others are the free rows. So every relation has
one row of its own, the dependent one, and otherwise free rows. Coefficients are found modulo a
prime, converted to fractions and multiplied out in integers (`invariants.modular`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from tallyveil import deadline
from tallyveil.alike import distinct_rows, run_starts
from tallyveil.arrays import BoolArray, FloatArray, IntArray
from tallyveil.cache import cached_property
from tallyveil.invariants import Dependency, dependencies

__all__ = ["OTHERS", "PUBLIC", "Relations", "relations"]

OTHERS: Final = "each other"
PUBLIC: Final = "public counts"
"""To what rows add up."""

_ENTRIES: Final = 250_000  # of one matrix to reduce
_TOGETHER: Final = 10_000  # up to here it takes less to reduce all parts as one than to part them
_WORK: Final = 40_000_000  # changes of entries in all: about 2 s
_PAIRS: Final = 30_000_000  # of entries of one row, to move values: about 2 s
_LARGEST: Final = 2**40  # a coefficient
_WHOLE: Final = 2.0**53  # up to here a double holds every integer


@dataclass(frozen=True, eq=False)
class Relations:
    """Σ_i ``matrix[r, i]`` z_i = ``totals[r]`` for the statement's rows. Row ``dependent[r]`` is in
    relation r alone; the others are free. Exact rows are part of the relations ``exact``."""

    matrix: sparse.csr_matrix
    totals: IntArray
    dependent: IntArray
    exact: IntArray

    @cached_property
    def steps(self) -> FloatArray:
        """The least by which each row can change, whatever integers the rows are: that of 9 z is 9.
        It is their greatest common divisor over the relation's other rows, by its own factor."""
        steps = np.ones(self.matrix.shape[1])
        relation = np.repeat(np.arange(len(self.dependent)), np.diff(self.matrix.indptr))
        own = self.matrix.indices == self.dependent[relation]
        factors = np.gcd.reduceat(np.where(own, 0, self.matrix.data), self.matrix.indptr[:-1])
        steps[self.dependent] = factors / self.matrix.data[own]
        return steps

    def broken(self, values: Sequence[int]) -> frozenset[str]:
        """To what the rows need not add up if these values are reported: to each other as well
        where relations with exact rows do not hold, which differ by relations without."""
        off = self.matrix @ np.array(values, dtype=np.int64) != self.totals
        public = {PUBLIC} if off[self.exact].any() else set()
        return frozenset(public | {OTHERS} if off.any() else public)


def relations(
    asked: sparse.csr_matrix, exact: sparse.csr_matrix, values: FloatArray
) -> Relations | None:
    """The relations between the rows ``asked`` and ``exact`` rows with these values, over the same
    cells; None if they take too much work to find or to satisfy, or have too many digits."""
    every = sparse.vstack([exact, asked], format="csr")
    first = exact.shape[0]
    known = np.append(values, np.full(asked.shape[0], np.nan))
    columns, data = list[IntArray](), list[IntArray]()
    totals, dependent, with_exact = list[int](), list[int](), list[int]()
    work, alike = _WORK, dict[tuple[bytes, ...], list[Dependency]]()
    for part in deadline.stoppable(_parts(every), 100):
        own = every[part]
        places = np.unique(own.indices, return_inverse=True)[1]
        key = own.indptr.tobytes(), places.tobytes(), own.data.tobytes(), (part >= first).tobytes()
        if key not in alike:  # parts are often alike, as those of groups are
            reduced = _dependencies(own, part >= first, work)
            if reduced is None:
                return None
            alike[key], work = reduced
        found = alike[key]
        for row, parts, times, unit in deadline.stoppable(found, 100):
            if part[row] < first:
                continue  # among exact rows
            rows = part[parts]
            given = rows < first
            total = _total(times[given].tolist(), known[rows[given]])
            if total is None or max(unit, *np.abs(times).tolist(), 0) > _LARGEST:
                return None
            which = int(part[row]) - first
            columns.append(np.append(rows[~given] - first, which))
            data.append(np.append(-times[~given].astype(np.int64), unit))
            if given.any():
                with_exact.append(len(totals))
            dependent.append(which)
            totals.append(total)
    starts = np.cumsum([0, *map(len, data)])
    entries = [np.concatenate([np.zeros(0, np.int64), *own]) for own in (data, columns)]
    if (np.bincount(entries[1], minlength=1) ** 2).sum() > _PAIRS:
        return None
    return Relations(
        sparse.csr_matrix((*entries, starts), (len(totals), asked.shape[0])),
        *(np.array(one, dtype=np.int64) for one in (totals, dependent, with_exact)),
    )


def _total(times: Sequence[int], values: FloatArray) -> int | None:
    """The sum of multiples of those values that are known; None if it has too many digits."""
    total = 0
    for factor, value in zip(times, values.tolist(), strict=True):
        if not math.isnan(value):
            if not abs(value) < _WHOLE:
                return None
            total += factor * int(value)
    return total if abs(total) < _WHOLE else None


def _parts(matrix: sparse.csr_matrix) -> Iterator[IntArray]:
    """The rows that may be in relations, those connected by common cells together."""
    tied = _tied(matrix)
    if len(tied) * matrix.shape[1] <= _TOGETHER:
        yield tied
        return
    shared = abs(matrix[tied].sign())
    graph = sparse.block_array([[None, shared], [shared.T, None]], format="csr")
    _, label = csgraph.connected_components(graph, directed=False)
    order = np.argsort(label[: len(tied)], kind="stable")
    starts = run_starts(label[order]) if len(order) else order
    yield from np.split(tied[order], starts[1:])


def _dependencies(
    matrix: sparse.csr_matrix, asked: BoolArray, work: int
) -> tuple[list[Dependency], int] | None:
    """The rows that are sums of others, exact ones first, then those of the fewest cells, and what
    is left of the ``work``; None if it takes more."""
    cells = sparse.csr_matrix(matrix.T)
    cells = cells[np.flatnonzero(np.diff(cells.indptr))]
    cells = cells[distinct_rows(cells)]
    if math.prod(cells.shape) > _ENTRIES:
        return None
    weights = np.asarray(abs(matrix).sum(axis=1)).ravel()
    order = np.lexsort((weights, np.diff(matrix.indptr), asked))
    reduced = dependencies(cells.toarray().T[order], work)
    if reduced is None:
        return None
    found, left = reduced
    return [(int(order[row]), order[parts], times, unit) for row, parts, times, unit in found], left


def _tied(matrix: sparse.csr_matrix) -> IntArray:
    """The rows that may be in a relation: no row with a cell of its own is, and so on."""
    left = np.flatnonzero(np.diff(matrix.indptr))
    while len(left):
        own = matrix[left]
        alone = np.bincount(own.indices, minlength=matrix.shape[1])[own.indices] == 1
        rows = np.repeat(np.arange(len(left)), np.diff(own.indptr))
        single = np.bincount(rows, alone, len(left)) > 0
        if not single.any():
            break
        left = left[~single]
    return left
