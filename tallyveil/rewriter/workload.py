"""Workloads: what a statement asks of the cube, as integer matrices over few axes.

A workload is a k×n matrix W (BAYES §2); the truth is Wx. Nothing here is confidential. One
`Column` holds the rows of one aggregate (a row per group); it mentions only the axes its
coefficients depend on, so a predicate on `age` is a row over the cells of `age`, not over n.

A column's coefficients are integers with greatest common divisor 1, in units of the rational
``multiplier``: row i of the query is ``multiplier · C[i]``, so noise on the integer lattice
serves integer and rational queries alike (MATH §3).
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

__all__ = ["Column", "Workload"]

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Column:
    """k rows of integer coefficients over the product of ``axes``, stored sparsely.

    Entry t says that row ``rows[t]`` has coefficient ``coefficients[t]`` (never 0) at cell
    ``cells[t]``, the C-order index into ``shape``. Entries are sorted by (row, cell) and occur
    once. ``axes`` are attribute names in the domain's order, and each of them matters.
    """

    axes: tuple[str, ...]
    shape: tuple[int, ...]
    height: int
    rows: IntArray
    cells: IntArray
    coefficients: IntArray
    multiplier: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if len(self.axes) != len(self.shape):
            raise ValueError("an axis needs a size")
        if not len(self.rows) == len(self.cells) == len(self.coefficients):
            raise ValueError("rows, cells and coefficients go together")
        if self.multiplier <= 0:
            raise ValueError("the multiplier is positive")
        for array in (self.rows, self.cells, self.coefficients):
            if array.dtype != np.int64:
                raise ValueError("coefficients are int64")
            array.setflags(write=False)
        if len(self.rows):
            if self.rows.min() < 0 or self.rows.max() >= self.height:
                raise ValueError("a row lies outside the column")
            if self.cells.min() < 0 or self.cells.max() >= self.size:
                raise ValueError("a cell lies outside the axes")
            if not self.coefficients.all():
                raise ValueError("a zero is not stored")

    @property
    def size(self) -> int:
        """The number of cells of the mentioned axes (1 without axes)."""
        return math.prod(self.shape)

    @cached_property
    def row_keys(self) -> tuple[bytes, ...]:
        """One digest per row, equal exactly for equal integer rows over the same axes."""
        header = repr((self.axes, self.shape)).encode()
        starts = np.searchsorted(self.rows, np.arange(self.height + 1))
        entries = np.stack([self.cells, self.coefficients], axis=1)
        return tuple(
            hashlib.blake2b(
                entries[starts[i] : starts[i + 1]].tobytes(),
                digest_size=16,
                key=b"",
                person=b"row",
                salt=hashlib.blake2b(header, digest_size=16).digest(),
            ).digest()
            for i in range(self.height)
        )

    @cached_property
    def cell_weights(self) -> IntArray:
        """‖C e_j‖₁ of every mentioned cell j: what a record in j moves the rows by, in total."""
        weights = np.zeros(self.size, dtype=np.int64)
        np.add.at(weights, self.cells, np.abs(self.coefficients))
        return weights

    def take(self, rows: IntArray) -> Column:
        """The column with only the given (distinct, ascending) rows, renumbered from 0."""
        number = np.full(self.height, -1, dtype=np.int64)
        number[rows] = np.arange(len(rows))
        keep = number[self.rows] >= 0
        return Column(
            self.axes,
            self.shape,
            len(rows),
            number[self.rows[keep]],
            self.cells[keep],
            self.coefficients[keep],
            self.multiplier,
        )


@dataclass(frozen=True, eq=False)
class Workload:
    """The distinct columns one statement asks of one protected table."""

    table: str
    columns: tuple[Column, ...]

    @cached_property
    def axes(self) -> frozenset[str]:
        return frozenset(axis for column in self.columns for axis in column.axes)

    @cached_property
    def key(self) -> bytes:
        """A digest of everything asked: the receipt's and the true answer's common name."""
        digest = hashlib.blake2b(self.table.encode() + b"\0", digest_size=16)
        for column in self.columns:
            digest.update(str(column.multiplier).encode() + b"\0" + b"".join(column.row_keys))
        return digest.digest()
