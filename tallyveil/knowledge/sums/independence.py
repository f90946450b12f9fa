"""Rows that add up to nothing, as their factors show, where there are too many cells to look at.

    SELECT status, count(*), sum(price) FROM orders GROUP BY status

has the rows gᵢ⊗h_k: in each group i, about other records than those of other groups, one along the
prices for the count and one for the sum. They are independent if the h_k are, and these are if
their Gram matrix is regular. That of h⊗h′, along several attributes, is the product of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from tallyveil.workload.workload import Column, Factor

__all__ = ["independent"]

_COLUMNS = 8
_LARGEST = 2**63


def independent(columns: Sequence[Column]) -> bool:
    """Whether no combination of the columns' rows but 0 is 0, apart from rows of zeros; False where
    that does not show."""
    if len(columns) > _COLUMNS or not all(column.disjoint for column in columns):
        return False
    first, *others = columns
    if any(not np.array_equal(first.numbers, other.numbers) for other in others):
        return False
    gram = [[1] * len(columns) for _ in columns]
    common = set[tuple[str, ...]]()
    every = dict.fromkeys(factor.axes for column in columns for factor in column.factors)
    if len({axis for axes in every for axis in axes}) < sum(map(len, every)):
        return False
    for axes in every:
        factors = [next((f for f in c.factors if f.axes == axes), None) for c in columns]
        present = [factor for factor in factors if factor is not None]
        if len(present) == len(factors) and all(_equal(present[0], one) for one in present):
            common.add(axes)
            continue
        size = present[0].size
        if any(factor.height != 1 for factor in present):
            return False
        for i, one in enumerate(factors):
            for k, other in enumerate(factors):
                product = _product(one, other, size)
                if product is None:
                    return False
                gram[i][k] *= product
    orders = {tuple(f.axes for f in c.factors if f.axes in common) for c in columns}
    return len(orders) == 1 and _regular([[Fraction(value) for value in row] for row in gram])


def _equal(one: Factor, other: Factor) -> bool:
    return one is other or (
        one.height == other.height
        and np.array_equal(one.rows, other.rows)
        and np.array_equal(one.cells, other.cells)
        and np.array_equal(one.coefficients, other.coefficients)
    )


def _product(one: Factor | None, other: Factor | None, size: int) -> int | None:
    """The inner product of two rows; None if it may not fit in 64 bits."""
    largest = [1 if factor is None else factor.largest for factor in (one, other)]
    if largest[0] * largest[1] * size >= _LARGEST:
        return None
    if one is None or other is None:
        factor = one or other
        return size if factor is None else int(factor.coefficients.sum())
    _, mine, theirs = np.intersect1d(
        one.cells, other.cells, assume_unique=True, return_indices=True
    )
    return int(one.coefficients[mine] @ other.coefficients[theirs])


def _regular(matrix: list[list[Fraction]]) -> bool:
    """Whether the matrix has an inverse, by elimination."""
    for column in range(len(matrix)):
        pivot = next((r for r in range(column, len(matrix)) if matrix[r][column]), None)
        if pivot is None:
            return False
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        for row in matrix[column + 1 :]:
            times = row[column] / matrix[column][column]
            row[:] = [a - times * b for a, b in zip(row, matrix[column], strict=True)]
    return True
