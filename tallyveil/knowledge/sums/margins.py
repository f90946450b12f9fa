"""Round disjoint rows to integers with exact sums in two ways, as the cells of a two-way table.

Rows are edges of a graph, between their two sums, the nodes. After the values are moved onto the
sums, each node has no edge with a fractional value, or at least two. So there is a cycle of such
edges. The graph is bipartite: along the cycle values go up and down in turn until one is an
integer, by d₁ with probability d₂/(d₁ + d₂), or else by d₂ in the other direction. That changes no
sum and no expectation. Draws depend on the values alone, so they are reproducible.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from tallyveil import deadline
from tallyveil.arrays import BoolArray, FloatArray, IntArray
from tallyveil.inference.estimates.consistent_values import projected

__all__ = ["rounded_in_margins"]

_SUMS = 2_000
_ROWS = 100_000
_WHOLE = 1e-6  # a value this near to an integer counts as one


def rounded_in_margins(
    matrix: sparse.csr_matrix,
    values: FloatArray,
    variances: FloatArray,
    counts: BoolArray | None = None,
) -> list[int] | None:
    """As `parts.rounded_in_parts`, but every row that is not exact is in two exact sums."""
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
    """The two sums of each row (k×2); None unless the rows are disjoint, each is contained in two
    sums, and the graph of the sums is bipartite."""
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
    """Round the values to integers, one cycle after the other."""
    seed = hashlib.blake2b(np.round(values, 4).tobytes(), digest_size=8).digest()
    draw = np.random.default_rng(int.from_bytes(seed))
    least = np.floor(values + _WHOLE)
    graph = _Fractions(values - least, ends)
    # Each cycle makes at least one value an integer.
    chances = iter(draw.random(len(values)).tolist())
    for edge in range(len(values)):
        while graph.is_open(edge) and graph.walked_around(edge, chances):
            pass
    result: FloatArray = least + np.rint(graph.values)
    return result


class _Fractions:
    """Edges with ``values`` in 0..1, and a walk along the open ones, which are not integers. Once a
    cycle has lost an edge, the walk continues from what remains of its path."""

    def __init__(self, values: FloatArray, ends: IntArray) -> None:
        self.values: list[float] = values.tolist()
        self._both: list[int] = ends.sum(axis=1).tolist()
        self._start: list[int] = ends[:, 0].tolist()
        self._edges: list[dict[int, None]] = [{} for _ in range(int(ends.max(initial=0)) + 1)]
        for edge in filter(self.is_open, range(len(values))):
            node = self._start[edge]
            self._edges[node][edge] = self._edges[self._both[edge] - node][edge] = None

    def is_open(self, edge: int) -> bool:
        return _WHOLE < self.values[edge] < 1 - _WHOLE

    def walked_around(self, edge: int, chances: Iterator[float]) -> bool:
        """Round one cycle after the other, until the first node of this edge has no open edge.
        False if a node has only one open edge, so that there is no cycle."""
        nodes, walk = [self._start[edge]], list[int]()
        place = {nodes[0]: 0}
        while True:
            edges = iter(self._edges[nodes[-1]])
            edge = next(edges, -1)
            if walk and edge == walk[-1]:
                edge = next(edges, -1)
            if edge < 0:
                return not walk
            walk.append(edge)
            node = self._both[edge] - nodes[-1]
            first = place.setdefault(node, len(walk))
            if first == len(walk):
                nodes.append(node)
                continue
            deadline.check()
            left = first + self._round_one(walk[first:], next(chances))
            for node in nodes[left + 1 :]:
                del place[node]
            del nodes[left + 1 :], walk[left:]

    def _round_one(self, cycle: Sequence[int], chance: float) -> int:
        """Move the cycle's values up and down in turn until one is an integer; return the place of
        the first that is."""
        values = [self.values[edge] for edge in cycle]
        first = min(1 - max(values[::2]), min(values[1::2]))
        second = min(1 - max(values[1::2]), min(values[::2]))
        step = first if chance * (first + second) < second else -second
        for edge, value in zip(cycle, values, strict=True):
            self.values[edge] = value + step
            step = -step
        whole = [place for place, edge in enumerate(cycle) if not self.is_open(edge)]
        for edge in map(cycle.__getitem__, whole):
            node = self._start[edge]
            del self._edges[node][edge], self._edges[self._both[edge] - node][edge]
        return whole[0]
