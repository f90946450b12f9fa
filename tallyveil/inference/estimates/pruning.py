"""Which rows of a history can be used to answer some queries, decided cell by cell.

Rows are of integers, as in `combinations`. A recorded row that alone touches some cell outside
all queries cannot be used. A query that touches a cell that no remaining row touches is not
determined. A query that equals a recorded row, with a cell that no other row touches, is answered
by this row alone. Each of these steps may enable others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import sparse

from tallyveil.alike import stretches
from tallyveil.arrays import BoolArray, IntArray

__all__ = ["Entries", "Pruned", "entries_of"]

_ROUNDS: Final = 64


@dataclass(frozen=True, eq=False)
class Entries:
    rows: IntArray
    cells: IntArray
    coefficients: IntArray

    def take(self, which: BoolArray | IntArray) -> Entries:
        return Entries(self.rows[which], self.cells[which], self.coefficients[which])


def entries_of(matrix: sparse.csr_matrix) -> Entries:
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return Entries(rows, matrix.indices.astype(np.int64), matrix.data.astype(np.int64))


class Pruned:
    """``rows`` of the history can be used for the queries ``open``, which may be determined.
    ``own[i]`` is the row that equals query i and is the only one that can answer it."""

    def __init__(self, history: sparse.csr_matrix, question: sparse.csr_matrix) -> None:
        self._history, question = (_in_order(matrix) for matrix in (history, question))
        self._entries, cells = entries_of(self._history), history.shape[1]
        self._touched = np.bincount(self._entries.cells, minlength=cells)
        # The sum of the numbers of the rows that touch a cell: for a single row, its number.
        self._sums = _sums(self._entries.cells, self._entries.rows, cells)
        self._kept = np.ones(history.shape[0], dtype=bool)
        self.own: dict[int, int] = {}
        left, open_ = entries_of(question), np.diff(question.indptr) > 0
        for _ in range(_ROUNDS):
            if not self._dropped(left.cells):
                break
        for _ in range(_ROUNDS):
            closed = left.rows[self._touched[left.cells] == 0]
            open_[closed] = False
            answered = self._own_rows(question, left, open_)
            open_[list(answered)] = False
            self.own |= answered
            left = left.take(open_[left.rows])
            dropped = self._dropped(left.cells)
            if not len(left.rows) or not len(closed) + dropped + len(answered):
                break
        open_[left.rows[self._touched[left.cells] == 0]] = False
        self.rows, self.open = np.flatnonzero(self._kept), np.flatnonzero(open_)

    def _dropped(self, asked: IntArray) -> int:
        """Drop the rows that alone touch some cell outside ``asked``, and return their number."""
        lone = self._touched == 1
        lone[asked] = False
        useless = np.unique(self._sums[lone])
        self._kept[useless] = False
        of, places = stretches(self._history.indptr, useless)
        cells = self._entries.cells[places]
        self._touched -= np.bincount(cells, minlength=len(lone))
        self._sums -= _sums(cells, useless[of], len(lone))
        return len(useless)

    def _own_rows(
        self, question: sparse.csr_matrix, left: Entries, open_: BoolArray
    ) -> dict[int, int]:
        """For open queries, the equal row of the history, if it alone touches some cell."""
        lone = left.take((self._touched[left.cells] == 1) & open_[left.rows])
        asked, first = np.unique(lone.rows, return_index=True)
        history, rows = self._history, self._sums[lone.cells[first]]
        same = np.diff(question.indptr)[asked] == np.diff(history.indptr)[rows]
        asked, rows = asked[same], rows[same]
        (of, mine), (_, theirs) = stretches(question.indptr, asked), stretches(history.indptr, rows)
        differs = question.indices[mine] != history.indices[theirs]
        differs |= question.data[mine] != history.data[theirs]
        same = np.bincount(of[differs], minlength=len(asked)) == 0
        return dict(zip(asked[same].tolist(), rows[same].tolist(), strict=True))


def _in_order(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    """The matrix with the cells of each row ascending."""
    return matrix if matrix.has_sorted_indices else matrix.sorted_indices()


def _sums(cells: IntArray, rows: IntArray, number: int) -> IntArray:
    """For each cell the sum of the numbers of its rows."""
    return np.bincount(cells, rows, number).astype(np.int64)
