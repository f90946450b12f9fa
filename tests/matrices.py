"""Factors and columns from their matrices, written out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tallyveil.workload.workload import Column, Factor

__all__ = ["column", "factor", "over_all_cells"]


def factor(dense: Any, axes: Sequence[str] = ("a",), shape: Sequence[int] | None = None) -> Factor:
    """A row for each of the matrix; one axis has as many values as that has columns."""
    matrix = np.asarray(dense, dtype=np.int64)
    own = matrix.shape[1:] if shape is None else tuple(shape)
    rows, cells = np.nonzero(matrix)
    return Factor(tuple(axes), own, len(matrix), rows, cells, matrix[rows, cells])


def column(
    dense: Any,
    axes: Sequence[str] = ("a",),
    shape: Sequence[int] | None = None,
    multiplier: Any = 1,
) -> Column:
    return Column((factor(dense, axes, shape),), Fraction(multiplier))


def over_all_cells(column: Column, sizes: Mapping[str, int]) -> np.ndarray:
    """The rows of a column with one axis in each factor, over the cells of all axes."""
    found = np.ones((1, 1))
    by_axis = {own.axes[0]: own for own in column.factors}
    for axis, size in sizes.items():
        own = np.ones((1, size))
        if axis in by_axis:
            own = np.zeros((by_axis[axis].height, size))
            own[by_axis[axis].rows, by_axis[axis].cells] = by_axis[axis].coefficients
        found = np.kron(found, own)
    return found
