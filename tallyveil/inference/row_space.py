"""The space spanned by integer rows, and coordinates in it, one row at a time.

Kept are independent rows B (r×n), and the inverse W of the Cholesky factor of the Gram matrix of
B's rows scaled to length 1, so that the rows of W B are orthonormal. The coordinates of a row h are
p = (B Bᵀ)⁻¹ B h, refined (corrected seminormal equations), so that p B is the projection of h; h
lies in the space iff p B = h. A row that is taken up adds its coordinates to W, refined once more.

Floating point decides that only where it is clear: what the projection leaves, relative to h, is
below 1e-11, or above 1e-3 and orthogonal to B. Everything between is decided modulo primes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil.inference.inverse_factor import InverseFactor
from tallyveil.inference.modular import in_row_space
from tallyveil.inference.noise import FloatArray
from tallyveil.inference.run_rows import RunRows

__all__ = ["Coordinates", "RowSpace"]

_INSIDE: Final = 1e-11
_OUTSIDE: Final = 1e-3
_COMPUTABLE: Final = 1e-9  # what coordinates may leave of a row that does lie in the space
_REFINEMENTS: Final = 3
_APART: Final = 1e-7  # rows nearer to the space than this are not taken up


@dataclass(frozen=True, eq=False)
class Coordinates:
    """p, and the length of h − pB relative to h; ``inside`` is whether h lies in the space."""

    values: FloatArray
    residual: float
    inside: bool

    @property
    def usable(self) -> bool:
        """Whether h lies in the space and p says so in floating point too."""
        return self.inside and self.residual <= _COMPUTABLE


class RowSpace:
    def __init__(self, cells: int) -> None:
        self.cells = cells
        self._rows = RunRows(cells)
        self._factor = InverseFactor()
        self._lengths: list[float] = []

    @property
    def rank(self) -> int:
        return self._factor.size

    def coordinates(self, row: FloatArray) -> Coordinates:
        """The coordinates of an integer row of length ``cells``."""
        length = math.sqrt(float(row @ row))
        if length == 0:
            return Coordinates(np.zeros(self.rank), 0.0, True)
        values = self._project(row)
        left = row - self._rows.combined(values)
        residual = math.sqrt(float(left @ left)) / length
        for _ in range(_REFINEMENTS):
            if not _INSIDE < residual < 10 * _OUTSIDE:
                break
            values = values + self._project(left)
            left = row - self._rows.combined(values)
            residual = math.sqrt(float(left @ left)) / length
        return Coordinates(values, residual, self._inside(row, left, residual))

    def take_up(self, row: FloatArray, found: Coordinates) -> bool:
        """Add a row with these coordinates, if it is outside, and far enough to compute with."""
        if found.inside or not found.residual > _APART:
            return False
        length = math.sqrt(float(row @ row))
        values = found.values + self._project(row - self._rows.combined(found.values))
        left = row - self._rows.combined(values)
        pivot = math.sqrt(float(left @ left)) / length
        self._factor.append(values * self._lengths / length, pivot)
        self._rows.append(row)
        self._lengths.append(length)
        return True

    def _products(self, row: FloatArray) -> FloatArray:
        return self._rows.times(row) / self._lengths

    def _project(self, row: FloatArray) -> FloatArray:
        return self._factor.solve(self._products(row)) / self._lengths

    def _inside(self, row: FloatArray, left: FloatArray, residual: float) -> bool:
        if residual <= _INSIDE:
            return True
        if residual >= _OUTSIDE:
            along = self._products(left)
            if not len(along) or np.abs(along).max() <= 1e-6 * math.sqrt(float(left @ left)):
                return False
        return in_row_space(self._rows.written_out(), row)
