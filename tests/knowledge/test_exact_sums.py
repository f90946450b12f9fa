"""Sums of rows that are exact, against linear algebra over all sums."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from tallyveil.knowledge.sums.exact_sums import SummedRows, exact_sums
from tests.pairs import alternately

_CELLS = 9


def disjoint(draw: np.random.Generator, kinds: int) -> np.ndarray:
    """Rows of a random partition of some of the cells."""
    owner = draw.integers(-1 if draw.random() < 0.3 else 0, kinds, _CELLS)
    rows = np.array([owner == row for row in range(kinds)], dtype=np.int64)
    found: np.ndarray = rows[rows.any(axis=1)]
    return found


@pytest.mark.parametrize(
    ("numbers", "seed"), alternately([[1], [1, 2, -3], [6, 10**3], [-(10**3)]], range(20))
)
def test_all_sums_of_disjoint_rows_are_found(seed: int, numbers: list[int]) -> None:
    """u Q = λ H has rank(Q) + rank(H) − rank(Q over H) independent solutions. Rows of sums have a
    number on each cell, here the same on all of a row of either kind, or of both."""
    draw = np.random.default_rng(seed)
    asked, exact = disjoint(draw, 4), disjoint(draw, 4)
    for rows, other in ((asked, exact), (exact, asked)):
        for own in (rows, other)[: draw.integers(3)]:
            rows *= np.prod(np.where(own, draw.choice(numbers, (len(own), 1)), 1), axis=0)
    truth = draw.integers(0, 100, _CELLS)
    fixed = np.full(len(asked), np.nan)
    if seed % 2 and len(asked):
        fixed[0] = asked[0] @ truth
    found = exact_sums(
        SummedRows(sparse.csr_matrix(asked), np.zeros(len(asked), np.int64), fixed),
        SummedRows(sparse.csr_matrix(exact), np.zeros(len(exact), np.int64), (exact @ truth) * 1.0),
    )
    sums = found.matrix.toarray()
    np.testing.assert_array_equal(sums @ truth, found.values)

    def rank(rows: np.ndarray) -> int:
        return int(np.linalg.matrix_rank(rows / np.abs(rows).max(axis=1, keepdims=True, initial=1)))

    both = rank(asked) + rank(exact) - rank(np.vstack([asked, exact]))
    alone = bool(seed % 2) and rank(np.vstack([exact, asked[:1]])) == rank(exact)
    assert len(sums) == both - alone
    assert found.whole


def test_overlapping_columns_are_looked_at_one_by_one() -> None:
    """Two columns of groups, two of exact rows; each pair has the total in common."""
    grid = np.arange(36).reshape(2, 3, 3, 2)
    axes = [np.moveaxis(grid, axis, 0).reshape(grid.shape[axis], -1) for axis in range(4)]
    matrices = [np.array([np.isin(grid.ravel(), row) for row in own], np.int64) for own in axes]
    asked, exact = np.vstack(matrices[:2]), np.vstack(matrices[2:])
    truth = np.arange(36) % 7
    found = exact_sums(
        SummedRows(sparse.csr_matrix(asked), np.array([0, 0, 1, 1, 1]), np.full(5, np.nan)),
        SummedRows(sparse.csr_matrix(exact), np.array([0, 0, 0, 1, 1]), (exact @ truth) * 1.0),
    )
    np.testing.assert_array_equal(found.matrix.toarray(), np.vstack([exact, np.ones((1, 36))]))
    np.testing.assert_array_equal(found.values, found.matrix @ truth)


def test_too_many_overlapping_columns_are_said() -> None:
    asked = np.tile([[1, 0, 1], [0, 1, 0]], (40, 1))
    found = exact_sums(
        SummedRows(sparse.csr_matrix(asked), np.repeat(np.arange(40), 2), np.full(80, np.nan)),
        SummedRows(
            sparse.csr_matrix([[1, 1, 0], [0, 0, 1]]), np.zeros(2, np.int64), np.array([3.0, 4])
        ),
    )
    assert not found.whole
