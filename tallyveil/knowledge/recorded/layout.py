"""Columns expanded over the cells that a set of columns distinguishes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from tallyveil import deadline
from tallyveil.alike import stretches
from tallyveil.arrays import IntArray
from tallyveil.cache import cached_property
from tallyveil.knowledge.recorded.prepared import PreparedColumn
from tallyveil.workload.workload import Factor

__all__ = ["Axes", "ExpandedColumns", "ExpandedFactors", "Layout", "Rows"]

Axes: TypeAlias = tuple[str, ...]

_Entries: TypeAlias = tuple[IntArray, IntArray, IntArray]
"""Rows, cells and coefficients."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Numbers for the cells. ``labels`` numbers each axis's values; −1 stands for a value that is
    indistinguishable from an earlier one and left out. Cells are numbered in mixed radix, the first
    axis fastest."""

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
        """Which of ``number`` entries at these values are not left out, and the values' numbers."""
        if not axes:
            return np.arange(number), []
        ranks = [self.labels[axis][own] for axis, own in zip(axes, at, strict=True)]
        kept = np.flatnonzero(np.logical_and.reduce([rank >= 0 for rank in ranks]))
        return kept, [rank[kept] for rank in ranks]

    def across(self, kind: tuple[Axes, ...]) -> IntArray:
        """The cells along the axes that a column of this kind does not mention."""
        found = self._across.get(kind)
        if found is None:
            found = self._across[kind] = self._not_mentioned(kind)
        return found

    @cached_property
    def _across(self) -> dict[tuple[Axes, ...], IntArray]:
        return {}

    def _not_mentioned(self, kind: tuple[Axes, ...]) -> IntArray:
        cells = np.zeros(1, dtype=np.int64)
        mentioned = set(itertools.chain(*kind))
        for axis in (axis for axis in self.sizes if axis not in mentioned):
            own = np.arange(self.sizes[axis], dtype=np.int64) * self.strides[axis]
            cells = (cells[:, None] + own).ravel()
        return cells


class Rows(NamedTuple):
    """A matrix of ``height`` rows, given by its entries."""

    height: int
    rows: IntArray
    cells: IntArray
    coefficients: IntArray

    def taken(self, places: IntArray, cells: int) -> sparse.csr_matrix:
        """The matrix over ``cells`` cells, of which ``places`` gives the place of each that is
        left, and −1 for the others."""
        at = places[self.cells]
        kept = at >= 0
        entries = (self.coefficients[kept], (self.rows[kept], at[kept]))
        found = sparse.coo_matrix(entries, shape=(self.height, cells))
        found.has_canonical_format = True  # no entry is duplicated
        return found.tocsc().tocsr()  # which puts each row's entries in order


class ExpandedColumns:
    """Columns as products of their factors' entries. Each distinct factor is expanded once."""

    def __init__(self, layout: Layout, columns: Sequence[PreparedColumn]) -> None:
        self.layout = layout
        self.columns = columns
        every: dict[Factor, tuple[IntArray, ...]] = {}
        for one in columns:
            every.update(zip(one.column.factors, one.places, strict=True))
        factors: dict[Axes, dict[Factor, tuple[IntArray, ...]]] = {}
        for factor, places in every.items():
            factors.setdefault(factor.axes, {})[factor] = places
        self.factors = {axes: ExpandedFactors(layout, axes, own) for axes, own in factors.items()}
        every_size = (expanded.sizes.items() for expanded in self.factors.values())
        self._sizes = dict(itertools.chain.from_iterable(every_size))

    @cached_property
    def entries(self) -> list[int]:
        """The number of entries of each column."""
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
            expanded = self.factors[axes]
            total *= expanded.counts[expanded.first[factor] + rows]
        return int(total.sum())

    def rows(self, which: Sequence[int]) -> Rows:
        """The rows of the columns ``which``, one column after the other."""
        ends = np.cumsum([0, *(self.columns[n].column.height for n in which)]).tolist()
        kinds: dict[tuple[Axes, ...], list[tuple[PreparedColumn, int]]] = {}
        for n, start in zip(which, ends, strict=False):
            kinds.setdefault(self.columns[n].kind, []).append((self.columns[n], start))
        none = np.zeros(0, dtype=np.int64)
        parts = [self._entries(kind, some) for kind, some in kinds.items()] or [(none, none, none)]
        return Rows(ends[-1], *(np.concatenate(each) for each in zip(*parts, strict=True)))

    def _entries(
        self, kind: tuple[Axes, ...], some: Sequence[tuple[PreparedColumn, int]]
    ) -> _Entries:
        """The entries of columns of one kind, each given with the number of its first row."""
        deadline.check()
        columns = [one.column for one, _ in some]
        of = np.repeat(np.arange(len(some)), [column.height for column in columns])
        numbers = np.concatenate([column.numbers for column in columns])
        rows = np.concatenate([np.arange(one.column.height) + start for one, start in some])
        own = []
        for place in reversed(range(len(kind))):
            factors = [column.factors[place] for column in columns]
            expanded = self.factors[kind[place]]
            heights = np.array([max(1, factor.height) for factor in factors])
            numbers, row = np.divmod(numbers, heights[of])
            first = np.array([expanded.first[factor] for factor in factors])
            own.append((expanded, row + first[of]))
        line = np.arange(len(rows))
        cells, coefficients = np.zeros_like(line), np.ones_like(line)
        for expanded, row in reversed(own):
            again, entry = stretches(expanded.ends, row[line])
            line = line[again]
            cells = cells[again] + expanded.cells[entry]
            coefficients = coefficients[again] * expanded.coefficients[entry]
        across = self.layout.across(kind)
        rows, coefficients = (np.repeat(each, len(across)) for each in (rows[line], coefficients))
        return rows, (cells[:, None] + across).ravel(), coefficients


class ExpandedFactors:
    """The entries, less those left out, of distinct factors over the same axes, one after another.

    ``first`` is each factor's first row and ``sizes`` its number of entries. ``counts`` is each
    row's number of entries; those of row i are ``ends[i]`` to ``ends[i + 1]``. ``ranks`` number the
    entries' values along each axis. Often only the sizes are needed."""

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
        """The cell of each entry along these axes."""
        cells = np.zeros(len(self._kept), dtype=np.int64)
        for stride, ranks in zip(self._strides, self.ranks, strict=True):
            cells += ranks * stride
        return cells

    @cached_property
    def coefficients(self) -> IntArray:
        return np.concatenate([factor.coefficients for factor in self._factors])[self._kept]

    @cached_property
    def starts(self) -> IntArray:
        """The first row of each factor, and the total number of rows."""
        return np.cumsum([0, *(factor.height for factor in self._factors)])

    @cached_property
    def first(self) -> dict[Factor, int]:
        return dict(zip(self._factors, self.starts.tolist(), strict=False))

    @cached_property
    def rows(self) -> IntArray:
        """The row of each entry."""
        rows = np.concatenate([factor.rows for factor in self._factors])
        rows += np.repeat(self.starts[:-1], self._lengths)
        return rows[self._kept]

    @cached_property
    def counts(self) -> IntArray:
        return np.bincount(self.rows, minlength=self.starts[-1])

    @cached_property
    def ends(self) -> IntArray:
        return np.cumsum([0, *self.counts])
