"""The best linear unbiased combinations of a history for many queries at once (BAYES §3).

History: y = H x + noise, independent noise of a known law on each row. For each query q: the A with
A H = q of least Σ A_i² Var_i, or that there is none. The groups of a GROUP BY make this the same
small problem many times over, so the work is cut down to the problems that differ:

1. A recorded row that alone touches some cell nobody asks for has A_i = 0, and is left out; a query
   that touches a cell no row is left for is not determined; and one that is a recorded row, with a
   cell that no other touches, is answered by this row. This is repeated while it finds some.
2. Rows and cells that are connected, through cells that rows touch, make a block. A = Σ over the
   blocks a query touches, and each part is the best for its block.
3. Where a block's noisy rows add up to one that is exact, there is a formula (`partitions`).
4. Blocks with the same rows, in order, are one problem; and so are parts with the same query.

What is solved is solved in floating point, and taken only if A H = q on every cell, to 1e-11 of the
largest term. Anything else counts as not determined, which costs precision and never honesty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from tallyveil import deadline
from tallyveil.alike import alike
from tallyveil.inference.exchangeable import (
    EXACT,
    LARGEST,
    Exchangeable,
    by_products,
    least_norm_work,
    least_weighed,
    weighed,
    without_dust,
)
from tallyveil.inference.noise import FloatArray, Noises
from tallyveil.inference.partitions import Partition
from tallyveil.inference.pruning import Entries, Pruned, entries_of

__all__ = ["Combination", "best_combinations"]

_WORK: Final = 2e8  # floating point operations, roughly
_ALONE: Final = 4e6  # of one query solved by itself, about
_TOGETHER: Final = 3
_PRODUCTS: Final = 1.5e8  # of rows, multiplications at most
_SMALL: Final = 1_000_000  # entries up to which it takes longer to find cells that are alike

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Combination:
    """A is ``weights[i]`` at row ``places[i]`` of the history, and 0 elsewhere.

    Combinations of the same ``kind`` have the same weights on noises of the same laws.
    """

    places: _Ints
    weights: FloatArray
    kind: int


def best_combinations(
    history: sparse.csr_matrix, noises: Noises, question: sparse.csr_matrix
) -> list[Combination | None]:
    """For each row of ``question`` (k×n) the best combination of the rows of ``history`` (m×n), or
    None where these do not determine it, or it would take too much work to find out.

    Entries are integers below 2⁵³, none of those stored is zero; a row of ``question`` without
    entries gives None.
    """
    result: list[Combination | None] = [None] * question.shape[0]
    pruned = Pruned(entries_of(history), entries_of(question), history.shape, question.shape[0])
    laws, kind_of = noises.numbers, dict[int, int]()
    for number, row in pruned.own.items():
        kind = kind_of.setdefault(int(laws[row]), len(kind_of))
        result[number] = Combination(np.array([row], dtype=np.int64), np.ones(1), kind)
    rows, asked = pruned.rows, pruned.open
    if not len(asked):
        return result
    blocks = _Blocks(history[rows], noises.take(rows))
    parts = _Parts(question[asked], blocks)
    solved = _solved(blocks, parts)
    kinds: dict[tuple[int, ...], tuple[int, FloatArray]] = {}  # by the weights of the parts
    for number, own in zip(asked.tolist(), parts.by_row(), strict=True):
        found = [solved[sort] for sort in parts.sorts[own].tolist()]
        if any(one is None for one in found):
            continue
        used = [one for one in found if one is not None]
        parts_weights = [weights for _, weights in used]
        # Of several blocks noises may be of one draw, and of others not.
        apart = number if len(used) > 1 and noises.together is not None else -1
        key = (apart, *map(id, parts_weights))
        if key not in kinds:
            kinds[key] = len(kind_of) + len(kinds), np.concatenate(parts_weights)
        kind, weights = kinds[key]
        places = [
            blocks.rows.of(block)[ranks]
            for block, (ranks, _) in zip(parts.blocks[own].tolist(), used, strict=True)
        ]
        result[number] = Combination(rows[np.concatenate(places)], weights, kind)
    return result


class _Grouped:
    """Numbers 0 … in groups 0 …: those of each in order, and the rank of each in its group."""

    def __init__(self, group: _Ints, groups: int) -> None:
        self.order = np.argsort(group, kind="stable")
        self.starts = np.searchsorted(group[self.order], np.arange(groups + 1))
        self.rank = np.empty(len(group), dtype=np.int64)
        self.rank[self.order] = np.arange(len(group)) - self.starts[group[self.order]]

    @property
    def sizes(self) -> _Ints:
        return np.diff(self.starts)

    def of(self, group: int) -> _Ints:
        return self.order[self.starts[group] : self.starts[group + 1]]


class _Blocks:
    """The blocks of the history, with entries by the ranks of rows and cells in their block.

    ``like[block]`` is the first block with the same rows, cell by cell, of the same laws.
    """

    def __init__(self, history: sparse.csr_matrix, noises: Noises) -> None:
        m, n = history.shape
        history.sort_indices()
        graph = sparse.csr_matrix(
            (np.ones(history.nnz, dtype=np.int8), history.indices + m, history.indptr),
            shape=(m, m + n),
        )
        graph.resize((m + n, m + n))
        number, label = csgraph.connected_components(graph, directed=False)
        label = label.astype(np.int64)
        self.noises = noises
        self.block_of_cell = label[m:]
        self.rows, self.cells = _Grouped(label[:m], number), _Grouped(label[m:], number)
        entries = entries_of(history)
        block = label[entries.rows]
        ranked = Entries(
            self.rows.rank[entries.rows], self.cells.rank[entries.cells], entries.coefficients
        )
        order = np.argsort(block, kind="stable")  # by row and cell they are in order
        self.entries = ranked.take(order)
        self.starts = np.searchsorted(block[order], np.arange(number + 1))
        laws = noises.numbers[self.rows.order]
        self.like = alike(
            [self.rows.sizes, self.cells.sizes],
            (self.starts, [self.entries.rows, self.entries.cells, self.entries.coefficients]),
            (self.rows.starts, [laws, *self._drawn_together(label[:m])]),
        )

    def _drawn_together(self, block: _Ints) -> list[_Ints]:
        """For each row, by block, the rank there of the first row whose noise is of its draw."""
        if self.noises.together is None:
            return []
        owners = self.noises.together.owners[self.rows.order]
        alone = np.where(owners < 0, -1 - np.arange(len(owners)), owners)
        own = block[self.rows.order]
        pairs = np.unique(
            np.column_stack([own, alone]), axis=0, return_index=True, return_inverse=True
        )
        return [pairs[1][pairs[2].ravel()] - self.rows.starts[own]]

    def matrix(self, block: int) -> sparse.csr_matrix:
        own = self.entries.take(np.arange(self.starts[block], self.starts[block + 1]))
        shape = int(self.rows.sizes[block]), int(self.cells.sizes[block])
        return sparse.csr_matrix((own.coefficients, (own.rows, own.cells)), shape=shape)


class _Parts:
    """The parts of each query in the blocks it touches; ``sorts[part]`` is the first part with the
    same coefficients in a block that is like its own."""

    def __init__(self, question: sparse.csr_matrix, blocks: _Blocks) -> None:
        entries = entries_of(question)
        block = blocks.block_of_cell[entries.cells]
        ranks = blocks.cells.rank[entries.cells]
        order = np.lexsort((ranks, block, entries.rows))
        rows, block = entries.rows[order], block[order]
        first = np.flatnonzero(
            np.concatenate([[True], (np.diff(rows) != 0) | (np.diff(block) != 0)])
        )
        self.starts = np.append(first, len(rows))
        self.ranks, self.coefficients = ranks[order], entries.coefficients[order]
        self.blocks = block[first]
        self._ends = np.searchsorted(rows[first], np.arange(question.shape[0] + 1))
        self.sorts = alike(
            [blocks.like[self.blocks]], (self.starts, [self.ranks, self.coefficients])
        )

    def by_row(self) -> list[slice]:
        return [slice(a, b) for a, b in zip(self._ends[:-1], self._ends[1:], strict=True)]

    def queries(self, parts: Sequence[int], cells: int) -> sparse.csr_matrix:
        """A row for each of some parts, over the cells of their block."""
        lengths = self.starts[1:][parts] - self.starts[:-1][parts]
        ends = np.cumsum(lengths)
        own = np.arange(lengths.sum()) + np.repeat(self.starts[parts] - ends + lengths, lengths)
        rows = np.repeat(np.arange(len(parts)), lengths)
        shape = (len(parts), cells)
        return sparse.csr_matrix((self.coefficients[own], (rows, self.ranks[own])), shape=shape)


_Solution = tuple[_Ints, FloatArray] | None
"""The ranks of the block's rows that take part, and their weights."""


def _solved(blocks: _Blocks, parts: _Parts) -> dict[int, _Solution]:
    """By sort of part."""
    sorts = np.unique(parts.sorts)
    wanted: dict[int, list[int]] = {}
    for sort, like in zip(sorts.tolist(), blocks.like[parts.blocks[sorts]].tolist(), strict=True):
        wanted.setdefault(like, []).append(sort)
    left = _WORK
    result: dict[int, _Solution] = {}
    for block, own in wanted.items():
        deadline.check()
        if left < 0:
            result |= dict.fromkeys(own)
            continue
        matrix = blocks.matrix(block)
        noises = blocks.noises.take(blocks.rows.of(block))
        cells = matrix.shape[1]
        queries = parts.queries(own, cells) if len(own) * cells < _WORK else None
        partition = Partition.of(matrix, noises)
        if partition is not None and queries is not None:
            by_formula = partition.combinations(queries)
            if by_formula is not None:
                result |= dict(zip(own, by_formula, strict=True))
                continue
        if queries is None:
            left -= len(own) * _ALONE
            result |= dict.fromkeys(own)
            continue
        cost, solutions = _solutions(matrix, noises.variances, queries, left)
        left -= cost
        for sort, weights in zip(own, solutions, strict=True):
            ranks = None if weights is None else np.flatnonzero(weights)
            result[sort] = None if weights is None or ranks is None else (ranks, weights[ranks])
    return result


def _solutions(
    matrix: sparse.csr_matrix, variances: FloatArray, queries: sparse.csr_matrix, left: float
) -> tuple[float, list[FloatArray | None]]:
    """The work that some queries of one block take, and their weights; None for all of them if
    that is more than is ``left``."""
    number = queries.shape[0]
    small = _Together.small(matrix, queries)
    if small is not None and small.work <= left:
        solutions = small.solve(variances)
        if solutions is not None:
            return small.work, solutions
    history = Exchangeable(matrix, variances)
    many = number >= _TOGETHER and not history.too_large
    together = _Together.of(matrix, queries) if many else None
    cost = number * (_ALONE + 100 * matrix.nnz) if together is None else together.work
    if cost > left:
        return cost, [None] * number
    solutions = None if together is None else together.solve(variances)
    return cost, history.combinations(queries.toarray()) if solutions is None else solutions


@dataclass(frozen=True, eq=False)
class _Together:
    """Several queries of one block, solved at once, over cells that rows and queries tell apart,
    or all cells of a small block: cells that are alike ask the same of A."""

    matrix: FloatArray
    queries: FloatArray

    @classmethod
    def small(cls, matrix: sparse.csr_matrix, queries: sparse.csr_matrix) -> _Together | None:
        """Over all cells, of a small block; None if that is too much work even by products."""
        if math.prod(matrix.shape) > _SMALL or least_norm_work(*matrix.shape) > _PRODUCTS:
            return None
        return cls(matrix.astype(np.float64).toarray(), queries.astype(np.float64).toarray())

    @classmethod
    def of(cls, matrix: sparse.csr_matrix, queries: sparse.csr_matrix) -> _Together | None:
        """None if that is too much work."""
        stacked = sparse.vstack([matrix, queries], format="csc")
        stacked.sort_indices()
        starts = stacked.indptr.astype(np.int64)
        columns = [stacked.indices.astype(np.int64), stacked.data.astype(np.int64)]
        first = np.unique(alike([], (starts, columns)))
        if least_norm_work(matrix.shape[0], len(first)) > LARGEST:
            return None
        dense = stacked[:, first].toarray().astype(np.float64)
        return cls(dense[: matrix.shape[0]], dense[matrix.shape[0] :])

    @property
    def work(self) -> float:
        m, n = self.matrix.shape
        each = 0.5 if self._only_by_products else 2
        return float(each * least_norm_work(m, n) + 4 * len(self.queries) * m * n)

    @property
    def _only_by_products(self) -> bool:
        return least_norm_work(*self.matrix.shape) > LARGEST

    def solve(self, variances: FloatArray) -> list[FloatArray | None] | None:
        """None where it would be too much work, and by products of rows it is not clear."""
        solve = by_products if self._only_by_products else least_weighed
        spreads = weighed(variances)
        weights = solve(self.matrix, spreads, self.queries)
        if weights is None:
            return None
        weights = without_dust(weights, np.where(variances > 0, spreads, 0.0))
        combine = self._combine(weights)
        return [one if own else None for one, own in zip(weights, combine, strict=True)]

    def _combine(self, weights: FloatArray) -> npt.NDArray[np.bool_]:
        """Of each query, whether its weights A give it: A H = q."""
        most = np.maximum(self.matrix.max(axis=1), -self.matrix.min(axis=1))
        terms = (np.abs(weights) * most).max(axis=1)
        largest = np.maximum(np.abs(self.queries).max(axis=1), terms)
        off = np.abs(weights @ self.matrix - self.queries).max(axis=1)
        return np.asarray(off <= EXACT * largest)
