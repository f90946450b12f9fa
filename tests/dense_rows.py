"""The rows of columns, cell by cell."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from tallyveil.workload.workload import Column

__all__ = ["dense_rows"]


def dense_rows(column: Column, sizes: Mapping[str, int]) -> np.ndarray[Any, Any]:
    """The rows of a column over axes of these sizes, which are few: one index for each."""
    names = [*sizes]
    rows = np.ones((column.product_height, *sizes.values()))
    for cell in itertools.product(*map(range, sizes.values())):
        at = np.ones(1)
        for factor in column.factors:
            code = 0
            for axis, size in zip(factor.axes, factor.shape, strict=True):
                code = code * size + cell[names.index(axis)]
            own = np.zeros(factor.height)
            own[factor.rows[factor.cells == code]] = factor.coefficients[factor.cells == code]
            at = np.multiply.outer(at, own).ravel()
        rows[(slice(None), *cell)] = at
    return rows if column.selected is None else rows[column.selected]
