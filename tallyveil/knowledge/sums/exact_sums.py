"""Sums of a statement's rows that are exact: those that sums of exact rows are, cell by cell.

Where no two rows of either kind have a cell in common, u Q = λ H holds on every cell of a row q and
an exact row h only if u_q = λ_h: so u is constant on what hangs together by common cells, and the
sums are those of such components, where both kinds have the same on each cell, in integers. Columns
that overlap are looked at in several families of disjoint ones, each family with each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from tallyveil import deadline
from tallyveil.arrays import BoolArray, FloatArray, IntArray

__all__ = ["SummedRows", "Sums", "exact_sums"]

_FAMILIES: Final = 30


@dataclass(frozen=True, eq=False)
class SummedRows:
    """``matrix`` (k×n), the number of the column that each row is of, and the exact value of each:
    NaN for an open row, and ∞ for one that is not known."""

    matrix: sparse.csr_matrix
    columns: IntArray
    values: FloatArray

    def take(self, some: IntArray) -> Self:
        return type(self)(self.matrix[some], self.columns[some], self.values[some])

    @property
    def open(self) -> BoolArray:
        return np.isnan(self.values)


@dataclass(frozen=True, eq=False)
class Sums:
    """Exact rows and their values; ``whole``: whether all columns were looked at."""

    matrix: sparse.csr_matrix
    values: FloatArray
    whole: bool = True


def exact_sums(asked: SummedRows, exact: SummedRows) -> Sums:
    """What sums of the open rows asked are exactly. Where rows overlap, the exact rows themselves
    are among the result."""
    own, declared = [*_families(asked)], [*_families(exact)]
    left = len(asked.columns) - sum(map(len, own))
    apart = len(own) == 1 and not left and sum(map(len, declared)) == len(exact.columns)
    found = [] if apart else [Sums(exact.matrix, exact.values)]
    parts = [exact.take(some) for some in declared]
    for some in own:
        # A row that is exact by itself is known as such.
        if apart or np.count_nonzero(asked.open[some]) > 1:
            rows = asked.take(some)
            found += [_sums(rows, part) for part in parts]
    deadline.check()
    matrix = sparse.vstack([one.matrix for one in found], format="csr")
    first = _distinct(matrix)
    values = np.concatenate([one.values for one in found])
    return Sums(matrix[first], values[first], len(own) < _FAMILIES or not left)


def _families(rows: SummedRows) -> Iterator[IntArray]:
    """Rows without common cells, a column together; each column in the first family with room.
    Columns whose own rows overlap are in none."""
    taken: list[tuple[BoolArray, list[IntArray]]] = []
    ends = [*np.flatnonzero(np.diff(rows.columns) != 0) + 1, len(rows.columns)]
    start, starts = 0, rows.matrix.indptr
    for end in ends:
        deadline.check()
        cells = rows.matrix.indices[starts[start] : starts[end]]
        own, start = np.arange(start, end), end
        if len(np.unique(cells)) < len(cells):
            continue
        family = next((one for one in taken if not one[0][cells].any()), None)
        if family is None:
            if len(taken) == _FAMILIES:
                continue
            family = np.zeros(rows.matrix.shape[1], dtype=bool), []
            taken.append(family)
        family[0][cells] = True
        family[1].append(own)
    return (np.concatenate(own) for _, own in taken)


def _sums(asked: SummedRows, exact: SummedRows) -> Sums:
    """Of each component with open rows and exact ones, the sum of its open rows."""
    met = asked.matrix @ exact.matrix.T
    deadline.check()
    graph = sparse.block_array([[None, met], [met.T, None]], format="csr")
    number, label = csgraph.connected_components(graph, directed=False)
    of_asked, of_exact = np.split(label, [len(asked.values)])
    deadline.check()
    off = _added(asked.matrix, of_asked, number) - _added(exact.matrix, of_exact, number)
    deadline.check()
    off.eliminate_zeros()
    holds = (np.diff(off.indptr) == 0) & (np.bincount(of_asked[asked.open], minlength=number) > 0)
    holds[of_asked[np.isinf(asked.values)]] = False
    known = np.where(np.isfinite(asked.values), asked.values, 0.0)
    totals = np.bincount(of_exact, exact.values, number) - np.bincount(of_asked, known, number)
    sums = _added(asked.matrix[asked.open], of_asked[asked.open], number)
    return Sums(sums[holds], totals[holds])


def _added(
    matrix: sparse.csr_matrix, label: npt.NDArray[np.int32], number: int
) -> sparse.csr_matrix:
    """The sum of the rows of each label."""
    places = (label, np.arange(len(label)))
    which = sparse.csr_matrix((np.ones(len(label), np.int64), places), (number, len(label)))
    return (which @ matrix).tocsr()


def _distinct(matrix: sparse.csr_matrix) -> list[int]:
    """The first of each row."""
    matrix.sort_indices()
    kept: dict[bytes, int] = {}
    for row in deadline.stoppable(range(matrix.shape[0])):
        own = slice(matrix.indptr[row], matrix.indptr[row + 1])
        kept.setdefault(matrix.indices[own].tobytes() + matrix.data[own].tobytes(), row)
    return list(kept.values())
