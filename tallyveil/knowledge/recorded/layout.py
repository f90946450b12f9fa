"""Columns written out over the cells that some columns tell apart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from scipy import sparse

from tallyveil import deadline
from tallyveil.alike import stretches
from tallyveil.arrays import IntArray
from tallyveil.knowledge.recorded.prepared import PreparedColumn
from tallyveil.workload.workload import Factor

__all__ = ["Axes", "Laid", "Layout", "Written"]

Axes: TypeAlias = tuple[str, ...]

_Entries: TypeAlias = tuple[IntArray, IntArray, IntArray]
"""Rows, cells and coefficients."""


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

    def along(
        self, axes: Axes, at: Sequence[IntArray], number: int
    ) -> tuple[IntArray, list[IntArray]]:
        """Which of so many entries are not left out, and the numbers of their values."""
        if not axes:
            return np.arange(number), []
        ranks = [self.labels[axis][own] for axis, own in zip(axes, at, strict=True)]
        kept = np.flatnonzero(np.logical_and.reduce([rank >= 0 for rank in ranks]))
        return kept, [rank[kept] for rank in ranks]

    def across(self, kind: tuple[Axes, ...]) -> IntArray:
        """The cells along all axes that a column of this kind does not mention."""
        cells = np.zeros(1, dtype=np.int64)
        mentioned = set(itertools.chain(*kind))
        for axis in (axis for axis in self.sizes if axis not in mentioned):
            own = np.arange(self.sizes[axis], dtype=np.int64) * self.strides[axis]
            cells = (cells[:, None] + own).ravel()
        return cells


class Written:
    """Some columns, as products of the entries of their factors, each of which is laid out once."""

    def __init__(self, layout: Layout, columns: Sequence[PreparedColumn]) -> None:
        self.layout = layout
        self.columns = columns
        every: dict[Factor, tuple[IntArray, ...]] = {}
        for one in columns:
            every.update(zip(one.column.factors, one.places, strict=True))
        factors: dict[Axes, dict[Factor, tuple[IntArray, ...]]] = {}
        for factor, places in every.items():
            factors.setdefault(factor.axes, {})[factor] = places
        self.laid = {axes: Laid(layout, axes, own) for axes, own in factors.items()}
        self._sizes = {f: size for laid in self.laid.values() for f, size in laid.sizes.items()}

    @cached_property
    def entries(self) -> list[int]:
        """How many each of the columns has."""
        kinds = {one.kind for one in self.columns}
        across = {kind: len(self.layout.across(kind)) for kind in kinds}
        return [
            across[one.kind] * math.prod(map(self._sizes.__getitem__, one.column.factors))
            if one.column.selected is None
            else across[one.kind] * self._selected(one)
            for one in self.columns
        ]

    def _selected(self, one: PreparedColumn) -> int:
        column = one.column
        total = np.ones(column.height)
        own = column.factor_rows(column.numbers)
        for axes, factor, rows in zip(one.kind, column.factors, own, strict=True):
            laid = self.laid[axes]
            total *= laid.counts[laid.first[factor] + rows]
        return int(total.sum())

    def matrix(self, which: Sequence[int]) -> sparse.csc_matrix:
        """The rows of some of the columns, one column after the other."""
        ends = np.cumsum([0, *(self.columns[n].column.height for n in which)]).tolist()
        kinds: dict[tuple[Axes, ...], list[tuple[PreparedColumn, int]]] = {}
        for n, start in zip(which, ends, strict=False):
            kinds.setdefault(self.columns[n].kind, []).append((self.columns[n], start))
        shape = (ends[-1], self.layout.cells)
        if not kinds:
            return sparse.csc_matrix(shape, dtype=np.int64)
        parts = [self._written(kind, some) for kind, some in kinds.items()]
        rows, cells, coefficients = (np.concatenate(each) for each in zip(*parts, strict=True))
        found = sparse.coo_matrix((coefficients, (rows, cells)), shape=shape)
        found.has_canonical_format = True  # no entry is there twice
        return found.tocsc()

    def _written(
        self, kind: tuple[Axes, ...], some: Sequence[tuple[PreparedColumn, int]]
    ) -> _Entries:
        """Of columns of one kind, each with the number of its first row."""
        deadline.check()
        columns = [one.column for one, _ in some]
        of = np.repeat(np.arange(len(some)), [column.height for column in columns])
        numbers = np.concatenate([column.numbers for column in columns])
        rows = np.concatenate([np.arange(one.column.height) + start for one, start in some])
        own = []
        for place in reversed(range(len(kind))):
            factors, laid = [column.factors[place] for column in columns], self.laid[kind[place]]
            heights = np.array([max(1, factor.height) for factor in factors])
            numbers, row = np.divmod(numbers, heights[of])
            own.append((laid, row + np.array([laid.first[factor] for factor in factors])[of]))
        line = np.arange(len(rows))
        cells, coefficients = np.zeros_like(line), np.ones_like(line)
        for laid, row in reversed(own):
            again, entry = stretches(laid.ends, row[line])
            line = line[again]
            cells = cells[again] + laid.cells[entry]
            coefficients = coefficients[again] * laid.coefficients[entry]
        across = self.layout.across(kind)
        rows, coefficients = (np.repeat(each, len(across)) for each in (rows[line], coefficients))
        return rows, (cells[:, None] + across).ravel(), coefficients


class Laid:
    """Distinct factors over the same axes, one after the other: ``first`` is the first row of each,
    ``sizes`` is the number of its entries that are not left out, ``counts`` that of each row, and
    those of row i are from ``ends[i]`` to ``ends[i + 1]``. Of most of what is laid out only the
    sizes are asked for. ``ranks`` are the numbers of the entries' values along each axis."""

    def __init__(
        self, layout: Layout, axes: Axes, factors: Mapping[Factor, tuple[IntArray, ...]]
    ) -> None:
        deadline.check()
        self.axes = axes
        self._factors, self._lengths = factors, [len(factor.rows) for factor in factors]
        at = [np.concatenate([own[n] for own in factors.values()]) for n in range(len(axes))]
        ends = np.cumsum([0, *self._lengths])
        self._kept, self.ranks = layout.along(axes, at, int(ends[-1]))
        self._strides = [layout.strides[axis] for axis in axes]
        sizes = np.diff(self._kept.searchsorted(ends))
        self.sizes = dict(zip(factors, sizes.tolist(), strict=True))

    @cached_property
    def cells(self) -> IntArray:
        """Of the entries, along these axes."""
        cells = np.zeros(len(self._kept), dtype=np.int64)
        for stride, ranks in zip(self._strides, self.ranks, strict=True):
            cells += ranks * stride
        return cells

    @cached_property
    def coefficients(self) -> IntArray:
        return np.concatenate([factor.coefficients for factor in self._factors])[self._kept]

    @cached_property
    def starts(self) -> IntArray:
        """The first row of each factor, and their number."""
        return np.cumsum([0, *(factor.height for factor in self._factors)])

    @cached_property
    def first(self) -> dict[Factor, int]:
        return dict(zip(self._factors, self.starts.tolist(), strict=False))

    @cached_property
    def rows(self) -> IntArray:
        """Of the entries."""
        rows = np.concatenate([factor.rows for factor in self._factors])
        rows += np.repeat(self.starts[:-1], self._lengths)
        return rows[self._kept]

    @cached_property
    def counts(self) -> IntArray:
        return np.bincount(self.rows, minlength=self.starts[-1])

    @cached_property
    def ends(self) -> IntArray:
        return np.cumsum([0, *self.counts])
