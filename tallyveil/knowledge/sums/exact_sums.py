"""Sums of a statement's rows that are exact because they equal sums of exact rows, cell by cell.

If no two rows of either kind have a cell in common, u Q = λ H holds on every cell c of a row q and
an exact row h only if u_q Q_qc = λ_h H_hc. So one u_q determines all rows connected to q through
common cells, and the sums are those of such components, in integers. Columns that overlap are
divided into families of disjoint ones, and each family is compared with each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from tallyveil import deadline
from tallyveil.alike import distinct_rows, run_starts
from tallyveil.arrays import BoolArray, FloatArray, IntArray

__all__ = ["SummedRows", "Sums", "exact_sums"]

_FAMILIES: Final = 30
_LARGEST: Final = 2**62  # the largest coefficient of a multiple of a row
_WHOLE: Final = 2.0**53  # up to here a double holds every integer


@dataclass(frozen=True, eq=False)
class SummedRows:
    """Rows (k×n), the number of each row's column, and its exact value: NaN if the row is open, ∞
    if it is not known."""

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
    """Exact rows and their values. ``whole``: whether no column and no large value was skipped."""

    matrix: sparse.csr_matrix
    values: FloatArray
    whole: bool = True


def exact_sums(asked: SummedRows, exact: SummedRows) -> Sums:
    """The exact sums of the open rows asked. If rows overlap, these include the exact rows."""
    own, declared = [*_families(asked)], [*_families(exact)]
    left = len(asked.columns) - sum(map(len, own))
    apart = len(own) == 1 and not left and sum(map(len, declared)) == len(exact.columns)
    found = [] if apart else [Sums(exact.matrix, exact.values)]
    parts = [exact.take(some) for some in declared]
    for some in own:
        # A single row that is exact is known already.
        if apart or np.count_nonzero(asked.open[some]) > 1:
            rows = asked.take(some)
            found += [_sums(rows, part) for part in parts]
    deadline.check()
    matrix = sparse.vstack([one.matrix for one in found], format="csr")
    matrix.sort_indices()
    first = distinct_rows(matrix)
    values = np.concatenate([one.values for one in found])
    whole = all(one.whole for one in found) and (len(own) < _FAMILIES or not left)
    return Sums(matrix[first], values[first], whole)


def _families(rows: SummedRows) -> Iterator[IntArray]:
    """Families of disjoint rows. Each column goes as a whole to the first family with room for it,
    or to none if its own rows overlap."""
    taken: list[tuple[BoolArray, list[IntArray]]] = []
    ends = [*run_starts(rows.columns)[1:], len(rows.columns)]
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
    """For each component with open and exact rows, the sum of multiples of its open rows."""
    met = abs(asked.matrix.sign()) @ abs(exact.matrix.sign()).T
    deadline.check()
    graph = sparse.block_array([[None, met], [met.T, None]], format="csr")
    number, label = csgraph.connected_components(graph, directed=False)
    of_asked, of_exact = np.split(label, [len(asked.values)])
    deadline.check()
    times_asked, times_exact = _multiples(asked.matrix, exact.matrix, label, number)
    whole = _added(asked.matrix, times_asked, of_asked, number)
    off = whole - _added(exact.matrix, times_exact, of_exact, number)
    deadline.check()
    off.eliminate_zeros()
    some = asked.open & (times_asked != 0)
    holds = (np.diff(off.indptr) == 0) & (np.bincount(of_asked[some], minlength=number) > 0)
    holds[of_asked[np.isinf(asked.values)]] = False
    known = np.where(np.isfinite(asked.values), asked.values, 0.0)
    of_each = times_exact * exact.values, times_asked * known
    totals = np.bincount(of_exact, of_each[0], number) - np.bincount(of_asked, of_each[1], number)
    sizes = np.bincount(label, np.abs(np.concatenate(of_each[::-1])), number)
    precise = sizes <= _WHOLE
    sums = _added(asked.matrix[some], times_asked[some], of_asked[some], number)
    kept = holds & precise
    return Sums(sums[kept], totals[kept], whole=bool(precise[holds].all()))


def _multiples(
    asked: sparse.csr_matrix, exact: sparse.csr_matrix, label: npt.NDArray[np.int32], number: int
) -> tuple[IntArray, IntArray]:
    """u and λ of each component: without a common divisor, and all 0 if there are none or they have
    too many digits."""
    if (asked.data == 1).all() and (exact.data == 1).all():
        return np.ones(asked.shape[0], np.int64), np.ones(exact.shape[0], np.int64)
    rows, every = asked.shape[0], asked.shape[0] + exact.shape[0]
    (first, second), coefficients = zip(*map(_on_cells, (asked, exact)), strict=True)
    common = np.flatnonzero((first >= 0) & (second >= 0))
    pairs = first[common] * exact.shape[0] + second[common]
    cells = common[np.unique(pairs, return_index=True)[1]]  # one for each pair of rows
    # An extra last node is linked to one row of each component.
    starts = np.unique(label, return_index=True)[1]
    ends = np.concatenate([second[cells] + rows, starts])
    nodes = np.concatenate([first[cells], np.full(number, every)])
    links = np.concatenate([cells + 1, np.ones(number, np.int64)])
    graph = sparse.csr_matrix((links, (nodes, ends)), (every + 1, every + 1))
    order, before = csgraph.breadth_first_order(graph, every, directed=False)
    shared = {
        (a, b): c for a, b, c in zip(nodes.tolist(), ends.tolist(), links.tolist(), strict=True)
    }
    times = [Fraction(1)] * every
    for node in deadline.stoppable(order[1:].tolist()):
        above = int(before[node])
        if above == every:
            continue
        cell = shared[min(node, above), max(node, above)] - 1
        ratio = Fraction(int(coefficients[0][cell]), int(coefficients[1][cell]))
        one = times[above] * (1 / ratio if node < rows else ratio)
        times[node] = one if max(abs(one.numerator), one.denominator) <= _LARGEST else Fraction(0)
    heights = rows, exact.shape[0]
    most = [_LARGEST // int(np.abs(one).max()) for one in coefficients]
    limits = [limit for limit, height in zip(most, heights, strict=True) for _ in range(height)]
    found = _integer_multiples(times, label.tolist(), number, limits)
    return found[:rows], found[rows:]


def _on_cells(matrix: sparse.csr_matrix) -> tuple[IntArray, IntArray]:
    """For each cell the one of the disjoint rows that contains it, or −1, and its coefficient."""
    owner, coefficient = np.full((2, matrix.shape[1]), -1, dtype=np.int64)
    owner[matrix.indices] = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    coefficient[matrix.indices] = matrix.data
    return owner, coefficient


def _integer_multiples(
    times: Sequence[Fraction], label: Sequence[int], number: int, limits: Sequence[int]
) -> IntArray:
    """The least multiples of each component's numbers that are integers; 0 beyond a limit."""
    units, divisors = [1] * number, [0] * number
    for one, own in zip(times, label, strict=True):
        if units[own]:
            unit = math.lcm(units[own], one.denominator)
            units[own] = unit if one and unit <= _LARGEST else 0
    for one, own in zip(times, label, strict=True):
        divisors[own] = math.gcd(divisors[own], int(one * units[own]))
    every = [
        int(one * units[own]) // (divisors[own] or 1) for one, own in zip(times, label, strict=True)
    ]
    large = {own for one, own, most in zip(every, label, limits, strict=True) if abs(one) > most}
    pairs = zip(every, label, strict=True)
    return np.array([0 if own in large else one for one, own in pairs], np.int64)


def _added(
    matrix: sparse.csr_matrix, times: IntArray, label: npt.NDArray[np.int32], number: int
) -> sparse.csr_matrix:
    """The sum of multiples of the rows of each label."""
    places = (label, np.arange(len(label)))
    which = sparse.csr_matrix((times, places), (number, len(label)))
    return (which @ matrix).tocsr()
