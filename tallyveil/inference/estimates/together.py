"""Several queries of one block of a history, solved by one dense system."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import sparse

from tallyveil.arrays import FloatArray
from tallyveil.inference.estimates.least_norm import (
    LARGEST,
    Nearest,
    best_weights,
    by_products,
    least_norm_work,
    least_weighed,
)

__all__ = ["WORK", "Together", "is_small"]

WORK: Final = 2e8  # floating point operations for all rows of a question, roughly
_PRODUCTS: Final = 1.5e8  # the most multiplications for products of rows
_SMALL: Final = 1_000_000  # entries up to which to merge equal cells takes longer than it saves


def is_small(rows: int, cells: int, queries: int) -> bool:
    """Whether a block is solved over all its cells."""
    work = least_norm_work(rows, cells)
    each = 0.5 if work > LARGEST else 2
    return (
        rows * cells <= _SMALL
        and work <= _PRODUCTS
        and each * work + 4 * queries * rows * cells <= WORK
    )


@dataclass(frozen=True, eq=False)
class Together:
    """Several queries of one small block, solved at once over all its cells."""

    matrix: FloatArray
    queries: FloatArray

    @classmethod
    def of(
        cls, matrix: sparse.csr_matrix, queries: sparse.csr_matrix, number: int
    ) -> Together | None:
        """The problem of a small block; None if that takes too much work even by products of rows,
        for this ``number`` of queries."""
        rows, cells = matrix.shape
        if not is_small(rows, cells, number):
            return None
        return cls(_dense(matrix), _dense(queries))

    @property
    def work(self) -> float:
        m, n = self.matrix.shape
        each = 0.5 if self._only_by_products else 2
        return float(each * least_norm_work(m, n) + 4 * len(self.queries) * m * n)

    @property
    def _only_by_products(self) -> bool:
        return least_norm_work(*self.matrix.shape) > LARGEST

    def solve(self, variances: FloatArray) -> Nearest | None:
        """The nearest combinations, or None where products of rows give no clear result and
        anything else takes too much work."""
        solve = by_products if self._only_by_products else least_weighed
        weights = best_weights(solve, self.matrix, variances, self.queries)
        if weights is None:
            return None
        most = np.maximum(self.matrix.max(axis=1), -self.matrix.min(axis=1))
        off = self.queries - weights @ self.matrix
        return Nearest.of(weights, self.queries, off, most, self.matrix.shape)


def _dense(matrix: sparse.csr_matrix) -> FloatArray:
    """The dense matrix, made without a sparse one of floats."""
    found = np.zeros(matrix.shape)
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    found[rows, matrix.indices] = matrix.data
    return found
