"""Rows of which a statement asks several multiples, none of which divides all the others.

Of 2x and 3x neither is a sum of the other by integers. Both are sums of x, so that they agree if x
is rounded beside them.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
from scipy import sparse

from tallyveil import deadline
from tallyveil.arrays import FloatArray, IntArray

__all__ = ["common_units"]


def common_units(
    matrix: sparse.csr_matrix, rows: int
) -> tuple[sparse.csr_matrix, IntArray, FloatArray]:
    """The greatest common units of the multiples among the first ``rows`` of ``matrix`` where no
    row is the unit itself. With each the number of one of its multiples, and the factor."""
    data, starts = matrix.data, matrix.indptr
    filled = np.flatnonzero(np.diff(starts[: rows + 1]))
    if not len(filled) or not (np.abs(data[: starts[rows]]) > 1).any():
        return matrix[:0], np.zeros(0, dtype=np.int64), np.zeros(0)
    whole = data.astype(np.int64)
    contents = np.gcd.reduceat(np.abs(whole[: starts[rows]]), starts[filled])
    contents *= np.sign(whole[starts[filled]])
    alike: defaultdict[tuple[bytes, bytes], dict[int, int]] = defaultdict(dict)
    for row, content in deadline.stoppable([*zip(filled.tolist(), contents.tolist(), strict=True)]):
        own = slice(starts[row], starts[row + 1])
        key = matrix.indices[own].tobytes(), (whole[own] // content).tobytes()
        alike[key].setdefault(content, row)
    members, factors = list[int](), list[int]()
    for multiples in alike.values():
        unit = math.gcd(*multiples)
        if unit not in map(abs, multiples):
            content, row = next(iter(multiples.items()))
            members.append(row)
            factors.append(content // unit)
    numbers = np.array(members, dtype=np.int64)
    scaled = sparse.diags_array(1 / np.array(factors)) @ matrix[numbers] if members else matrix[:0]
    units = sparse.csr_matrix(scaled)
    units.data = np.rint(units.data).astype(matrix.dtype)
    return units, numbers, np.array(factors, dtype=np.float64)
