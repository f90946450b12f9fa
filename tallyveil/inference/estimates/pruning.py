"""What of a history can have a part in the answers to some queries, decided cell by cell.

Rows of integers, as in `combinations`. A recorded row that alone touches some cell nobody asks for
has no part in a combination that is to leave this cell out. A query that touches a cell no row is
left for is not determined. A query that is a recorded row, with a cell that no other touches, is
answered by this row alone. Each of these may make way for the next.
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
    """``rows`` of the history can have a part in the queries ``open``, which may be determined;
    ``own[i]`` is the row that is query i and the only one that can answer it. What touches a cell
    is counted once, and those rows that have no part are taken off."""

    def __init__(self, history: sparse.csr_matrix, question: sparse.csr_matrix) -> None:
        history, question = (_in_order(matrix) for matrix in (history, question))
        entries, cells = entries_of(history), history.shape[1]
        touched = np.bincount(entries.cells, minlength=cells)
        rows = _sums(entries.cells, entries.rows, cells)  # that touch a cell: of one, its number
        left = entries_of(question)
        kept = np.ones(history.shape[0], dtype=bool)
        open_ = np.diff(question.indptr) > 0
        self.own: dict[int, int] = {}
        for _ in range(_ROUNDS):
            closed = left.rows[touched[left.cells] == 0]
            open_[closed] = False
            lone = touched == 1
            answered = _own_rows(history, question, rows, left.take(lone[left.cells]), open_)
            open_[list(answered)] = False
            self.own |= answered
            if len(closed) + len(answered):
                left = left.take(open_[left.rows])
            lone[left.cells] = False
            useless = np.unique(rows[lone])
            kept[useless] = False
            of, places = stretches(history.indptr, useless)
            touched -= np.bincount(entries.cells[places], minlength=cells)
            rows -= _sums(entries.cells[places], useless[of], cells)
            if not len(left.rows) or not len(closed) + len(useless) + len(answered):
                break
        open_[left.rows[touched[left.cells] == 0]] = False
        self.rows, self.open = np.flatnonzero(kept), np.flatnonzero(open_)


def _in_order(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    """With the cells of each row ascending."""
    return matrix if matrix.has_sorted_indices else matrix.sorted_indices()


def _sums(cells: IntArray, rows: IntArray, number: int) -> IntArray:
    """Of the numbers of rows, by cell."""
    return np.bincount(cells, rows, number).astype(np.int64)


def _own_rows(
    history: sparse.csr_matrix,
    question: sparse.csr_matrix,
    only: IntArray,
    lone: Entries,
    open_: BoolArray,
) -> dict[int, int]:
    """By open query, the row of the history that is the same, if it alone touches some cell, of
    those in ``lone``; ``only`` is the row that touches it."""
    asked, first = np.unique(lone.rows, return_index=True)
    asked, first = asked[open_[asked]], first[open_[asked]]
    rows = only[lone.cells[first]]
    same = np.diff(question.indptr)[asked] == np.diff(history.indptr)[rows]
    asked, rows = asked[same], rows[same]
    (of, mine), (_, theirs) = stretches(question.indptr, asked), stretches(history.indptr, rows)
    differs = question.indices[mine] != history.indices[theirs]
    differs |= question.data[mine] != history.data[theirs]
    same = np.bincount(of[differs], minlength=len(asked)) == 0
    return dict(zip(asked[same].tolist(), rows[same].tolist(), strict=True))
