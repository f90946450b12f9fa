"""Whether a row of one column may lie within a row of another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from tallyveil.arrays import BoolArray
from tallyveil.cache import kept_with
from tallyveil.workload.workload import Column, Factor

__all__ = ["may_nest"]

_Support: TypeAlias = Mapping[str, BoolArray]
"""By axis, which values are touched."""


def may_nest(one: Column, other: Column) -> bool:
    """False only if no row of either column lies within a row of the other.

    Columns of several rows are compared by their axes alone, and rows that are not boxes by their
    bounding boxes."""
    if one.height == other.height == 1:
        return _within(one, other) or _within(other, one)
    return set(one.axes) <= set(other.axes) or set(other.axes) <= set(one.axes)


def _within(inner: Column, outer: Column) -> bool:
    box = _support(inner)
    for axis, touched in _support(outer).items():
        if not (touched | ~box[axis] if axis in box else touched).all():
            return False
    exact = all(_entries_in(factor, {}) == _size(factor, box) for factor in inner.factors)
    return not exact or all(_entries_in(own, box) == _size(own, box) for own in outer.factors)


def _entries_in(factor: Factor, box: _Support) -> int:
    index = np.unravel_index(factor.cells, factor.shape) if factor.axes else ()
    inside = np.ones(len(factor.cells), dtype=np.bool_)
    for axis, at in zip(factor.axes, index, strict=True):
        inside &= box[axis][at] if axis in box else True
    return int(inside.sum())


def _size(factor: Factor, box: _Support) -> int:
    """The number of cells of the factor's axes that are in the box."""
    return math.prod(
        int(box[axis].sum()) if axis in box else size
        for axis, size in zip(factor.axes, factor.shape, strict=True)
    )


@kept_with
def _support(column: Column) -> _Support:
    found = {}
    for factor in column.factors:
        places = np.unravel_index(factor.cells, factor.shape) if factor.axes else ()
        for axis, size, at in zip(factor.axes, factor.shape, places, strict=True):
            touched = np.zeros(size, dtype=np.bool_)
            touched[at] = True
            found[axis] = touched
    return found
