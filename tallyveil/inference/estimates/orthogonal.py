"""Queries of one block of a history whose rows are orthogonal: the weights are a formula.

Rows r_i with r_i·r_k = 0 are independent, so a query q in their span has one combination, whatever
their variances: A_i = q·r_i/‖r_i‖². Contrasts are bought so (`gate/strategies/groupings`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from scipy import sparse

from tallyveil.alike import scrambled, unsigned
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.inference.estimates.least_norm import EXACT, without_dust

__all__ = ["orthogonal_combinations"]

_LINES: Final = 4


def orthogonal_combinations(
    matrix: sparse.csr_matrix, queries: sparse.csr_matrix
) -> Sequence[tuple[IntArray, FloatArray] | None] | None:
    """For each query the rows that take part and their weights, None if it is not in their span.
    None for all if the rows are not orthogonal.

    Hashes of cells show whether rows are orthogonal, and whether a combination equals its query on
    every cell. They are equal in all processes, so that estimates are too.
    """
    if not _are_orthogonal(matrix):
        return None
    rows = matrix.astype(np.float64)
    squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    asked = queries.astype(np.float64)
    weights = (asked @ rows.T).multiply(1 / squares[None, :]).tocsr()
    numbers = np.arange(rows.shape[1] * _LINES, dtype=np.int64)
    lines = scrambled(numbers).reshape(-1, _LINES) / 2.0**63 - 1
    missed = np.abs(asked @ lines - weights @ (rows @ lines)).max(axis=1)
    fit = (missed <= EXACT * abs(asked).max(axis=1).toarray().ravel()).tolist()
    deviations = 1 / np.sqrt(squares)
    found: list[tuple[IntArray, FloatArray] | None] = []
    for number, fits in enumerate(fit):
        part = slice(*weights.indptr[number : number + 2])
        places = weights.indices[part].astype(np.int64)
        values = without_dust(weights.data[part], deviations[places])
        kept = np.flatnonzero(values)
        found.append((places[kept], values[kept]) if fits else None)
    return found


def _are_orthogonal(matrix: sparse.csr_matrix) -> bool:
    """Whether H Hᵀ m = D m modulo 2⁶⁴, with the diagonal D of H Hᵀ, for hashes m."""
    own = unsigned(matrix)
    marks = scrambled(np.arange(own.shape[0], dtype=np.int64))
    squared = sparse.csr_matrix((own.data**2, own.indices, own.indptr), shape=own.shape)
    squares = squared @ np.ones(own.shape[1], dtype=np.uint64)
    return bool((own @ (own.T @ marks) == squares * marks).all())
