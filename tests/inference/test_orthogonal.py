"""Rows that are orthogonal, and rows that nearly are."""

from __future__ import annotations

import itertools

import numpy as np
from scipy import sparse

from tallyveil.inference.estimates.orthogonal import orthogonal_combinations


def test_two_rows_with_a_common_cell_are_noticed_wherever_they_are() -> None:
    cells = np.eye(24, dtype=np.int64)
    for one, other in itertools.permutations(range(24), 2):
        rows = cells.copy()
        rows[one, other] = 1
        matrix = sparse.csr_matrix(rows)
        assert orthogonal_combinations(matrix, sparse.csr_matrix(cells[:1])) is None, (one, other)


def test_long_rows_with_a_small_product_are_noticed() -> None:
    rows = np.array([[2**30, 1, 0], [0, 1, 2**30]])
    matrix = sparse.csr_matrix(rows)
    assert orthogonal_combinations(matrix, matrix) is None


def test_orthogonal_rows_determine_what_they_span() -> None:
    matrix = sparse.csr_matrix(np.array([[1, 1, 1, 1], [1, 1, -1, -1]]))
    queries = sparse.csr_matrix(np.array([[1, 1, 0, 0], [1, 0, 0, 0]]))
    found = orthogonal_combinations(matrix, queries)
    assert found is not None
    (half, none) = found
    assert none is None
    assert half is not None
    assert [own.tolist() for own in half] == [[0, 1], [0.5, 0.5]]
