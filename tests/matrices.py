"""Factors and columns from their matrices, written out."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tallyveil.workload.workload import Column, Factor

__all__ = ["column", "factor"]


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
