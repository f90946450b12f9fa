"""The space spanned by integer rows, and coordinates in it, one row at a time.

Kept are independent rows B (r×n, sparse), and the Cholesky factor of the Gram matrix of B's rows
scaled to length 1. The coordinates of a row h are p = (B Bᵀ)⁻¹ B h, refined (corrected
seminormal equations), so that p B is the projection of h; h lies in the space iff p B = h.

Floating point decides that only where it is clear: what the projection leaves, relative to h, is
below 1e-11, or above 1e-3 and orthogonal to B. Everything between is decided modulo primes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tallyveil.inference.modular import in_row_space
from tallyveil.inference.noise import FloatArray
from tallyveil.inference.packed import PackedCholesky

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
        self._factor = PackedCholesky()
        self._lengths = np.zeros(16)
        self._starts = np.zeros(17, dtype=np.int64)
        self._columns = np.zeros(64, dtype=np.int64)
        self._entries = np.zeros(64)
        self._matrix: sparse.csr_matrix | None = None

    @property
    def rank(self) -> int:
        return self._factor.size

    @property
    def rows(self) -> sparse.csr_matrix:
        """B."""
        if self._matrix is None:
            r = self.rank
            end = self._starts[r]
            self._matrix = sparse.csr_matrix(
                (self._entries[:end], self._columns[:end], self._starts[: r + 1]),
                shape=(r, self.cells),
            )
        return self._matrix

    def coordinates(self, row: FloatArray) -> Coordinates:
        """The coordinates of an integer row of length ``cells``."""
        length = math.sqrt(float(row @ row))
        if length == 0:
            return Coordinates(np.zeros(self.rank), 0.0, True)
        values = self._project(row)
        left = row - values @ self.rows
        residual = math.sqrt(float(left @ left)) / length
        for _ in range(_REFINEMENTS):
            if not _INSIDE < residual < 10 * _OUTSIDE:
                break
            values = values + self._project(left)
            left = row - values @ self.rows
            residual = math.sqrt(float(left @ left)) / length
        return Coordinates(values, residual, self._inside(row, left, residual))

    def take_up(self, row: FloatArray, found: Coordinates) -> bool:
        """Add a row with these coordinates, if it is outside, and far enough to compute with."""
        if found.inside or not found.residual > _APART:
            return False
        length = math.sqrt(float(row @ row))
        half = self._factor.half(self._products(row) / length)
        self._factor.append(half, found.residual)
        columns = np.flatnonzero(row)
        start, r = int(self._starts[self.rank - 1]), self.rank
        end = start + len(columns)
        self._lengths = _roomy(self._lengths, r)
        self._starts = _roomy(self._starts, r + 1)
        self._columns, self._entries = _roomy(self._columns, end), _roomy(self._entries, end)
        self._lengths[r - 1], self._starts[r] = length, end
        self._columns[start:end], self._entries[start:end] = columns, row[columns]
        self._matrix = None
        return True

    def _products(self, row: FloatArray) -> FloatArray:
        result: FloatArray = (self.rows @ row) / self._lengths[: self.rank]
        return result

    def _project(self, row: FloatArray) -> FloatArray:
        return self._factor.solve(self._products(row)) / self._lengths[: self.rank]

    def _inside(self, row: FloatArray, left: FloatArray, residual: float) -> bool:
        if residual <= _INSIDE:
            return True
        if residual >= _OUTSIDE:
            along = self._products(left)
            if not len(along) or np.abs(along).max() <= 1e-6 * math.sqrt(float(left @ left)):
                return False
        return in_row_space(self.rows, row)


def _roomy(array: npt.NDArray, size: int) -> npt.NDArray:  # type: ignore[type-arg]
    """The array, or a copy twice as long as needed."""
    if size <= len(array):
        return array
    grown = np.zeros(2 * size, dtype=array.dtype)
    grown[: len(array)] = array
    return grown
