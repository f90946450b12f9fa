"""Find the distinct cells of some columns' rows without expanding them, and the rows there.

A column with coefficients other than 0 and 1 in at most one factor differs at two cells wherever
one of its factors does, unless it is 0 at both. So each factor gets a sum of marks for each of its
cells, and a column the product of these. The sums of all columns of one kind are a product of
matrices, which is faster than expanding entries at all cells. Rows are looked up only at the cells
that are distinct, usually few.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from tallyveil import deadline
from tallyveil.arrays import BoolArray, IntArray
from tallyveil.knowledge.recorded.layout import Axes, ExpandedColumns, ExpandedFactors, Layout
from tallyveil.knowledge.recorded.prepared import SEED, PreparedColumn, Signs, marks

__all__ = ["Products", "mixed"]

Number = TypeVar("Number", np.int64, np.uint64)

_SUMMED: Final = 8  # products that take about the time of expanding one entry
_LOOKED_UP: Final = 6  # coefficients that can be looked up in this time
_LITTLE: Final = 1 << 14  # entries that take next to no time


class Products:
    """Columns as products of their factors. Their rows are numbered column by column."""

    def __init__(self, expanded: ExpandedColumns, which: Sequence[int]) -> None:
        self._layout = expanded.layout
        self._entries = max(_LITTLE, sum(expanded.entries[n] for n in which))
        self._height = 0
        self._whole = all(expanded.columns[n].column.selected is None for n in which)
        kinds: dict[tuple[Axes, ...], list[tuple[PreparedColumn, int]]] = {}
        for n in which:
            one = expanded.columns[n]
            kinds.setdefault(one.kind, []).append((one, self._height))
            self._height += one.column.height
        used = {axes for kind in kinds for axes in kind}
        tables = {axes: _Table(self._layout, expanded.factors[axes]) for axes in used}
        self._tables = [*tables.values()]
        self._kinds = [
            _Kind(kind, [tables[axes] for axes in kind], some) for kind, some in kinds.items()
        ]

    def distinct_cells(self) -> IntArray | None:
        """The first of each set of cells equal in all rows; None if products cannot distinguish
        them, or are slower than expanding all entries."""
        sizes = self._layout.sizes
        work = sum(table.size for table in self._tables) + sum(own.work for own in self._kinds)
        if not self._whole or work > _SUMMED * self._entries:
            return None
        if not all(own.differs_with_factors for own in self._kinds):
            return None
        heights = [table.height for table in self._tables]
        random = np.random.default_rng([SEED, 3])
        every = marks(random, 1 + sum(heights) + sum(own.number for own in self._kinds))
        ends = np.cumsum([1, *heights, *(own.number for own in self._kinds)]).tolist()
        signs = [every[a:b] for a, b in itertools.pairwise(ends)]
        for table, own_marks in zip(self._tables, signs, strict=False):
            table.mark(every[0], own_marks)
        sums = np.zeros([*reversed(sizes.values())], dtype=np.uint64)  # the first axis fastest
        for own, own_marks in zip(self._kinds, signs[len(heights) :], strict=True):
            deadline.check()
            names = [axis for axes in own.axes for axis in axes]
            order = [names.index(axis) for axis in reversed(sizes) if axis in names]
            shape = [size if axis in names else 1 for axis, size in reversed(sizes.items())]
            sums += own.sums(own_marks).transpose(order).reshape(shape)
        return np.sort(np.unique(sums.ravel(), return_index=True)[1])

    def at(self, cells: IntArray) -> IntArray | None:
        """The coefficients of all rows at `distinct_cells`; None if expanding the entries
        is faster."""
        if self._height * len(cells) > _LOOKED_UP * self._entries:
            return None
        found = np.empty((self._height, len(cells)), dtype=np.int64)
        for own in self._kinds:
            deadline.check()
            own.put(self._layout, cells, found)
        return found


class _Table:
    """Factors over the same axes, expanded (rows × cells along these axes)."""

    def __init__(self, layout: Layout, expanded: ExpandedFactors) -> None:
        self.expanded = expanded
        self.shape = tuple(layout.sizes[axis] for axis in expanded.axes)
        self.cells = math.prod(self.shape)
        self.height = int(expanded.starts[-1])
        self.signs = np.zeros((0, self.cells), dtype=np.uint64)  # before they are marked

    @property
    def size(self) -> int:
        return self.height * self.cells

    @cached_property
    def rows(self) -> IntArray:
        """The rows of all factors, one factor after the other."""
        own, places = self.expanded.rows, np.zeros(len(self.expanded.rows), dtype=np.int64)
        for size, ranks in zip(self.shape, self.expanded.ranks, strict=True):
            places = places * size + ranks
        found = np.zeros((self.height, self.cells), dtype=np.int64)
        found[own, places] = self.expanded.coefficients
        return found

    @cached_property
    def others(self) -> BoolArray | None:
        """Which factors have coefficients other than 0 and 1; None if none has."""
        other = self.expanded.coefficients != 1
        if not other.any():
            return None
        rows = np.bincount(self.expanded.rows[other], minlength=self.height)
        return self._summed(rows) > 0

    def mark(self, factor: np.uint64, marks: Signs) -> None:
        """Number each factor's cells: equal where all its rows are, 0 where they are 0."""
        found = mixed(self.rows.view(np.uint64) * factor)
        found *= marks[:, None]
        self.signs = mixed(self._summed(found))

    def _summed(self, values: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Sum each factor's rows. The sum of a factor without rows is 0."""
        heights = np.diff(self.expanded.starts)
        if (heights == 1).all():
            return values
        found = np.zeros((len(heights), *values.shape[1:]), dtype=values.dtype)
        filled = heights > 0
        found[filled] = np.add.reduceat(values, self.expanded.starts[:-1][filled], axis=0)
        return found


class _Kind:
    """Columns of one kind, each with the number of its first row."""

    def __init__(
        self,
        axes: tuple[Axes, ...],
        tables: Sequence[_Table],
        some: Sequence[tuple[PreparedColumn, int]],
    ) -> None:
        self.axes = axes
        self._tables = tables
        self._columns = [one.column for one, _ in some]
        self._starts = [start for _, start in some]

    @property
    def number(self) -> int:
        """The number of columns."""
        return len(self._columns)

    @property
    def work(self) -> int:
        """Products that `sums` computes."""
        return self.number * math.prod(table.cells for table in self._tables)

    @cached_property
    def _factors(self) -> list[IntArray]:
        """For each table, the number of each column's factor in it."""
        number = [{f: n for n, f in enumerate(table.expanded.first)} for table in self._tables]
        return [
            np.array([own[column.factors[place]] for column in self._columns], dtype=np.int64)
            for place, own in enumerate(number)
        ]

    @property
    def differs_with_factors(self) -> bool:
        """Whether each column has at most one factor with coefficients other than 0 and 1."""
        pairs = zip(self._tables, self._factors, strict=True)
        some = [table.others[own] for table, own in pairs if table.others is not None]
        return len(some) < 2 or int(np.sum(some, axis=0).max()) < 2

    def sums(self, marks: Signs) -> Signs:
        """For each cell along the axes, in the tables' order, a number that is equal where all
        columns are. ``marks`` has one for each column."""
        found, last = marks[:, None], np.ones((self.number, 1), dtype=np.uint64)
        signs = [table.signs[own] for table, own in zip(self._tables, self._factors, strict=True)]
        for one in signs[:-1]:
            found = (found[:, :, None] * one[:, None, :]).reshape(self.number, -1)
        sums: Signs = np.einsum("ij,ik->jk", found, signs[-1] if signs else last)
        return sums.reshape([size for table in self._tables for size in table.shape])

    def put(self, layout: Layout, cells: IntArray, found: IntArray) -> None:
        """Write the columns' rows at these cells into their places in ``found``."""
        rows, numbers, of = self._rows
        product: IntArray | None = None
        for table, factors in zip(reversed(self._tables), reversed(self._factors), strict=True):
            starts = table.expanded.starts
            heights = np.diff(starts)[factors]
            own = starts[factors] if numbers is None else starts[factors][of]
            if numbers is not None:
                numbers, row = np.divmod(numbers, heights[of])
                own = own + row
            places = np.zeros(len(cells), dtype=np.int64)
            for axis, size in zip(table.expanded.axes, table.shape, strict=True):
                places = places * size + cells // layout.strides[axis] % size
            here = table.rows.take(places, axis=1).take(own, axis=0)
            product = here if product is None else np.multiply(product, here, out=product)
        found[rows] = 1 if product is None else product

    @property
    def _rows(self) -> tuple[IntArray, IntArray | None, IntArray]:
        """The rows' places, their numbers in their columns (None if all 0), and their columns."""
        heights = np.array([column.height for column in self._columns], dtype=np.int64)
        starts = np.array(self._starts, dtype=np.int64)
        of = np.arange(len(starts))
        if (heights == 1).all():
            return starts, None, of
        of = np.repeat(of, heights)
        numbers = np.arange(len(of)) - np.repeat(np.cumsum(heights) - heights, heights)
        return starts[of] + numbers, numbers, of


def mixed(values: Signs) -> Signs:
    """Mix high bits into low ones, in place: multiples of 2ⁿ otherwise differ in few. 0 stays 0."""
    values ^= values >> np.uint64(32)
    return values
