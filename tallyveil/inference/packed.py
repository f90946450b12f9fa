"""A Cholesky factor G = L Lᵀ that grows by a row at a time, in packed storage."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg.blas import dtpsv

from tallyveil.inference.noise import FloatArray

__all__ = ["PackedCholesky"]


class PackedCholesky:
    """Rows of L one after the other, which BLAS reads as the columns of Lᵀ, packed upper.

    Appending and solving cost O(size²), without a copy of the factor.
    """

    def __init__(self) -> None:
        self.size = 0
        self._rows = np.zeros(64)

    def half(self, x: FloatArray) -> FloatArray:
        """L⁻¹ x."""
        if not self.size:
            return x.copy()
        result: FloatArray = dtpsv(self.size, self._rows, x, lower=0, trans=1)
        return result

    def solve(self, x: FloatArray) -> FloatArray:
        """G⁻¹ x."""
        if not self.size:
            return x.copy()
        result: FloatArray = dtpsv(self.size, self._rows, self.half(x), lower=0, trans=0)
        return result

    def append(self, half: FloatArray, pivot: float) -> None:
        """Add the row and column of G with L⁻¹ g = ``half`` and Schur complement ``pivot``²."""
        if not 0 < pivot < math.inf:
            raise ValueError("a pivot is positive")
        start = self.size * (self.size + 1) // 2
        end = start + self.size + 1
        if end > len(self._rows):
            grown = np.zeros(2 * end)
            grown[:start] = self._rows[:start]
            self._rows = grown
        self._rows[start : end - 1] = half
        self._rows[end - 1] = pivot
        self.size += 1
