"""Queries of one block of a history whose rows are orthogonal: the weights are a formula.

Rows r_i with r_i·r_k = 0 are independent, so a query q in their span has one combination, whatever
their variances: A_i = q·r_i/‖r_i‖². Contrasts are bought so (`gate/strategies/groupings`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from scipy import sparse

from tallyveil.alike import unsigned
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.inference.estimates.least_norm import EXACT, without_dust

__all__ = ["orthogonal_combinations"]

_LINES: Final = 4


def orthogonal_combinations(
    matrix: sparse.csr_matrix, queries: sparse.csr_matrix
) -> Sequence[tuple[IntArray, FloatArray] | None] | None:
    """For each query the rows that take part and their weights, None if it is not in their span.
    None for all if the rows are not orthogonal.

    Random marks of 64 bits show whether rows are orthogonal, and random lines of cells whether a
    combination equals its query on every cell. They test public coefficients and are not noise;
    they are equal in all processes, so that estimates are too.
    """
    random = np.random.default_rng(0)
    if not _are_orthogonal(matrix, random):
        return None
    rows = matrix.astype(np.float64)
    squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
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


def _are_orthogonal(matrix: sparse.csr_matrix, random: np.random.Generator) -> bool:
    """Whether H Hᵀ m = D m modulo 2⁶⁴, with the diagonal D of H Hᵀ, for random marks m."""
    own = unsigned(matrix)
    marks = random.integers(0, 2**64, own.shape[0], dtype=np.uint64)
    squared = sparse.csr_matrix((own.data**2, own.indices, own.indptr), shape=own.shape)
    squares = squared @ np.ones(own.shape[1], dtype=np.uint64)
    return bool((own @ (own.T @ marks) == squares * marks).all())
