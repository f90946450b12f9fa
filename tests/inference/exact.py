"""Best combinations in rational arithmetic: the oracle of everything that is solved in floats."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from scipy import sparse

from tallyveil.inference import Exchangeable

Matrix = list[list[Fraction]]


def least_variances(
    rows: np.ndarray, variances: Sequence[float | Fraction], queries: np.ndarray
) -> list[Fraction | None]:
    """For each query q the least Σ A_k² v_k with A H = q, or None where there is no such A.

    By its Lagrange conditions v_k A_k = H_k z and A H = q, all queries in one elimination.
    """
    m, n = rows.shape
    h = [[Fraction(int(c)) for c in row] for row in rows]
    v = [Fraction(each) for each in variances]
    matrix = [[v[k] * (i == k) for i in range(m)] + [-c for c in h[k]] for k in range(m)]
    matrix += [[h[i][j] for i in range(m)] + [Fraction(0)] * n for j in range(n)]
    right = [[Fraction(0)] * len(queries) for _ in range(m)]
    right += [[Fraction(int(query[j])) for query in queries] for j in range(n)]
    return [
        None if a is None else sum((a[k] ** 2 * v[k] for k in range(m)), Fraction(0))
        for a in solutions(matrix, right)
    ]


def solutions(matrix: Matrix, right: Matrix) -> list[list[Fraction] | None]:
    """For each column b of ``right`` an x with matrix x = b, free unknowns 0; None if none is."""
    width = len(matrix[0])
    rows, pivots = eliminated([a + b for a, b in zip(matrix, right, strict=True)], width)
    found_by_column = []
    for number in range(width, len(rows[0])):
        if any(row[number] for row in rows[len(pivots) :]):
            found_by_column.append(None)
            continue
        x = [Fraction(0)] * width
        for row, column in zip(rows, pivots, strict=False):
            x[column] = row[number]
        found_by_column.append(x)
    return found_by_column


def rank(rows: Sequence[Sequence[int | Fraction]]) -> int:
    matrix = [[Fraction(value) for value in row] for row in rows]
    return len(eliminated(matrix, len(matrix[0]) if matrix else 0)[1])


def eliminated(rows: Matrix, width: int) -> tuple[Matrix, list[int]]:
    """In reduced echelon form by the first columns, and which of these have pivots."""
    pivots = list[int]()
    for column in range(width):
        top = len(pivots)
        found = next((r for r in range(top, len(rows)) if rows[r][column]), None)
        if found is None:
            continue
        rows[top], rows[found] = rows[found], rows[top]
        pivot = rows[top][column]
        rows[top] = [value / pivot if value else value for value in rows[top]]
        for r, row in enumerate(rows):
            if r != top and (factor := row[column]):
                rows[r] = [a - factor * b if b else a for a, b in zip(row, rows[top], strict=True)]
        pivots.append(column)
    return rows, pivots


def best_combination(
    rows: sparse.csr_matrix, variances: np.ndarray, query: np.ndarray
) -> np.ndarray | None:
    """As it is found in floats, of one query."""
    return Exchangeable(rows, variances).combinations(query[None, :])[0]
