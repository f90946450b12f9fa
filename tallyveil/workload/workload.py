"""Workloads: what a statement asks of the cube, as integer matrices over few axes.

A workload is a k×n matrix W (BAYES §2); the truth is Wx. Nothing here is confidential. One
`Column` holds the rows of one aggregate (a row per group). It mentions only the axes its
coefficients depend on. Where these are independent of each other, it is the Kronecker product of a
`Factor` for each: predicates on `age` and on `state` are a row over the ages and a row over the
states, and their product is never written out.

A column's coefficients are integers with greatest common divisor 1, in units of the rational
``multiplier``: row i of the query is ``multiplier · C[i]``, so noise on the integer lattice
serves integer and rational queries alike (MATH §3).
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.arrays import IntArray
from tallyveil.cache import cached_property
from tallyveil.workload.factor import Factor, product_entries
from tallyveil.workload.row_keys import RowNames, product_names, row_key

__all__ = ["Column", "Factor", "IntArray", "Summed", "Workload"]

_NAME_BYTES: Final = 60  # a digest and its reference


@dataclass(frozen=True, eq=False)
class Column:
    """The rows of a Kronecker product of factors over disjoint axes, or a selection of them.

    Row (i₁, …, i_m), numbered in mixed radix with the first factor's rows the most significant,
    has coefficient ∏_f F_f[i_f, j_f] at cell (j₁, …, j_m). ``selected`` are the numbers of the
    rows that are asked, ascending, or None for all. Without factors there is one row, all ones.
    """

    factors: tuple[Factor, ...] = ()
    multiplier: Fraction = Fraction(1)
    selected: IntArray | None = None

    def __post_init__(self) -> None:
        if len(set(self.axes)) != len(self.axes):
            raise ValueError("factors have no axis in common")
        if not self.multiplier > 0:
            raise ValueError("the multiplier is positive")
        if self.product_height >= 2**63:
            raise ValueError("the product has more rows than an index can name")
        if self.selected is not None:
            if self.selected.dtype != np.int64:
                raise ValueError("row numbers are int64")
            self.selected.setflags(write=False)
            ends = self.selected[[0, -1]] if len(self.selected) else np.zeros(2, dtype=np.int64)
            ascending = (np.diff(self.selected) > 0).all()
            inside = ends[0] >= 0 and ends[1] < max(1, self.product_height)
            if not (ascending and inside):
                raise ValueError("selected rows are distinct, ascending and rows of the product")

    @classmethod
    def joint(
        cls, axes: tuple[str, ...], shape: tuple[int, ...], height: int, rows: IntArray,
        cells: IntArray, coefficients: IntArray, multiplier: Fraction = Fraction(1),
    ) -> Column:  # fmt: skip
        """The column of one factor."""
        return cls((Factor(axes, shape, height, rows, cells, coefficients),), multiplier)

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """The mentioned axes, factor by factor."""
        return tuple(axis for factor in self.factors for axis in factor.axes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(size for factor in self.factors for size in factor.shape)

    @cached_property
    def size(self) -> int:
        """The number of cells of the mentioned axes (1 without axes)."""
        return math.prod(self.shape)

    @cached_property
    def product_height(self) -> int:
        """The number of rows of the product, selected or not."""
        return math.prod(factor.height for factor in self.factors)

    @cached_property
    def height(self) -> int:
        return self.product_height if self.selected is None else len(self.selected)

    @property
    def disjoint(self) -> bool:
        """Whether no cell is in two rows, for certain."""
        return all(factor.disjoint for factor in self.factors)

    @cached_property
    def counts_up(self) -> bool:
        """Whether no record can make a row's true value less than 0."""
        return all(bool((factor.coefficients >= 0).all()) for factor in self.factors)

    @property
    def numbers(self) -> IntArray:
        """The number of each row in the product."""
        if self.selected is not None:
            return self.selected
        return np.arange(self.product_height, dtype=np.int64)

    @property
    def largest(self) -> int:
        """At least max |coefficient|."""
        return math.prod(factor.largest for factor in self.factors)

    @property
    def nbytes(self) -> int:
        """About its size in memory, with the names of its rows."""
        arrays = [a for f in self.factors for a in (f.rows, f.cells, f.coefficients)]
        if self.selected is not None:
            arrays.append(self.selected)
        return sum(array.nbytes for array in arrays) + _NAME_BYTES * self.height

    def factor_rows(self, numbers: IntArray) -> tuple[IntArray, ...]:
        """i_f of the given rows of the product, for each factor f."""
        rows: list[IntArray] = []
        for factor in reversed(self.factors):
            numbers, own = np.divmod(numbers, max(1, factor.height))
            rows.append(own)
        return tuple(reversed(rows))

    @cached_property
    def row_names(self) -> RowNames:
        """A digest and a content for each row. Both are equal only for equal integer rows, however
        they are factored."""
        if len(self.factors) == 1 and self.selected is None:
            own = self.factors[0].listed()
            return RowNames(tuple(row_key((part,)) for part in own.parts), own.contents)
        if not self.factors:
            return RowNames((row_key(()),) * self.height)
        if self.product_height == 1 and self.selected is None:
            rows = [[0]] * len(self.factors)
        else:
            rows = [of.tolist() for of in self.factor_rows(self.numbers)]
        return product_names([factor.listed() for factor in self.factors], rows)

    @property
    def row_keys(self) -> tuple[bytes, ...]:
        """One digest per row, equal for rows that are multiples of each other."""
        return self.row_names.keys

    @property
    def row_contents(self) -> tuple[int, ...] | None:
        """Each row's multiple of the primitive row of its key; None if all are 1."""
        return self.row_names.contents

    @property
    def named_rows(self) -> Iterator[tuple[bytes, int]]:
        """The key of each row and its content: both are equal for equal rows only."""
        keys, contents = self.row_names
        return zip(keys, contents or itertools.repeat(1, len(keys)), strict=True)

    @cached_property
    def repeats(self) -> bool:
        """Whether several rows are multiples of one another."""
        keys, contents = self.row_names
        return contents is not None and len(frozenset(keys)) < len(keys)

    @cached_property
    def entries(self) -> int:
        """The number of coefficients that are not zero."""
        if self.selected is None:
            return math.prod(len(factor.rows) for factor in self.factors)
        total = np.ones(self.height, dtype=np.float64)
        for factor, rows in zip(self.factors, self.factor_rows(self.numbers), strict=True):
            total *= factor.entries[rows]
        return int(total.sum())

    @cached_property
    def zeros(self) -> IntArray:
        """The numbers of the rows without a coefficient, whose value is always 0."""
        if all(len(factor.starts) == factor.height for factor in self.factors):
            return np.zeros(0, dtype=np.int64)
        found = np.zeros(self.height, dtype=np.bool_)
        for factor, rows in zip(self.factors, self.factor_rows(self.numbers), strict=True):
            found |= factor.entries[rows] == 0
        return np.flatnonzero(found).astype(np.int64)

    def take(self, rows: IntArray) -> Column:
        """The column with only the given (distinct, ascending) rows, renumbered from 0.

        Each factor keeps the rows that are still used. The result is a full product if all
        combinations of them are taken. Keys that were already computed are reused.
        """
        if len(rows) == self.height:
            return self
        own = self.factor_rows(self.numbers[rows])
        used = [np.unique(i) for i in own]
        factors = tuple(f.take(u) for f, u in zip(self.factors, used, strict=True))
        number = np.zeros(len(rows), dtype=np.int64)
        for factor, kept, i in zip(factors, used, own, strict=True):
            number = number * factor.height + np.searchsorted(kept, i)
        whole = math.prod(factor.height for factor in factors) == len(rows)
        taken = Column(factors, self.multiplier, None if whole else number)
        if "row_names" in vars(self):
            vars(taken)["row_names"] = self.row_names.take(rows.tolist())
        return taken

    def in_units(self, unit: Fraction) -> Column:
        """The same column with the multiplier ``unit``. Raises ValueError unless its own multiplier
        is a whole multiple of it, or all coefficients are 0."""
        times = self.multiplier / unit
        if times == 1:
            return self
        factors = self.factors
        if times.denominator == 1:
            first = replace(self._first, coefficients=self._first.coefficients * int(times))
            factors = (first, *self.factors[1:])
        elif self.entries:
            raise ValueError("not a multiple of such a unit")
        return Column(factors, unit, self.selected)

    @property
    def _first(self) -> Factor:
        """The first factor; without factors the equivalent row of ones."""
        if self.factors:
            return self.factors[0]
        one = np.zeros(1, dtype=np.int64)
        return Factor((), (), 1, one, one.copy(), np.ones(1, dtype=np.int64))

    def multiplied_out(self, limit: int) -> Factor | None:
        """The column as one factor, or None if that has more than ``limit`` cells or entries, or
        coefficients beyond 64 bits.
        """
        if self.selected is None and len(self.factors) == 1:
            return self.factors[0]
        if self.size > limit or self.entries > limit or self.largest >= 2**63:
            return None
        own = self.factor_rows(self.numbers)
        entries = product_entries(self.factors, own, self.height)
        return Factor(self.axes, self.shape, self.height, *entries)


@dataclass(frozen=True, eq=False)
class Workload:
    """The distinct columns one statement asks of one protected table. Those numbered in ``hidden``
    are asked for sums of their rows alone (`Summed`)."""

    table: str
    columns: tuple[Column, ...]
    hidden: frozenset[int] = frozenset()

    @cached_property
    def axes(self) -> frozenset[str]:
        return frozenset(axis for column in self.columns for axis in column.axes)

    @cached_property
    def key(self) -> bytes:
        """A digest of everything asked: the receipt's and the true answer's common name."""
        digest = hashlib.blake2b(self.table.encode() + b"\0", digest_size=16)
        for column in self.columns:
            digest.update(f"{column.multiplier} {column.height}\0".encode())
            keys, contents = column.row_names
            digest.update(b"".join(keys))
            if contents is not None:  # in brackets, with which no header begins
                digest.update(repr(contents).encode())
        return digest.digest()

    @cached_property
    def records_key(self) -> bytes:
        """As `key`, for the records instead of their counts; neither opens with the other's key.

        It digests factors, since a product of many may have too many rows to list.
        """
        digest = hashlib.blake2b(self.table.encode() + b"\0", digest_size=16, person=b"records")
        for column in self.columns:
            whole = column.selected is None
            digest.update(f"{column.multiplier} {len(column.factors)} {whole}\0".encode())
            chosen = [] if column.selected is None else [column.selected]
            for factor in column.factors:
                digest.update(repr((factor.axes, factor.shape, factor.height)).encode() + b"\0")
                chosen += [factor.rows, factor.cells, factor.coefficients]
            for array in chosen:
                digest.update(f"{len(array)}\0".encode() + array.astype("<i8").tobytes())
        return digest.digest()


@dataclass(frozen=True, eq=False)
class Summed:
    """Rows that are not asked of the table, since they are sums of rows that are. Row i of
    ``column`` is the sum of those rows ``parts[k]`` of the workload's column ``of`` with
    ``places[k]`` = i.
    Both columns have the same multiplier.
    """

    column: Column
    of: int
    parts: IntArray
    places: IntArray
