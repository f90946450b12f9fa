"""Integer matrices times counts, exactly.

The time depends on the matrix and on the number of points it is evaluated at, never on the counts:
a point that no row touches is processed like any other, with coefficient 0.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil.arrays import IntArray
from tallyveil.cube.marginals import DENSE_CELLS
from tallyveil.workload.workload import Column, Factor

__all__ = ["Grids", "exact_product", "kronecker_product"]

_LIMB: Final = 31
_CHUNK: Final = 2**20
# The most intermediate products for a grid: 128 MB.
_GRID: Final = 2**24


def exact_product(factor: Factor, x: IntArray) -> list[int]:
    """Σ_t coefficients[t] · x[t] by row, exactly, for x ≥ 0 whose row sums are at most MAX_RECORDS.

    A row's sum is at most max|coefficient| · MAX_RECORDS in absolute value. Below 2^31 that fits
    int64; larger coefficients are split into hi · 2^31 + lo with |hi| ≤ 2^32 and 0 ≤ lo < 2^31,
    each of which fits. The choice depends only on the public coefficients, never on x.
    """
    totals = _Totals(factor.height, factor.largest)
    totals.add(factor.rows, factor.coefficients, x, factor.starts)
    return totals.values()


def kronecker_product(column: Column, codes: Sequence[IntArray], counts: IntArray) -> list[int]:
    """Σ_t counts[t] · ∏_f F_f[i_f, codes_f[t]] for each row (i_1, …, i_m) of the column, exactly.

    Point t lies in cell ``codes[f][t]`` of factor f; codes and counts broadcast together. The
    product of the axes is never written out: a point's cell in each factor gives its row and
    coefficient there. Cells in several rows of a factor are processed in layers.

    Raises ValueError if a coefficient of the product can exceed 64 bits.
    """
    if column.largest >= 2**63:
        raise ValueError("a coefficient of the product exceeds 64 bits")
    totals = _Totals(column.height, column.largest)
    layers = [_layers(factor) for factor in column.factors]
    for chunk in _chunks(codes, counts):
        here, x = chunk[:-1], chunk[-1]
        for choice in itertools.product(*layers):
            number, coefficient = np.zeros((), dtype=np.int64), np.ones((), dtype=np.int64)
            for factor, layer, code in zip(column.factors, choice, here, strict=True):
                row, own = layer.at(code)
                number = number * factor.height + row
                coefficient = coefficient * own
            totals.add(*_asked(column, number, coefficient), x)
    return totals.values()


class Grids:
    """Products of some columns with grids of counts; columns of the same axes share a grid.

    Sums that consecutive columns have in common are computed once.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self._times = Counter(id(factor) for column in columns for factor in column.factors)
        self._last: tuple[tuple[tuple[tuple[str, ...], ...], int], IntArray] | None = None

    def product(self, column: Column, counts: IntArray) -> list[int]:
        """As `kronecker_product`, for ``counts`` of every cell, with an axis for each factor. Sums
        over the cells of one factor after the other: first a factor that several columns share,
        then the one that leaves the fewest values.
        """
        sizes = [factor.size for factor in column.factors]
        entries = [len(factor.rows) for factor in column.factors]
        steps = (n * (column.size // size) for n, size in zip(entries, sizes, strict=True))
        if max(0, column.product_height, *steps) > _GRID or column.largest >= 2**_LIMB:
            return kronecker_product(column, np.ix_(*map(np.arange, sizes)), counts)
        alone = [self._times[id(factor)] < 2 for factor in column.factors]
        order = sorted(range(len(sizes)), key=lambda f: (alone[f], entries[f] / sizes[f]))
        for f in order[:1]:
            counts = self._first(column, f, counts)
        order[1:] = sorted(order[1:], key=lambda f: column.factors[f].height / sizes[f])
        for f in order[1:]:
            counts = _contracted(column.factors[f], counts, f)
        values: list[int] = counts.ravel()[column.numbers].tolist()
        return values

    def _first(self, column: Column, f: int, counts: IntArray) -> IntArray:
        # A grid has an axis for each factor, so other factors of the same axes need another grid.
        key = (tuple(factor.axes for factor in column.factors), id(column.factors[f]))
        if self._last is None or self._last[0] != key:
            self._last = key, _contracted(column.factors[f], counts, f)
        return self._last[1]


def _contracted(factor: Factor, counts: IntArray, axis: int) -> IntArray:
    """Σ_j F[i, j] · counts[j] for each row i, along an axis."""
    counts = np.moveaxis(counts, axis, 0)
    each = np.expand_dims(factor.coefficients, tuple(range(1, counts.ndim)))
    terms = counts[factor.cells] * each
    if factor.height == 1:
        sums = np.add.reduce(terms, axis=0, keepdims=True)  # several times quicker
        return np.moveaxis(sums, 0, axis)
    starts = factor.starts
    sums = np.zeros((factor.height, *counts.shape[1:]), dtype=np.int64)
    if len(starts):
        sums[factor.rows[starts]] = np.add.reduceat(terms, starts, axis=0)
    return np.moveaxis(sums, 0, axis)


def _chunks(codes: Sequence[IntArray], counts: IntArray) -> list[tuple[IntArray, ...]]:
    """Parts of a long list of points; a grid of points is one part."""
    if counts.ndim != 1 or len(codes) < 1:
        return [(*codes, counts)]
    along = [np.broadcast_to(code, counts.shape) for code in codes]
    starts = range(0, max(1, len(counts)), _CHUNK)
    return [tuple(a[s : s + _CHUNK] for a in (*along, counts)) for s in starts]


def _asked(column: Column, number: IntArray, coefficient: IntArray) -> tuple[IntArray, IntArray]:
    """The column's own row for a row of the product; rows not selected count 0, in row 0."""
    if column.selected is None or not len(column.selected):
        return number, coefficient
    place = np.minimum(np.searchsorted(column.selected, number), len(column.selected) - 1)
    return place, np.where(column.selected[place] == number, coefficient, 0)


@dataclass(frozen=True, eq=False)
class _Layer:
    """At most one (row, coefficient) for each cell of a factor; coefficient 0 where there is none.

    ``cells`` are the touched cells, ascending, or None where the tables are indexed by cell.
    """

    rows: IntArray
    coefficients: IntArray
    cells: IntArray | None

    def at(self, code: IntArray) -> tuple[IntArray, IntArray]:
        if self.cells is None:
            return self.rows[code], self.coefficients[code]
        place = np.minimum(np.searchsorted(self.cells, code), len(self.cells) - 1)
        here = np.where(self.cells[place] == code, self.coefficients[place], 0)
        return self.rows[place], here


def _layers(factor: Factor) -> list[_Layer]:
    """The factor's entries, in as few layers as the rows of a cell allow."""
    if factor.size <= DENSE_CELLS and np.bincount(factor.cells).max(initial=0) < 2:
        return [_table(factor.size, factor.cells, factor.rows, factor.coefficients)]
    order = np.lexsort((factor.rows, factor.cells))
    cells, rows = factor.cells[order], factor.rows[order]
    coefficients = factor.coefficients[order]
    depth = np.arange(len(cells)) - np.searchsorted(cells, cells)
    layers = []
    for level in range(int(depth.max(initial=-1)) + 1):
        here = depth == level
        if factor.size > DENSE_CELLS:
            layers.append(_Layer(rows[here], coefficients[here], cells[here]))
            continue
        layers.append(_table(factor.size, cells[here], rows[here], coefficients[here]))
    return layers


def _table(size: int, cells: IntArray, rows: IntArray, coefficients: IntArray) -> _Layer:
    large = max(int(rows.max(initial=0)), int(np.abs(coefficients).max(initial=0))) >> _LIMB
    table = np.zeros((2, size), dtype=np.int64 if large else np.int32)
    table[0][cells] = rows
    table[1][cells] = coefficients
    return _Layer(table[0], table[1], None)


class _Totals:
    """Sums by row of coefficients times counts, in one limb or two."""

    def __init__(self, height: int, bound: int) -> None:
        self._wide = bound >= 2**_LIMB
        self._sums = np.zeros((1 + self._wide, height), dtype=np.int64)

    def add(
        self,
        rows: IntArray,
        coefficients: IntArray,
        counts: IntArray,
        starts: IntArray | None = None,
    ) -> None:
        """Add entries; ``starts`` are the rows' first ones if each row's entries are adjacent."""
        if not self._sums.size:
            return
        if not self._wide:
            _add(self._sums[0], rows, coefficients * counts, starts)
            return
        _add(self._sums[0], rows, (coefficients & (2**_LIMB - 1)) * counts, starts)
        _add(self._sums[1], rows, (coefficients >> _LIMB) * counts, starts)

    def values(self) -> list[int]:
        low, *high = self._sums.tolist()
        if not high:
            return list(low)
        return [(h << _LIMB) + w for h, w in zip(high[0], low, strict=True)]


def _add(sums: IntArray, rows: IntArray, products: IntArray, starts: IntArray | None) -> None:
    if starts is not None:
        if len(starts):
            sums[rows[starts]] += np.add.reduceat(products, starts)
        return
    rows = np.broadcast_to(rows, products.shape)
    np.add.at(sums, rows.ravel(), products.ravel())
