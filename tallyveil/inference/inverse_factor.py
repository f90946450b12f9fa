"""The inverse W = L⁻¹ of a Cholesky factor G = L Lᵀ that grows by a row at a time."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from tallyveil.inference.noise import FloatArray

__all__ = ["InverseFactor"]

_ROWS: Final = 64


class InverseFactor:
    """Rows of W in blocks, each as wide as its last row is long.

    G⁻¹ x = Wᵀ (W x) takes O(size²), and passes over W once: a block that has been multiplied from
    one side is still in the cache for the other. Two solves with L would pass over it twice, and
    memory is what they wait for. No block is ever copied.
    """

    def __init__(self) -> None:
        self.size = 0
        self._blocks: list[FloatArray] = []

    def solve(self, x: FloatArray) -> FloatArray:
        """G⁻¹ x."""
        return self.halves(x)[1]

    def halves(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """W x = L⁻¹ x, and Wᵀ W x = G⁻¹ x."""
        half, result = np.zeros(self.size), np.zeros(self.size)
        for start, rows in zip(range(0, self.size, _ROWS), self._rows(), strict=True):
            height, width = rows.shape
            part = rows @ x[:width]
            half[start : start + height] = part
            result[:width] += part @ rows
        return half, result

    def append(self, solved: FloatArray, pivot: float) -> None:
        """Add a row and column g of G with G⁻¹ g = ``solved`` and Schur complement ``pivot``²:
        W gains the row (−solved, 1) / pivot."""
        if not 0 < pivot < math.inf:
            raise ValueError("a pivot is positive")
        place = self.size % _ROWS
        if place == 0:
            self._blocks.append(np.zeros((_ROWS, self.size + _ROWS)))
        row = self._blocks[-1][place]
        row[: self.size] = solved / -pivot
        row[self.size] = 1 / pivot
        self.size += 1

    def _rows(self) -> list[FloatArray]:
        """The blocks, the last one without what is not yet taken."""
        if not self._blocks:
            return []
        taken = (self.size - 1) % _ROWS + 1
        return [*self._blocks[:-1], self._blocks[-1][:taken, : self.size]]
