"""The quick estimate of alike answers, against the general estimator."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from tallyveil.inference import Estimator, Law, Noises, best_combination


@pytest.mark.parametrize("seed", range(150))
def test_it_is_the_estimator_s_estimate(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(1, 14)), int(rng.integers(1, 9))
    rows = rng.integers(-1, 3, (m, n))
    query = rng.integers(-1, 3, n) if seed % 2 else rng.integers(-1, 2, m) @ rows
    noises = Noises.of(Law.DISCRETE_LAPLACE, rng.choice([0.0, 1.0, 3.0, 10.0], m))
    estimator = Estimator(n)
    estimator.observe(rows, np.zeros(m), noises)
    best = estimator.estimate(query)
    found = best_combination(sparse.csr_matrix(rows), noises.variances, query)
    assert (best is None) == (found is None)
    if best is not None and found is not None:
        np.testing.assert_allclose(found @ rows, query, atol=1e-9)
        variance = float((found**2 * noises.variances).sum())
        assert variance == pytest.approx(best.variance, rel=1e-6, abs=1e-9)


def test_a_grouping_of_thousands_is_a_few_sorts() -> None:
    """5,000 groups, 50 sums of 100 of them, and the whole: closed forms for the whole."""
    fine = sparse.identity(5000, format="csr", dtype=np.int64)
    sums = sparse.csr_matrix(np.kron(np.eye(50, dtype=np.int64), np.ones((1, 100), dtype=np.int64)))
    whole = np.ones((1, 5000), dtype=np.int64)
    rows = sparse.vstack([fine, sums, sparse.csr_matrix(whole)], format="csr")
    variances = np.concatenate([np.full(5000, 800.0), np.full(50, 200.0), [50.0]])
    found = best_combination(rows, variances, whole[0])
    assert found is not None
    one_sum = 1 / (1 / 200 + 1 / (100 * 800))
    assert (found**2 * variances).sum() == pytest.approx(1 / (1 / 50 + 1 / (50 * one_sum)))


def test_no_recorded_answers_determine_nothing() -> None:
    none = sparse.csr_matrix((0, 3), dtype=np.int64)
    assert best_combination(none, np.zeros(0), np.array([1, 0, 0])) is None
