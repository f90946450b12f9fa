"""Rows over coarser cells, written over finer ones: each finer cell has the coefficient of the
coarser cell that it is in, and 0 where it is in none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

import numpy as np

from tallyveil import deadline
from tallyveil.alike import stretches
from tallyveil.arrays import IntArray
from tallyveil.workload.factor import Factor
from tallyveil.workload.workload import Column

__all__ = ["Refinement"]


@dataclass(frozen=True, eq=False)
class Refinement:
    """``order`` are the finer axes. ``cells[axis]`` has for each cell of a finer axis the coarser
    cell, −1 where what lies in it was not counted there; an axis that it lacks is unchanged, or is
    none of the coarser ones. ``names`` has the finer axes of coarser ones of other names."""

    order: tuple[str, ...]
    cells: Mapping[str, IntArray]
    names: Mapping[str, str]
    _known: WeakKeyDictionary[Factor, Factor] = field(default_factory=WeakKeyDictionary)
    """The finer factors of those that charges share."""

    def column(self, column: Column) -> Column:
        """The same rows over the finer cells: as functions of a record they are equal."""
        factors = [self.factor(one) for one in column.factors]
        return replace(column, factors=(*factors, *self.counted(factors)))

    def counted(self, factors: Sequence[Factor]) -> list[Factor]:
        """A row for each other axis with cells where nothing was counted, of the cells where a
        record was. So a row that mentions no such axis leaves out what was left out."""
        mentioned = {axis for factor in factors for axis in factor.axes}
        found = []
        for axis, coarser in self.cells.items():
            if axis not in mentioned and (coarser < 0).any():
                cells = np.flatnonzero(coarser >= 0)
                first, ones = np.zeros_like(cells), np.ones_like(cells)
                found.append(Factor((axis,), (len(coarser),), 1, first, cells, ones))
        return found

    def factor(self, factor: Factor) -> Factor:
        """The factor over the finer cells of its axes."""
        found = self._known.get(factor)
        if found is None:
            found = self._known[factor] = self._finer(factor)
        return found

    def _finer(self, factor: Factor) -> Factor:
        axes = [self.names.get(axis, axis) for axis in factor.axes]
        order = sorted(range(len(axes)), key=lambda n: self.order.index(axes[n]))
        if order == [*range(len(axes))] and not self.cells.keys() & {*axes}:
            return replace(factor, axes=tuple(axes))
        places, coefficients, rows = [], factor.coefficients, factor.rows
        if axes:
            places = [own.astype(np.int64) for own in np.unravel_index(factor.cells, factor.shape)]
        shape = list(factor.shape)
        for n, axis in enumerate(axes):
            coarser = self.cells.get(axis)
            if coarser is None:
                continue
            deadline.check()
            finer = np.argsort(coarser, kind="stable").astype(np.int64)
            starts = np.searchsorted(coarser[finer], np.arange(shape[n] + 1))
            of, entry = stretches(starts, places[n])
            places = [own[of] for own in places]
            places[n], shape[n] = finer[entry], len(coarser)
            rows, coefficients = rows[of], coefficients[of]
        sizes = tuple(shape[n] for n in order)
        cells = np.zeros_like(rows)
        for n in order:
            cells = cells * shape[n] + places[n]
        sort = np.lexsort((cells, rows))
        return Factor(
            tuple(axes[n] for n in order),
            sizes,
            factor.height,
            rows[sort],
            cells[sort],
            coefficients[sort],
        )
