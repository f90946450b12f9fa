"""The best linear unbiased combinations of a history for many queries at once (BAYES §3).

History: y = H x + noise, independent noise of a known law on each row. For each query q, find the A
with A H = q of least Σ A_i² Var_i, or that none exists. With the groups of a GROUP BY this is the
same small problem many times over, so only problems that differ are solved:

1. A recorded row that alone touches some cell outside all queries has A_i = 0 and is dropped. A
   query is not determined if it touches a cell that no remaining row touches. A query that equals
   a recorded row, with a cell that no other row touches, is answered by this row. This is repeated
   as long as it applies.
2. Connected components of rows and the cells they touch are blocks. A is the sum over the blocks a
   query touches of the best A for its part in each.
3. Where a block's noisy rows add up to one that is exact, there is a formula (`partitions`), and
   one for many rows that are orthogonal (`orthogonal`).
4. Blocks with the same rows, in order, are one problem, and so are parts with the same query.

Solutions are computed in floating point, and accepted only if A H = q on every cell, to 1e-11 of
the largest term. Otherwise the query counts as not determined, which costs precision but keeps
every interval valid.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tallyveil import deadline
from tallyveil.alike import stretches
from tallyveil.arrays import FloatArray
from tallyveil.inference.estimates.blocks import Blocks, Grouped, Parts
from tallyveil.inference.estimates.conjugate import by_conjugate_gradients
from tallyveil.inference.estimates.determined import Combination, Determined
from tallyveil.inference.estimates.exchangeable import Exchangeable
from tallyveil.inference.estimates.least_norm import LARGEST, Nearest, least_norm_work
from tallyveil.inference.estimates.orthogonal import orthogonal_combinations
from tallyveil.inference.estimates.partitions import Partition
from tallyveil.inference.estimates.pruning import Pruned
from tallyveil.inference.estimates.together import WORK, Together, is_small
from tallyveil.inference.laws.noises import Noises

__all__ = ["Solved", "best_combinations", "by_formula", "solved"]

_ALONE: Final = 4e6  # of one query solved by itself, roughly
_FORMULA: Final = 50_000  # entries of a dense system from which a formula is looked for
_FEW: Final = 64  # rows of a question that take a block update

_Ints = npt.NDArray[np.int64]
_NONE: Final = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Solved:
    """For each row of a question the best combination, if any. ``determined`` is what the history
    determines of all rows together, if that was found on the way."""

    combinations: list[Combination | None]
    determined: Determined | None = None
    given_up: bool = False
    """Whether some row was given up because it took too much work."""


def best_combinations(
    history: sparse.csr_matrix,
    noises: Noises,
    question: sparse.csr_matrix,
    *,
    thorough: bool = False,
    times: float = 1,
) -> list[Combination | None]:
    """For each row of ``question`` (k×n) the best combination of the rows of ``history`` (m×n), or
    None where these do not determine it, or finding out would take too much work.

    Entries are integers below 2⁵³, none of those stored is zero; a row of ``question`` without
    entries gives None. Limits are those of a question of so many ``times`` as many rows.
    """
    return solved(history, noises, question, thorough=thorough, times=times).combinations


def by_formula(rows: int, cells: int, queries: int) -> bool:
    """Whether so many rows, over so many cells at most, that are orthogonal and connected are found
    to determine the queries in their span (`orthogonal`). There are as many cells as rows."""
    return rows * rows > _FORMULA and queries * cells < WORK


def solved(
    history: sparse.csr_matrix,
    noises: Noises,
    question: sparse.csr_matrix,
    *,
    thorough: bool = False,
    times: float = 1,
) -> Solved:
    """As `best_combinations`. If ``thorough``, a history that is known to determine the question
    may take more work (`conjugate`)."""
    result: list[Combination | None] = [None] * question.shape[0]
    pruned = Pruned(history, question)
    laws, kind_of = noises.numbers, dict[int, int]()
    for number, row in pruned.own.items():
        kind = kind_of.setdefault(int(laws[row]), len(kind_of))
        result[number] = Combination(np.array([row], dtype=np.int64), np.ones(1), kind)
    rows, asked = pruned.rows, pruned.open
    if not len(asked):
        return Solved(result, _determined_by_own(pruned.own, noises, question))
    blocks = Blocks(history[rows], noises.take(rows))
    parts = Parts(question[asked], blocks)
    solutions = _Solutions(blocks, parts, thorough, times)
    kinds: dict[tuple[int, bytes], tuple[int, FloatArray]] = {}  # by the weights of the parts
    sorts, of_part = np.unique(parts.sorts, return_inverse=True)
    found = [solutions.found[sort] for sort in sorts.tolist()]
    none = np.array([one is None for one in found])
    each = [one or (_NONE, np.ones(0)) for one in found]
    alike = np.unique([id(own) for _, own in each], return_inverse=True)[1]
    starts = np.cumsum([0, *(len(ranks) for ranks, _ in each)])
    every_rank = np.concatenate([ranks for ranks, _ in each])
    for number, own in zip(asked.tolist(), parts.by_row(), strict=True):
        deadline.check()
        if none[of_part[own]].any():
            continue
        # Noises of several blocks may be of one draw or not, so their kind depends on it.
        apart = number if own.stop - own.start > 1 and noises.together is not None else -1
        key = (apart, alike[of_part[own]].tobytes())
        if key not in kinds:
            weights = np.concatenate([each[sort][1] for sort in of_part[own].tolist()])
            kinds[key] = len(kind_of) + len(kinds), weights
        kind, weights = kinds[key]
        part, place = stretches(starts, of_part[own])
        ranked = blocks.rows.starts[parts.blocks[own]][part] + every_rank[place]
        result[number] = Combination(rows[blocks.rows.order[ranked]], weights, kind)
    every = np.count_nonzero(np.diff(question.indptr)) == len(asked)
    determined = _determined(solutions, rows, asked, noises) if every else None
    return Solved(result, determined, solutions.given_up)


def _determined_by_own(
    own: Mapping[int, int], noises: Noises, question: sparse.csr_matrix
) -> Determined | None:
    """As `_determined`, where each row that has cells equals the only one that can answer it."""
    asked = np.flatnonzero(np.diff(question.indptr))
    if not 0 < len(asked) == len(own) <= _FEW or noises.together is not None:
        return None
    if not noises.variances.all():
        return None
    weights = np.zeros((len(asked), len(noises)))
    weights[np.arange(len(asked)), [own[row] for row in asked.tolist()]] = 1.0
    return Determined.of(asked, weights, np.zeros((len(asked), 0)))


def _determined(
    solutions: _Solutions, rows: _Ints, asked: _Ints, noises: Noises
) -> Determined | None:
    """What ``rows`` of a history determine of ``asked``, all rows of a question that have cells.
    None if that was not found, or if some answers are exact or drawn together."""
    if noises.together is not None or not noises.variances.all():
        return None
    if solutions.too_large:
        return Determined.nothing(asked)
    blocks, parts, number = solutions.blocks, solutions.parts, len(asked)
    if number > _FEW:
        return None
    sorts, of_part = np.unique(parts.sorts, return_inverse=True)
    if not solutions.nearest.keys() >= set(sorts.tolist()):
        return None
    each = [solutions.nearest[sort] for sort in sorts.tolist()]
    _, first, of_block = np.unique(parts.blocks, return_index=True, return_inverse=True)
    widths = np.array([len(own_off) for _, own_off, _ in each])[of_part[first]]
    order = np.argsort(first)  # the blocks as they are asked
    ends = np.empty(len(first), dtype=np.int64)
    ends[order] = np.cumsum(widths[order])
    cells, starts = int(widths.sum()), (ends - widths)[of_block]
    weights, off = np.zeros((number, len(noises))), np.zeros((number, cells))
    asking = np.repeat(np.arange(number), [own.stop - own.start for own in parts.by_row()])
    alike = Grouped(of_part, len(sorts))
    for sort, (own_weights, own_off, _) in enumerate(each):
        own = alike.of(sort)
        ranked = blocks.rows.starts[parts.blocks[own]][:, None] + np.arange(len(own_weights))
        weights[asking[own][:, None], rows[blocks.rows.order[ranked]]] = own_weights
        off[asking[own][:, None], starts[own][:, None] + np.arange(len(own_off))] = own_off
    # Once all rows are answered, all their blocks are one, which must then be solvable too.
    height, width = np.sum([each[sort][2] for sort in of_part[first].tolist()], axis=0).tolist()
    entries = len(blocks.entries.rows) + len(parts.ranks)
    if not is_small(len(rows) + number, cells, number) and (
        least_norm_work(height + number, width) > LARGEST
        or number * (_ALONE + 100 * entries) > WORK
    ):
        return None
    return Determined.of(asked, weights, off)


_Solution = tuple[_Ints, FloatArray] | None
"""The ranks of the block's rows that take part, and their weights."""


class _Solutions:
    """The solutions ``found`` by sort of part, and for parts solved together the ``nearest``
    combinations of all rows of the block, with their errors on its distinguishable cells. ``work``
    is the amount used; ``too_large`` if it was not enough for everything."""

    def __init__(self, blocks: Blocks, parts: Parts, thorough: bool, times: float) -> None:
        self.blocks, self.parts, self._thorough, self._times = blocks, parts, thorough, times
        self.found: dict[int, _Solution] = {}
        self.nearest: dict[int, tuple[FloatArray, FloatArray, tuple[int, int]]] = {}
        self.work, self.too_large, self.given_up = 0.0, True, False
        sorts = np.unique(parts.sorts)
        wanted: dict[int, list[int]] = {}
        likes = blocks.like[parts.blocks[sorts]].tolist()
        for sort, like in zip(sorts.tolist(), likes, strict=True):
            wanted.setdefault(like, []).append(sort)
        for block, own in wanted.items():
            deadline.check()
            if self.work > WORK:
                self.given_up = True
                self.found |= dict.fromkeys(own)
            else:
                self._solve(block, own)

    def _solve(self, block: int, own: Sequence[int]) -> None:
        """Solve the parts of these sorts, all in one block."""
        matrix = self.blocks.matrix(block)
        noises = self.blocks.noises.take(self.blocks.rows.of(block))
        cells = matrix.shape[1]
        if len(own) * self._times * cells >= WORK:
            self.work += len(own) * _ALONE
            self.given_up = True
            self.found |= dict.fromkeys(own)
            return
        queries = self.parts.queries(own, cells)
        partition = Partition.of(matrix, noises)
        by_formula = None if partition is None else partition.combinations(queries)
        if by_formula is not None:
            self.too_large = False
            self.found |= dict(zip(own, by_formula, strict=True))
            return
        if matrix.shape[0] * cells > _FORMULA:
            by_formula = orthogonal_combinations(matrix, queries)
            if by_formula is not None:
                self.too_large = False
                self.found |= dict(zip(own, by_formula, strict=True))
                return
        for sort, weights in zip(own, self._weights(matrix, noises, queries, own), strict=True):
            ranks = None if weights is None else np.flatnonzero(weights)
            self.found[sort] = None if weights is None or ranks is None else (ranks, weights[ranks])

    def _weights(
        self,
        matrix: sparse.csr_matrix,
        noises: Noises,
        queries: sparse.csr_matrix,
        own: Sequence[int],
    ) -> Sequence[FloatArray | None]:
        """The weights for each query of one block; None for all if that takes too much work."""
        number, variances = math.ceil(queries.shape[0] * self._times), noises.variances
        together = Together.of(matrix, queries, number)
        if together is not None and self.work + together.work <= WORK:
            nearest = together.solve(variances)
            if nearest is not None:
                self.work += together.work
                return self._noted(own, nearest)
        if self._thorough and self.work + number * (_ALONE + 100 * matrix.nnz) > WORK:
            quickly = by_conjugate_gradients(matrix, variances, queries, number)
            if quickly is not None:
                self.too_large = False
                return quickly
        history = Exchangeable(matrix, variances)
        self.work += number * (_ALONE + 100 * matrix.nnz)
        if self.work > WORK or history.too_large:
            self.given_up = True
            return [None] * queries.shape[0]
        asked = queries.toarray()
        nearest = history.nearest(asked)
        if nearest is not None:
            return self._noted(own, nearest)
        self.too_large = False
        found = history.one_by_one(asked)
        self.given_up |= history.given_up
        return found

    def _noted(self, own: Sequence[int], nearest: Nearest) -> Sequence[FloatArray | None]:
        self.too_large = False
        for sort, *one in zip(own, nearest.weights, nearest.off, strict=True):
            self.nearest[sort] = one[0], one[1], nearest.shape
        return nearest.combinations
