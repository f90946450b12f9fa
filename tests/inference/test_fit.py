"""`Fit` against best combinations, and its quick intervals against the laws themselves."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from tallyveil.deadline import Deadline
from tallyveil.errors import QueryCanceled
from tallyveil.inference import LAWS, DiscreteLaplaceLaw, ErrorLaw, Fit, Noises, best_combinations
from tallyveil.inference.estimates import fit
from tests.inference.exact import least_variances


def some_history(seed: int) -> tuple[np.ndarray, Noises]:
    random = np.random.default_rng(seed)
    rows = random.integers(0, 2, (12, 6)) * random.choice([1, 1, 1, 3], (12, 1))
    laws = random.integers(0, len(LAWS), 12).astype(np.int8)
    return rows, Noises(laws, random.uniform(1, 30, 12))


@pytest.mark.parametrize("seed", range(20))
def test_variances_are_the_least(seed: int) -> None:
    rows, noises = some_history(seed)
    rows, kept = rows[:7], noises.take(np.arange(7))
    fit = Fit.of(sparse.csr_matrix(rows), kept, 1)
    queries = np.vstack([rows[rows.any(axis=1)], np.eye(6, dtype=np.int64)])
    expected = least_variances(rows, kept.variances.tolist(), queries)
    variances = fit.variances(sparse.csr_matrix(queries))
    for query, variance, least in zip(queries, variances, expected, strict=True):
        assert math.isfinite(variance) == (least is not None)
        if least is not None:
            assert variance == pytest.approx(float(least), rel=1e-7)
            weights = fit.weights(sparse.csr_matrix(query))
            assert weights @ rows == pytest.approx(query, abs=1e-6)
            assert (weights**2 * kept.variances).sum() == pytest.approx(variance)


def test_many_cells_are_mixed() -> None:
    random = np.random.default_rng(5)
    rows = sparse.random(30, 2_000, 0.05, random_state=random, format="csr").astype(np.int64)
    rows.data = np.ones(rows.nnz, dtype=np.int64)
    rows = sparse.vstack([rows, rows[:10] + rows[10:20]], format="csr")
    noises = Noises.of(DiscreteLaplaceLaw, random.uniform(1, 30, 40))
    fit = Fit.of(rows, noises, 1)
    assert fit.mix is not None
    asked = rows[[0, 15, 25, 35]]
    for variance, found in zip(
        fit.variances(asked), best_combinations(rows, noises, asked), strict=True
    ):
        assert found is not None
        expected = (found.weights**2 * noises.variances[found.places]).sum()
        assert variance == pytest.approx(expected, rel=1e-7)
    assert fit.variances(rows[[0]] + rows[[1]] - rows[[29]])[0] < math.inf
    assert fit.variances(sparse.csr_matrix(np.eye(1, 2_000)))[0] == math.inf


def test_exact_answers_weigh_as_such() -> None:
    rows = sparse.csr_matrix([[1, 1], [1, 0]])
    fit = Fit.of(rows, Noises.of(DiscreteLaplaceLaw, [0.0, 5.0]), 1)
    other = fit.variances(sparse.csr_matrix([[0, 1]]))
    one = Noises.of(DiscreteLaplaceLaw, 5.0).variances
    assert other == pytest.approx(one)


@given(st.integers(0, 10**6), st.sampled_from([0.5, 0.8, 0.95, 0.99]))
def test_lesser_weights_give_narrower_intervals(seed: int, confidence: float) -> None:
    rows, noises = some_history(seed)
    fit = Fit.of(sparse.csr_matrix(rows), noises, 1)
    [query] = rows[rows.any(axis=1)][:1]
    weights, lesser = (f(sparse.csr_matrix(query)) for f in (fit.weights, fit.lesser_weights))
    assert (lesser <= np.abs(weights) * (1 + 1e-7)).all()
    narrow, wide = (ErrorLaw(w, noises).half_width(confidence) for w in (lesser, weights))
    # Of laws made of points they are told to within a point: those of w X lie w apart.
    assert narrow <= wide * (1 + 1e-6) + max(lesser.max(), 1e-6)


@given(st.integers(0, 10**6), st.sampled_from([0.5, 0.8, 0.95, 0.99]))
def test_a_variance_bounds_the_half_width_from_below(seed: int, confidence: float) -> None:
    """P(|X| ≤ h) ≤ h √(2/v) for log-concave laws; laws of points have a step less."""
    random = np.random.default_rng(seed)
    number = int(random.integers(1, 8))
    laws = random.integers(0, len(LAWS), number).astype(np.int8)
    noises = Noises(laws, random.uniform(0.2, 10, number))
    weights = random.uniform(0, 1, number)
    law = ErrorLaw(weights, noises)
    assert law.half_width(confidence) >= confidence * math.sqrt(law.variance / 2) - 1


def test_a_long_decomposition_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be stopped; whoever asked for it need not wait."""
    runs, end = threading.Event(), threading.Event()

    def never(matrix: np.ndarray) -> None:
        runs.set()
        assert end.wait(60)

    monkeypatch.setattr(fit, "_svd", never)
    rows = sparse.identity(500, dtype=np.int64, format="csr")
    noises = Noises.of(DiscreteLaplaceLaw, np.ones(500))
    statement = Deadline(cancelled=runs.is_set)
    with statement.entered(), pytest.raises(QueryCanceled):
        Fit.of(rows, noises, 1)
    end.set()
