"""Queries of one block of a history whose rows are orthogonal: the weights are a formula.

Rows r_i with r_i·r_k = 0 are independent, so a query q in their span has one combination, whatever
their variances: A_i = q·r_i/‖r_i‖². Contrasts are bought so (`gate/strategies/groupings`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from scipy import sparse

from tallyveil.arrays import FloatArray, IntArray
from tallyveil.inference.estimates.least_norm import EXACT, without_dust

__all__ = ["orthogonal_combinations"]

_LINES: Final = 4


def orthogonal_combinations(
    matrix: sparse.csr_matrix, queries: sparse.csr_matrix
) -> Sequence[tuple[IntArray, FloatArray] | None] | None:
    """For each query the rows that take part and their weights, None if it is not in their span.
    None for all if the rows are not orthogonal.

    Random lines of cells show whether rows are orthogonal, and whether a combination equals its
    query on every cell. They test public coefficients and are not noise; they are equal in all
    processes, so that estimates are too.
    """
    rows, random = matrix.astype(np.float64), np.random.default_rng(0)
    marks = random.integers(-8, 8, rows.shape[0]).astype(np.float64)
    squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    off = np.abs(rows @ (rows.T @ marks) - squares * marks)
    if (off > EXACT * squares * len(marks)).any():
        return None
    asked = queries.astype(np.float64)
    weights = (asked @ rows.T).multiply(1 / squares[None, :]).tocsr()
    lines = random.normal(size=(rows.shape[1], _LINES))
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
