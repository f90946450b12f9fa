"""The blocks of a history, and the parts of queries in them.

A block is a connected component of rows and cells, where a row is connected to the cells it
touches. Blocks with the same rows, in order, are one problem, and so are parts with the same query.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from tallyveil.alike import group_equal, run_starts, stretches
from tallyveil.arrays import IntArray
from tallyveil.inference.estimates.pruning import Entries, entries_of
from tallyveil.inference.laws.noises import Noises

__all__ = ["Blocks", "Grouped", "Parts"]


class Grouped:
    """Numbers 0 … in groups 0 …: the numbers of each group in order, and their ranks in it."""

    def __init__(self, group: IntArray, groups: int) -> None:
        self.order = np.argsort(group, kind="stable")
        self.starts = np.searchsorted(group[self.order], np.arange(groups + 1))
        self.rank = np.empty(len(group), dtype=np.int64)
        self.rank[self.order] = np.arange(len(group)) - self.starts[group[self.order]]

    @property
    def sizes(self) -> IntArray:
        return np.diff(self.starts)

    def of(self, group: int) -> IntArray:
        return self.order[self.starts[group] : self.starts[group + 1]]


class Blocks:
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
        self.rows, self.cells = Grouped(label[:m], number), Grouped(label[m:], number)
        entries = entries_of(history)
        block = label[entries.rows]
        ranked = Entries(
            self.rows.rank[entries.rows], self.cells.rank[entries.cells], entries.coefficients
        )
        order = np.argsort(block, kind="stable")  # within a block by row, then cell
        self.entries = ranked.take(order)
        self.starts = np.searchsorted(block[order], np.arange(number + 1))
        laws = noises.numbers[self.rows.order]
        self.like = group_equal(
            [self.rows.sizes, self.cells.sizes],
            (self.starts, [self.entries.rows, self.entries.cells, self.entries.coefficients]),
            (self.rows.starts, [laws, *self._drawn_together(label[:m])]),
        )

    def _drawn_together(self, block: IntArray) -> list[IntArray]:
        """For each row of each block, the rank there of the first row of the same draw of noise."""
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
        own = slice(self.starts[block], self.starts[block + 1])
        shape = int(self.rows.sizes[block]), int(self.cells.sizes[block])
        starts = np.searchsorted(self.entries.rows[own], np.arange(shape[0] + 1))
        entries = self.entries.coefficients[own], self.entries.cells[own], starts
        return sparse.csr_matrix(entries, shape=shape)


class Parts:
    """The parts of each query in the blocks it touches. ``sorts[part]`` is the first part with the
    same coefficients in an equal block."""

    def __init__(self, question: sparse.csr_matrix, blocks: Blocks) -> None:
        entries = entries_of(question)
        block = blocks.block_of_cell[entries.cells]
        ranks = blocks.cells.rank[entries.cells]
        order = np.lexsort((ranks, block, entries.rows))
        rows, block = entries.rows[order], block[order]
        first = run_starts(rows, block)
        self.starts = np.append(first, len(rows))
        self.ranks, self.coefficients = ranks[order], entries.coefficients[order]
        self.blocks = block[first]
        self._ends = np.searchsorted(rows[first], np.arange(question.shape[0] + 1))
        self.sorts = group_equal(
            [blocks.like[self.blocks]], (self.starts, [self.ranks, self.coefficients])
        )

    def by_row(self) -> list[slice]:
        return [slice(a, b) for a, b in zip(self._ends[:-1], self._ends[1:], strict=True)]

    def queries(self, parts: Sequence[int], cells: int) -> sparse.csr_matrix:
        """A row for each of these parts, over the cells of their block."""
        rows, own = stretches(self.starts, np.array(parts))
        starts = np.searchsorted(rows, np.arange(len(parts) + 1))
        entries = self.coefficients[own], self.ranks[own], starts
        return sparse.csr_matrix(entries, shape=(len(parts), cells))
