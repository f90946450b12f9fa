"""The cells of several attributes together, as an array with an axis for each attribute.

A comparison of one attribute is true in some places of its axis, whatever the others are. NumPy
combines such comparisons by AND, OR and NOT over the whole array, in SQL's three-valued logic.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
from sqlglot import exp

from tallyveil import deadline
from tallyveil.arrays import BoolArray, IntArray
from tallyveil.rewriter.domain.attribute_axes import Axis, Truth
from tallyveil.rewriter.domain.linearise import by_first_cells

__all__ = ["CellGrid"]

_FEW: Final = 8
_SMALL: Final = 1 / 32
"""So many conditions, and such a share of the cells, are combined faster over all cells
(`NAME=cliffs`)."""

_Box: TypeAlias = Mapping[int, Truth]
"""Where the comparisons of some attributes hold, by the place of the axis."""


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
        parts, whole = [*node.flatten()], None
        if isinstance(node, exp.Or) and len(parts) > _FEW:
            boxes = [self._box(part) for part in parts]
            parts = [part for part, box in zip(parts, boxes, strict=True) if box is None]
            whole = self._union([box for box in boxes if box is not None])
        for part in parts:
            truth = self._truth(part)
            if truth is None:
                return None
            if whole is None:
                whole = truth
            else:
                whole = whole & truth if isinstance(node, exp.And) else whole | truth
        return whole

    def _box(self, node: exp.Expr) -> _Box | None:
        """The comparisons that a condition is the AND of, by the place of their attribute; None if
        it is something else, or not false in many cells, which are faster combined all at once."""
        box: dict[int, Truth] = {}
        for part in node.flatten() if isinstance(node, exp.And) else (node,):
            deadline.check()
            found = self._own(part)
            if found is None:
                return None
            place, truth = found
            box[place] = box[place] & truth if place in box else truth
        return box if math.prod(1 - truth.no.mean() for truth in box.values()) < _SMALL else None

    def _union(self, boxes: Sequence[_Box]) -> Truth:
        """The OR of boxes. A box is true in a part of the cells, and may be true or NULL in another
        part, so these are set and no others are visited."""
        mentioned = {place for box in boxes for place in box}
        shape = tuple(size if n in mentioned else 1 for n, size in enumerate(self.shape))
        yes, no = np.zeros(math.prod(shape), bool), np.ones(math.prod(shape), bool)
        for box in boxes:
            deadline.check()
            yes[_cells({n: truth.yes for n, truth in box.items()}, shape)] = True
            no[_cells({n: ~truth.no for n, truth in box.items()}, shape)] = False
        several = [shape[n] for n in self._several]
        return Truth(yes.reshape(several), no.reshape(several))

    def _compared(self, node: exp.Expr) -> Truth | None:
        found = self._own(node)
        if found is None:
            return None
        place, truth = found
        shape = [self.shape[n] if n == place else 1 for n in self._several]
        return Truth(truth.yes.reshape(shape), truth.no.reshape(shape))

    def _own(self, node: exp.Expr) -> tuple[int, Truth] | None:
        """The place of the one attribute that a condition compares, and where it holds."""
        column = node.find(exp.Column)
        place = None if column is None else self._places.get(column.name)
        truth = None if place is None else self.axes[place].truth(node)
        return None if place is None or truth is None else (place, truth)


def _cells(chosen: Mapping[int, BoolArray], shape: Sequence[int]) -> IntArray:
    """The cells in C-order whose coordinates are chosen on each axis; all on axes left out."""
    cells = np.zeros(1, dtype=np.int64)
    for place, size in enumerate(shape):
        own = np.flatnonzero(chosen[place]) if place in chosen else np.arange(size)
        cells = (cells[:, None] * size + own).ravel()
    return cells
