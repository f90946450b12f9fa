"""Rows that add up to an exact one, against the system that the best combination solves."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from tallyveil.inference import DiscreteLaplaceLaw, Noises, best_combinations
from tallyveil.inference.estimates.partitions import Partition


def best(rows: np.ndarray, variances: np.ndarray, query: np.ndarray) -> np.ndarray:
    """min Σ A_i² v_i with A H = q, by its multipliers, with 10⁻⁹ in the place of 0."""
    v = np.diag(np.maximum(variances, 1e-9))
    m, n = rows.shape
    system = np.block([[2 * v, -rows], [rows.T, np.zeros((n, n))]])
    right = np.concatenate([np.zeros(m), query])
    found: np.ndarray = np.linalg.lstsq(system, right, rcond=None)[0][:m]
    return found


@pytest.mark.parametrize("scales", [(5.0,) * 6, (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)])
def test_the_formula_is_the_best_combination(scales: tuple[float, ...]) -> None:
    rows = np.array(
        [[1, 0, 0, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0, 0], [1] * 7]
        + [[0, 0, 0, 0, int(n == 0), int(n == 1), int(n == 2)] for n in range(3)]
    )
    own = [0, 1, 2, 4, 5, 6]
    noises = Noises.concatenated(
        [Noises.of(DiscreteLaplaceLaw, 0.0 if n == 3 else scales[own.index(n)]) for n in range(7)]
    )
    found = best_combinations(sparse.csr_matrix(rows), noises, sparse.csr_matrix(rows[own]))
    kinds = set()
    for row, one in zip(own, found, strict=True):
        assert one is not None
        weights = np.zeros(7)
        weights[one.places] = one.weights
        assert weights @ rows == pytest.approx(rows[row])
        assert weights == pytest.approx(best(rows, noises.variances, rows[row]), abs=1e-6)
        kinds.add(one.kind)
    assert len(kinds) == (1 if len(set(scales)) == 1 else 6)


def test_anything_else_is_no_partition() -> None:
    def partition(rows: list[list[int]], exact: set[int]) -> Partition | None:
        noises = [
            Noises.of(DiscreteLaplaceLaw, 0.0 if n in exact else 5.0) for n in range(len(rows))
        ]
        return Partition.of(sparse.csr_matrix(np.array(rows)), Noises.concatenated(noises))

    assert partition([[1, 0], [0, 1], [1, 1]], {2}) is not None
    assert partition([[1, 0], [0, 1], [1, 1]], set()) is None
    assert partition([[1, 0], [0, 1], [1, 1]], {1, 2}) is None
    assert partition([[1, 1], [0, 1], [1, 1]], {2}) is None
    assert partition([[1, 0], [0, 2], [1, 1]], {2}) is None
    one = partition([[1, 0], [0, 1], [1, 1]], {2})
    assert one is not None
    assert one.combinations(sparse.csr_matrix(np.array([[1, 1]]))) is None
    assert one.combinations(sparse.csr_matrix(np.array([[2, 0]]))) is None
