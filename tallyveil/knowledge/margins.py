"""Disjoint rows rounded to integers with exact sums in two ways, as the cells of a two-way table.

Rows are the edges of a graph whose nodes are the sums, of which each row has two. After they are
moved onto the sums, each node has no edge of a fractional value or two and more. So there is a
cycle of such; the graph is bipartite, and along the cycle values go up and down in turn until one
is whole, by d₁ with probability d₂/(d₁ + d₂) or by d₂ the other way round, which changes no sum
and no expectation. What is drawn depends on the values alone, so that it is drawn again alike.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from tallyveil import deadline
from tallyveil.inference.noise import FloatArray
from tallyveil.inference.projection import projected
from tallyveil.workload.workload import IntArray

__all__ = ["rounded_in_margins"]

_SUMS = 2_000
_ROWS = 20_000
_WHOLE = 1e-6  # so near to an integer a value is one


def rounded_in_margins(
    matrix: sparse.csr_matrix,
    values: FloatArray,
    variances: FloatArray,
    counts: npt.NDArray[np.bool_] | None = None,
) -> list[int] | None:
    """As `parts.rounded_in_parts`, where every row that is not exact is in two exact sums."""
    exact = variances == 0
    rows, sums = np.flatnonzero(~exact), np.flatnonzero(exact)
    if not 2 <= len(sums) <= _SUMS or len(rows) > _ROWS or (matrix.data != 1).any():
        return None
    own, totals = matrix[rows], values[sums]
    ends = _ends(own, matrix[sums])
    if ends is None:
        return None
    number = len(rows)
    both = np.concatenate([np.arange(number), np.arange(number)])
    incidence = sparse.csr_matrix(
        (np.ones(2 * number), (ends.T.ravel(), both)), (len(sums), number)
    )
    at_least = None if counts is None else counts[rows]
    moved = projected(incidence, totals, values[rows], variances[rows], at_least)
    if moved is None:
        return None
    found = _rounded(moved, ends)
    if (np.rint(incidence @ found) != totals).any():
        return None
    result = values.copy()
    result[rows] = found
    return [round(value) for value in result.tolist()]


def _ends(rows: sparse.csr_matrix, sums: sparse.csr_matrix) -> IntArray | None:
    """The two sums of each row (k×2); None if the rows are not disjoint, or not each is wholly in
    two sums, or the sums do not fall into two kinds."""
    if len(np.unique(rows.indices)) != rows.nnz:
        return None
    met = (rows @ sums.T).tocoo()
    order = np.lexsort((met.col, met.row))
    of, sizes = met.row[order], np.diff(rows.indptr)
    if len(of) != 2 * rows.shape[0] or (of != np.repeat(np.arange(rows.shape[0]), 2)).any():
        return None
    if (met.data[order] != sizes[of]).any() or sums.nnz != 2 * rows.nnz:
        return None
    ends: IntArray = met.col[order].reshape(-1, 2).astype(np.int64)
    number = sums.shape[0]
    graph = sparse.csr_matrix((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), (number, number))
    _, label = csgraph.connected_components(graph, directed=False)
    depth = np.zeros(number, dtype=np.int64)
    for part in range(int(label.max()) + 1):
        start = int(np.flatnonzero(label == part)[0])
        order, before = csgraph.breadth_first_order(graph, start, directed=False)
        for node in order[1:].tolist():
            depth[node] = depth[before[node]] + 1
    same_kind = (depth[ends[:, 0]] - depth[ends[:, 1]]) % 2 == 0
    return None if same_kind.any() else ends


def _rounded(values: FloatArray, ends: IntArray) -> FloatArray:
    """Integers near the values, by one cycle after the other."""
    result = values.copy()
    whole = np.abs(result - np.rint(result)) <= _WHOLE
    result[whole] = np.rint(result[whole])
    seed = hashlib.blake2b(np.round(values, 4).tobytes(), digest_size=8).digest()
    draw = np.random.default_rng(int.from_bytes(seed))
    edges: dict[int, dict[int, None]] = {}
    for edge in np.flatnonzero(~whole).tolist():
        for node in ends[edge].tolist():
            edges.setdefault(node, {})[edge] = None
    open_ = dict.fromkeys(np.flatnonzero(~whole).tolist())
    while open_:
        deadline.check()
        cycle = _cycle(int(ends[next(iter(open_)), 0]), edges, ends)
        if cycle is None:
            break
        up, down = np.array(cycle[::2]), np.array(cycle[1::2])
        first = _room(result, up, down)
        second = _room(result, down, up)
        step = first if draw.random() * (first + second) < second else -second
        result[up] += step
        result[down] -= step
        for edge in cycle:
            if abs(result[edge] - round(result[edge])) <= _WHOLE:
                result[edge] = round(result[edge])
                del open_[edge]
                for node in ends[edge].tolist():
                    del edges[node][edge]
    return np.rint(result)


def _room(values: FloatArray, up: IntArray, down: IntArray) -> float:
    """How far the ones may go up and the others down until one is whole."""
    over, under = np.ceil(values[up]) - values[up], values[down] - np.floor(values[down])
    return float(min(over.min(), under.min()))


def _cycle(start: int, edges: dict[int, dict[int, None]], ends: IntArray) -> list[int] | None:
    """The edges of a cycle, one after the other; None if there is a node with one edge only."""
    walked: list[int] = []
    place = {start: 0}
    node = start
    while True:
        before = walked[-1] if walked else -1
        edge = next((one for one in edges[node] if one != before), None)
        if edge is None:
            return None
        walked.append(edge)
        a, b = ends[edge].tolist()
        node = b if node == a else a
        if node in place:
            return walked[place[node] :]
        place[node] = len(walked)
