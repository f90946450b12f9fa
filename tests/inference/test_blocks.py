"""Many queries at once, against the general estimator asked one by one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from tallyveil.inference import Estimator, Law, Noises, best_combinations, blocks


def _history(rng: np.random.Generator) -> tuple[sparse.csr_matrix, Noises]:
    """Up to three blocks, some of them alike."""
    made, scales = [], []
    for number in range(int(rng.integers(1, 4))):
        if not number or rng.random() < 0.5:
            shape = int(rng.integers(1, 9)), int(rng.integers(1, 6))
            block, scale = rng.integers(-1, 3, shape), rng.choice([0.0, 1.0, 3.0, 10.0], shape[0])
        made.append(block)
        scales.append(scale)
    history = sparse.block_diag(made, format="csr").astype(np.int64)
    history.eliminate_zeros()
    return history, Noises.of(Law.DISCRETE_LAPLACE, np.concatenate(scales))


def _queries(rng: np.random.Generator, history: np.ndarray) -> np.ndarray:
    """Some in the row space, some anywhere."""
    m, n = history.shape
    made = []
    for _ in range(int(rng.integers(1, 8))):
        inside = (rng.integers(-1, 2, m) * (rng.random(m) < 0.4)) @ history
        anywhere = rng.integers(-1, 2, n) * (rng.random(n) < 0.5)
        made.append(inside if rng.random() < 0.7 else anywhere)
    return np.array(made, dtype=np.int64)


@pytest.mark.parametrize("small", [0, 4096])
@pytest.mark.parametrize("seed", range(200))
def test_each_query_has_the_estimator_s_estimate(
    seed: int, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "_SMALL", small)
    rng = np.random.default_rng(seed)
    history, noises = _history(rng)
    dense = history.toarray()
    queries = _queries(rng, dense)
    question = sparse.csr_matrix(queries)
    question.eliminate_zeros()
    estimator = Estimator(dense.shape[1])
    estimator.observe(dense, np.zeros(len(dense)), noises)
    for query, found in zip(queries, best_combinations(history, noises, question), strict=True):
        best = estimator.estimate(query) if query.any() else None
        assert (best is None) == (found is None)
        if best is None or found is None:
            continue
        weights = np.zeros(len(dense))
        weights[found.places] = found.weights
        np.testing.assert_allclose(weights @ dense, query, atol=1e-9)
        variance = float((weights**2 * noises.variances).sum())
        assert variance == pytest.approx(best.variance, rel=1e-6, abs=1e-9)


def test_groups_that_are_alike_are_of_one_kind() -> None:
    """A hundred groups of four parts each, of one precision: closed form, and one law."""
    groups, parts = 100, 4
    fine = sparse.identity(groups * parts, format="csr", dtype=np.int64)
    sums = sparse.csr_matrix(
        np.kron(np.eye(groups, dtype=np.int64), np.ones((1, parts), dtype=np.int64))
    )
    history = sparse.vstack([fine, sums], format="csr")
    noises = Noises.of(Law.GAUSSIAN, np.r_[np.full(groups * parts, 3.0), np.full(groups, 2.0)])
    whole = sparse.csr_matrix(np.ones((1, groups * parts), dtype=np.int64))
    found = best_combinations(history, noises, sparse.vstack([sums, whole], format="csr"))
    each = 1 / (1 / 4 + 1 / (parts * 9))
    variances = []
    for one in found:
        assert one is not None
        variances.append((one.weights**2 * noises.variances[one.places]).sum())
    np.testing.assert_allclose(variances, [*[each] * groups, groups * each])
    assert len({one.kind for one in found[:-1] if one is not None}) == 1


def test_what_is_alike_but_for_one_law_or_one_cell_is_told_apart() -> None:
    history = sparse.csr_matrix(np.kron(np.eye(3, dtype=np.int64), np.array([[1, 0], [1, 1]])))
    history.eliminate_zeros()
    noises = Noises.of(Law.GAUSSIAN, [1.0, 2.0, 1.0, 2.0, 1.0, 5.0])
    question = sparse.csr_matrix(np.kron(np.eye(3, dtype=np.int64), np.array([[0, 1]])))
    question.eliminate_zeros()
    first, second, third = best_combinations(history, noises, question)
    assert first is not None
    assert second is not None
    assert third is not None
    assert first.kind == second.kind != third.kind
    np.testing.assert_allclose(third.weights, [-1, 1])


def test_nothing_is_determined_by_nothing() -> None:
    none = sparse.csr_matrix((0, 3), dtype=np.int64)
    question = sparse.csr_matrix(np.array([[1, 0, 0], [0, 0, 0]]))
    assert best_combinations(none, Noises.of(Law.LAPLACE, []), question) == [None, None]
