"""The cells of several attributes together, as an array with an axis for each attribute.

A comparison of one attribute is true in some places of its axis, whatever the others are. NumPy
combines such comparisons by AND, OR and NOT over the whole array, in SQL's three-valued logic.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np
from sqlglot import exp

from tallyveil import deadline
from tallyveil.arrays import BoolArray, IntArray
from tallyveil.rewriter.domain.attribute_axes import Axis, Truth
from tallyveil.rewriter.domain.linearise import by_first_cells

__all__ = ["CellGrid"]


class CellGrid:
    """The cells of some axes together, numbered in C-order."""

    def __init__(self, axes: Sequence[Axis]) -> None:
        self.axes = tuple(axes)
        self.shape = tuple(axis.attribute.size for axis in axes)
        # Axes of one cell are left out of arrays: NumPy has a limit of dimensions.
        self._several = [n for n, size in enumerate(self.shape) if size > 1]
        self._places = {axis.attribute.name: place for place, axis in enumerate(axes)}

    def place(self, node: exp.Expr) -> int | None:
        """The place of the axis if the expression is its attribute, else None."""
        column = node.unnest()
        place = self._places.get(column.name) if isinstance(column, exp.Column) else None
        return place if place is not None and self.axes[place].is_own(column) else None

    def coordinates(self, place: int, cells: IntArray) -> IntArray:
        """The cells' coordinates on an axis."""
        if len(self.axes) == 1:
            return cells
        return cells // math.prod(self.shape[place + 1 :]) % self.shape[place]

    def groups(self, places: Collection[int], cells: IntArray) -> tuple[IntArray, IntArray]:
        """Group sorted cells by some axes. Groups are numbered by their first cells.

        Returns (group of each cell, index of the first cell of each group).
        """
        if len(places) == len(self.axes):
            every = np.arange(len(cells))
            return every, every
        if not places:
            return np.zeros_like(cells), cells[:0]
        axes = ((self.coordinates(place, cells), self.shape[place]) for place in places)
        return by_first_cells(axes, cells)

    def meeting(self, condition: exp.Expr) -> BoolArray | None:
        """For each cell, whether a condition is true there; None if it takes DuckDB."""
        truth = self._truth(condition)
        if truth is None:
            return None
        shape = [self.shape[place] for place in self._several]
        return np.broadcast_to(truth.yes, shape).ravel()

    def _truth(self, node: exp.Expr) -> Truth | None:
        """Where a condition is true and false, in arrays that broadcast to that of all cells."""
        deadline.check()
        match node:
            case exp.Paren():
                return self._truth(node.this)
            case exp.Boolean():
                return Truth(np.array(bool(node.this)), np.array(not node.this))
            case exp.Null():
                return Truth(np.array(False), np.array(False))
            case exp.Not():
                inner = self._truth(node.this)
                return None if inner is None else ~inner
            case exp.And() | exp.Or():
                return self._combined(node)
        return self._compared(node)

    def _combined(self, node: exp.Connector) -> Truth | None:
        whole: Truth | None = None
        for part in node.flatten():
            truth = self._truth(part)
            if truth is None:
                return None
            if whole is None:
                whole = truth
            else:
                whole = whole & truth if type(node) is exp.And else whole | truth
        return whole

    def _compared(self, node: exp.Expr) -> Truth | None:
        column = node.find(exp.Column)
        place = None if column is None else self._places.get(column.name)
        truth = None if place is None else self.axes[place].truth(node)
        if truth is None:
            return None
        shape = [self.shape[n] if n == place else 1 for n in self._several]
        return Truth(truth.yes.reshape(shape), truth.no.reshape(shape))
