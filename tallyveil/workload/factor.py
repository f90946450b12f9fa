"""A factor: rows of integer coefficients over the cells of a few axes, stored sparsely."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tallyveil import deadline
from tallyveil.alike import ranks, run_starts, stretches
from tallyveil.arrays import IntArray
from tallyveil.cache import cached_property
from tallyveil.workload.factorisation import row_parts
from tallyveil.workload.row_keys import Listed, listed

__all__ = ["Factor", "product_entries"]


@dataclass(frozen=True, eq=False)
class Factor:
    """Rows of integer coefficients over the product of ``axes``, stored sparsely.

    Entry t says that row ``rows[t]`` has coefficient ``coefficients[t]`` (never 0) at cell
    ``cells[t]``, the C-order index into ``shape``. Entries are sorted by (row, cell) and occur
    once. ``axes`` are attribute names in the domain's order.
    """

    axes: tuple[str, ...]
    shape: tuple[int, ...]
    height: int
    rows: IntArray
    cells: IntArray
    coefficients: IntArray

    def __post_init__(self) -> None:
        if len(self.axes) != len(self.shape):
            raise ValueError("an axis needs a size")
        if not len(self.rows) == len(self.cells) == len(self.coefficients):
            raise ValueError("rows, cells and coefficients go together")
        for array in (self.rows, self.cells, self.coefficients):
            if array.dtype != np.int64:
                raise ValueError("coefficients are int64")
            array.setflags(write=False)
        if self.size >= 2**63:
            raise ValueError("the factor has more cells than an index can name")
        if len(self.rows):
            if self.rows.min() < 0 or self.rows.max() >= self.height:
                raise ValueError("a row lies outside the column")
            if self.cells.min() < 0 or self.cells.max() >= self.size:
                raise ValueError("a cell lies outside the axes")
            if not self.coefficients.all():
                raise ValueError("a zero is not stored")

    @classmethod
    def of_sparse(
        cls, axes: tuple[str, ...], shape: tuple[int, ...], matrix: sparse.csr_matrix
    ) -> Factor:
        """The rows of an integer matrix."""
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        height = matrix.shape[0]
        rows = np.repeat(np.arange(height, dtype=np.int64), np.diff(matrix.indptr))
        return cls(axes, shape, height, rows, matrix.indices.astype(np.int64), matrix.data)

    @classmethod
    def of_entries(
        cls, axes: tuple[str, ...], shape: tuple[int, ...], height: int, rows: IntArray,
        cells: IntArray, coefficients: IntArray,
    ) -> Factor:  # fmt: skip
        """From entries in any order; those of one place add up."""
        size = height, math.prod(shape)
        return cls.of_sparse(axes, shape, sparse.csr_matrix((coefficients, (rows, cells)), size))

    @classmethod
    def identity(cls, axes: tuple[str, ...], shape: tuple[int, ...]) -> Factor:
        """A row for every cell."""
        cells = np.arange(math.prod(shape), dtype=np.int64)
        return cls(axes, shape, len(cells), cells, cells, np.ones_like(cells))

    @classmethod
    def everything(cls, axes: tuple[str, ...], shape: tuple[int, ...]) -> Factor:
        """One row, with every cell."""
        cells = np.arange(math.prod(shape), dtype=np.int64)
        return cls(axes, shape, 1, np.zeros_like(cells), cells, np.ones_like(cells))

    def sparse(self) -> sparse.csr_matrix:
        """The factor as a sparse matrix."""
        entries = self.coefficients, (self.rows, self.cells)
        return sparse.csr_matrix(entries, shape=(self.height, self.size))

    def dense(self) -> IntArray:
        """The factor as a dense matrix."""
        matrix = np.zeros((self.height, self.size), dtype=np.int64)
        matrix[self.rows, self.cells] = self.coefficients
        return matrix

    @property
    def size(self) -> int:
        """The number of cells of the axes (1 without axes)."""
        return math.prod(self.shape)

    @cached_property
    def named(self) -> Listed:
        """As `listed`, and cached: for a factor that many columns share."""
        return self.listed()

    def listed(self) -> Listed:
        """The parts from which its rows' keys are made."""
        if "named" in vars(self):
            return self.named
        return listed(
            row_parts(self.axes, self.shape, self.height, self.rows, self.cells, self.coefficients)
        )

    @cached_property
    def entries(self) -> IntArray:
        """The number of entries of each row."""
        return np.bincount(self.rows, minlength=self.height).astype(np.int64)

    @cached_property
    def disjoint(self) -> bool:
        """Whether no cell is in two rows."""
        return int(np.bincount(self.cells, minlength=1).max()) <= 1

    @cached_property
    def largest_by_row(self) -> npt.NDArray[np.uint64]:
        """max_j |F_ij| of every row i with a coefficient; unsigned, so that -2^63 has one."""
        magnitudes = np.abs(self.coefficients).view(np.uint64)
        found: npt.NDArray[np.uint64] = magnitudes[:0]
        return np.maximum.reduceat(magnitudes, self.starts) if len(self.starts) else found

    @cached_property
    def starts(self) -> IntArray:
        """The first entry of every row that has one."""
        return run_starts(self.rows)

    @cached_property
    def magnitudes(self) -> tuple[float, float]:
        """Σ_i max_j |F_ij|^p for p = 1 and 2, as doubles."""
        largest = self.largest_by_row.astype(np.float64)
        return float(largest.sum()), float((largest**2).sum())

    @cached_property
    def largest(self) -> int:
        """max |coefficient|, 0 without any."""
        c = self.coefficients
        return max(-int(c.min()), int(c.max())) if len(c) else 0

    def take(self, rows: IntArray) -> Factor:
        """The factor with only the given (distinct, ascending) rows, renumbered from 0."""
        number = ranks(rows, self.height)
        keep = number[self.rows] >= 0
        return Factor(
            self.axes,
            self.shape,
            len(rows),
            number[self.rows[keep]],
            self.cells[keep],
            self.coefficients[keep],
        )


def product_entries(
    factors: Sequence[Factor], chosen: Sequence[IntArray], height: int
) -> tuple[IntArray, IntArray, IntArray]:
    """The rows, the cells and the coefficients of the Kronecker products of the factors' ``chosen``
    rows, one of each factor for each of ``height`` rows."""
    rows = np.arange(height, dtype=np.int64)
    cells, coefficients = np.zeros_like(rows), np.ones_like(rows)
    for factor, own in zip(factors, chosen, strict=True):
        deadline.check()
        ends = np.searchsorted(factor.rows, np.arange(factor.height + 1))
        of, entry = stretches(ends, own[rows])
        rows = rows[of]
        deadline.check()
        cells = cells[of] * factor.size + factor.cells[entry]
        deadline.check()
        coefficients = coefficients[of] * factor.coefficients[entry]
    return rows, cells, coefficients
