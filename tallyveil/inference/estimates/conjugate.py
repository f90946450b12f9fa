"""Many queries of a large block of a history by conjugate gradients, where few steps suffice.

The best A of a query q is A = V⁻¹ H u with (Hᵀ V⁻¹ H) u = q. Where H has groupings of a lattice,
this matrix has one eigenvalue for each of its few levels, and conjugate gradients end after as many
steps (Hestenes & Stiefel 1952, Theorem 5:1). They are tried where anything else takes too long, and
given up as soon as they do not come near in time.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy import sparse

from tallyveil import deadline
from tallyveil.arrays import FloatArray
from tallyveil.inference.estimates.least_norm import EXACT

__all__ = ["by_conjugate_gradients"]

_STEPS: Final = 40
_EARLY: Final = 16  # steps until which each residual has become
_NEAR: Final = 1e-3  # times as large at most
_WORK: Final = 5e7  # operations of a step for all queries
_WEIGHTS: Final = 4_000_000
_TOGETHER: Final = 256  # queries


def by_conjugate_gradients(
    matrix: sparse.csr_matrix, variances: FloatArray, queries: sparse.csr_matrix, number: int
) -> list[FloatArray] | None:
    """The weights for each query; None for all if one has none, or this ``number`` of them takes
    too much work."""
    rows, cells = matrix.shape
    step = (2 * matrix.nnz + 6 * cells) * number
    if not variances.all() or number * rows > _WEIGHTS or step > _WORK:
        return None
    scaled = sparse.diags(1 / np.sqrt(variances)) @ matrix.astype(np.float64)
    across = scaled.T.tocsr()
    found = list[FloatArray]()
    for start in range(0, queries.shape[0], _TOGETHER):
        deadline.check()
        some = queries[start : start + _TOGETHER].toarray().astype(np.float64).T
        solution = _solved(scaled, across, some)
        if solution is None:
            return None
        found += [*((scaled @ solution).T / np.sqrt(variances))]
    return found


def _solved(
    scaled: sparse.csr_matrix, across: sparse.csr_matrix, asked: FloatArray
) -> FloatArray | None:
    """u with ``across`` ``scaled`` u = ``asked``, column by column."""
    found = np.zeros_like(asked)
    left, way = asked.copy(), asked.copy()
    square = (left**2).sum(axis=0)
    most = np.abs(asked).max(axis=0)
    for step in range(_STEPS):
        # Columns that are done stay as they are: what becomes of one depends on no other.
        going = np.abs(left).max(axis=0) > EXACT / 10 * most
        if not going.any():
            left = asked - across @ (scaled @ found)  # free of the steps' rounding
            return found if (np.abs(left).max(axis=0) <= EXACT / 2 * most).all() else None
        image = across @ (scaled @ way)
        length = np.divide(
            square, (way * image).sum(axis=0), out=np.zeros_like(square), where=going
        )
        found += length * way
        left -= length * image
        if step == _EARLY and (np.abs(left).max(axis=0) > _NEAR * most).any():
            return None
        before, square = square, (left**2).sum(axis=0)
        way = left + np.divide(square, before, out=np.zeros_like(square), where=going) * way
    return None
