"""Columns written out over the cells that some columns tell apart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np

from tallyveil.workload.workload import Column, IntArray

__all__ = ["Entries", "Layout", "Places", "Work"]

_PRODUCT: Final = 1_000_000  # entries of a product of which some rows are taken

Entries: TypeAlias = tuple[IntArray, IntArray, IntArray]
"""Rows, cells and coefficients."""

Places: TypeAlias = tuple[tuple[IntArray, ...], ...]
"""By factor, and by its axes, the values of its entries."""


@dataclass(frozen=True, eq=False)
class Layout:
    """``labels`` has for each axis the number of each value, −1 for one that is like an earlier
    one and is left out. Cells are numbered in mixed radix, by the first axis the fastest."""

    labels: Mapping[str, IntArray]

    @cached_property
    def sizes(self) -> dict[str, int]:
        return {axis: int(ranks.max()) + 1 for axis, ranks in self.labels.items()}

    @cached_property
    def strides(self) -> dict[str, int]:
        sizes = list(self.sizes.values())
        return {axis: math.prod(sizes[:n]) for n, axis in enumerate(self.sizes)}

    @property
    def cells(self) -> int:
        return math.prod(self.sizes.values())

    def spread(self, column: Column, places: Places, limit: int) -> Entries | None:
        """The column's entries over all axes; None if there are more than ``limit``."""
        rows, cells, coefficients = _ones(1, 0)
        for height, (own, at, weights) in self._parts(column, places):
            if len(rows) * len(own) > (limit if column.selected is None else _PRODUCT):
                return None
            rows = (rows[:, None] * height + own).ravel()
            cells = (cells[:, None] + at).ravel()
            coefficients = (coefficients[:, None] * weights).ravel()
        if column.selected is None:
            return rows, cells, coefficients
        number = np.searchsorted(column.selected, rows)
        number[number == column.height] = 0
        kept = column.selected[number] == rows
        return None if kept.sum() > limit else (number[kept], cells[kept], coefficients[kept])

    def _parts(self, column: Column, places: Places) -> Iterator[tuple[int, Entries]]:
        """What the column is a product of, with the number of rows of each."""
        for factor, at in zip(column.factors, places, strict=True):
            kept, cells = self._cells(factor.axes, at, len(factor.rows))
            yield factor.height, (factor.rows[kept], cells, factor.coefficients[kept])
        for axis in self._missing(column.axes):
            yield 1, _ones(self.sizes[axis], self.strides[axis])

    def spread_alike(
        self, columns: Sequence[Column], places: Sequence[Places], work: Work
    ) -> tuple[list[int], Entries]:
        """As `spread`, at once for columns of one factor each, over the same axes, of which all
        rows are asked: which of them there is the work for, and their entries, with the rows of one
        after those of the other."""
        factors = [column.factors[0] for column in columns]
        axes, lengths = factors[0].axes, [len(factor.rows) for factor in factors]
        at = [np.concatenate([own[0][n] for own in places]) for n in range(len(axes))]
        kept, cells = self._cells(axes, at, sum(lengths))
        of = np.repeat(np.arange(len(factors)), lengths)[kept]
        missing = self._missing(axes)
        every = math.prod(self.sizes[axis] for axis in missing)
        entries = np.bincount(of, minlength=len(factors)) * every
        taken = [n for n, number in enumerate(entries.tolist()) if work.allows(number)]
        starts = np.full(len(factors), -1, dtype=np.int64)
        heights = np.array([factors[n].height for n in taken], dtype=np.int64)
        starts[taken] = np.cumsum(heights) - heights
        own = starts[of] >= 0
        kept, of, cells = kept[own], of[own], cells[own]
        rows = np.concatenate([factor.rows for factor in factors])[kept] + starts[of]
        coefficients = np.concatenate([factor.coefficients for factor in factors])[kept]
        for axis in missing:
            _, other, _ = _ones(self.sizes[axis], self.strides[axis])
            rows, coefficients = (np.repeat(each, len(other)) for each in (rows, coefficients))
            cells = (cells[:, None] + other).ravel()
        return taken, (rows, cells, coefficients)

    def _missing(self, axes: Sequence[str]) -> list[str]:
        return [axis for axis in self.sizes if axis not in axes]

    def _cells(
        self, axes: Sequence[str], at: Sequence[IntArray], number: int
    ) -> tuple[IntArray, IntArray]:
        """Which of so many entries are not left out, and their cells along these axes."""
        ranks = [self.labels[axis][own] for axis, own in zip(axes, at, strict=True)]
        kept = np.flatnonzero(np.logical_and.reduce([rank >= 0 for rank in ranks]))
        kept = kept if axes else np.arange(number)
        cells = np.zeros(len(kept), dtype=np.int64)
        for axis, rank in zip(axes, ranks, strict=True):
            cells += rank[kept] * self.strides[axis]
        return kept, cells


@dataclass
class Work:
    """So much, in entries, is ``left``; ``each`` is what a column makes beside its entries."""

    left: int
    each: int

    def allows(self, entries: int) -> bool:
        """Take it, if there is so much left."""
        if entries > self.left:
            return False
        self.left -= entries + self.each
        return True


def _ones(size: int, stride: int) -> Entries:
    return (
        np.zeros(size, dtype=np.int64),
        np.arange(size, dtype=np.int64) * stride,
        np.ones(size, dtype=np.int64),
    )
