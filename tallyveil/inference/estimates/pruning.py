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
import numpy.typing as npt
from scipy import sparse

__all__ = ["Entries", "Pruned", "entries_of"]

_ROUNDS: Final = 64

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Entries:
    rows: _Ints
    cells: _Ints
    coefficients: _Ints

    def take(self, which: npt.NDArray[np.bool_] | _Ints) -> Entries:
        return Entries(self.rows[which], self.cells[which], self.coefficients[which])


def entries_of(matrix: sparse.csr_matrix) -> Entries:
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return Entries(rows, matrix.indices.astype(np.int64), matrix.data.astype(np.int64))


class Pruned:
    """``rows`` of the history can have a part in the queries ``open``, which may be determined;
    ``own[i]`` is the row that is query i and the only one that can answer it."""

    def __init__(
        self, history: Entries, question: Entries, shape: tuple[int, int], queries: int
    ) -> None:
        height, cells = shape
        kept, open_ = np.ones(height, dtype=bool), np.zeros(queries, dtype=bool)
        open_[question.rows] = True
        self.own: dict[int, int] = {}
        for _ in range(_ROUNDS):
            touched = np.bincount(history.cells, minlength=cells)
            closed = np.unique(question.rows[touched[question.cells] == 0])
            open_[closed] = False
            answered = _own_rows(history, question, touched, open_)
            open_[list(answered)] = False
            self.own |= answered
            question = question.take(open_[question.rows])
            lone = touched == 1
            lone[question.cells] = False
            useless = np.unique(history.rows[lone[history.cells]])
            kept[useless] = False
            history = history.take(kept[history.rows])
            if not len(question.rows) or not len(closed) + len(useless) + len(answered):
                break
        touched = np.bincount(history.cells, minlength=cells)
        open_[question.rows[touched[question.cells] == 0]] = False
        self.rows, self.open = np.flatnonzero(kept), np.flatnonzero(open_)


def _own_rows(
    history: Entries, question: Entries, touched: _Ints, open_: npt.NDArray[np.bool_]
) -> dict[int, int]:
    """By open query, the row of the history that is the same, if it alone touches some cell."""
    only = np.zeros(len(touched), dtype=np.int64)
    only[history.cells] = history.rows
    lone = np.flatnonzero((touched[question.cells] == 1) & open_[question.rows])
    asked, first = np.unique(question.rows[lone], return_index=True)
    rows = only[question.cells[lone[first]]]
    if not len(asked):
        return {}
    mine, theirs = _gathered(question, asked), _gathered(history, rows)
    same = np.diff(mine[0]) == np.diff(theirs[0])
    for a, b in zip(mine[1:], theirs[1:], strict=True):
        lengths = np.where(same, np.diff(mine[0]), 0)
        pair = np.repeat(np.arange(len(asked)), lengths)
        place = np.arange(len(pair)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        differs = a[mine[0][pair] + place] != b[theirs[0][pair] + place]
        same[pair[differs]] = False
    return dict(zip(asked[same].tolist(), rows[same].tolist(), strict=True))


def _gathered(entries: Entries, rows: _Ints) -> tuple[_Ints, _Ints, _Ints]:
    """Of some rows where each begins, and their cells, ascending, and coefficients."""
    order = np.lexsort((entries.cells, entries.rows))
    low, high = (np.searchsorted(entries.rows[order], rows, side) for side in ("left", "right"))
    lengths = high - low
    ends = np.cumsum(lengths)
    picked = order[np.arange(ends[-1]) + np.repeat(low - ends + lengths, lengths)]
    return np.append(0, ends), entries.cells[picked], entries.coefficients[picked]
