"""Queries of one block of a history whose rows are orthogonal: the weights are a formula.

Rows r_i with r_i·r_k = 0 are independent, so a query q in their span has one combination, whatever
their variances: A_i = q·r_i/‖r_i‖². Contrasts are bought so (`gate/strategies/groupings`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from tallyveil.arrays import FloatArray, IntArray
from tallyveil.inference.estimates.least_norm import EXACT, without_dust

__all__ = ["orthogonal_combinations"]


def orthogonal_combinations(
    matrix: sparse.csr_matrix, queries: sparse.csr_matrix
) -> Sequence[tuple[IntArray, FloatArray] | None] | None:
    """For each query the rows that take part and their weights, None if it is not in their span.
    None for all if the rows are not orthogonal.

    Random numbers show that some are not; they test public coefficients, and are not noise. That a
    combination equals its query is checked on every cell.
    """
    rows = matrix.astype(np.float64)
    marks = np.random.default_rng(0).integers(-8, 8, rows.shape[0]).astype(np.float64)
    squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    off = np.abs(rows @ (rows.T @ marks) - squares * marks)
    if (off > EXACT * squares * len(marks)).any():
        return None
    asked = queries.astype(np.float64)
    weights = (asked @ rows.T).multiply(1 / squares[None, :]).tocsr()
    difference = abs(asked - weights @ rows).max(axis=1).toarray().ravel()
    largest = np.maximum(1.0, abs(asked).max(axis=1).toarray().ravel())
    found: list[tuple[IntArray, FloatArray] | None] = []
    for number, fits in enumerate((difference <= EXACT * largest).tolist()):
        part = slice(*weights.indptr[number : number + 2])
        values = without_dust(weights.data[part], 1 / np.sqrt(squares[weights.indices[part]]))
        kept = np.flatnonzero(values)
        places = weights.indices[part][kept].astype(np.int64)
        found.append((places, values[kept]) if fits else None)
    return found
