"""Estimates once rows have answers of their own are those of a solve of the whole system."""

from __future__ import annotations

import functools
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

from tallyveil.inference import (
    Combination,
    Determined,
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    Noises,
    best_combinations,
    solved,
)
from tests.inference.exact import least_variances
from tests.pairs import pairs

NOT_SMALL = {"together._SMALL": 0}


def _system(rng: np.random.Generator) -> tuple[np.ndarray, Noises, np.ndarray, Determined | None]:
    """A history with its noises, a question some of whose rows it determines, and what it does."""
    history = rng.integers(-1, 3, (int(rng.integers(2, 9)), int(rng.integers(2, 8))))
    history = np.concatenate([history, history[:1] + history[-1:]])
    scales = rng.choice([1.0, 3.0, 30.0], len(history))
    inside = rng.integers(-1, 2, (2, len(history))) @ history
    anywhere = rng.integers(-1, 2, (int(rng.integers(0, 4)), history.shape[1]))
    question = np.concatenate([inside, anywhere, anywhere[:1] + inside[:1]])
    noises = Noises.of(DiscreteLaplaceLaw, scales)
    found = solved(_sparse(history), noises, _sparse(question))
    return history, noises, question, found.determined


def _sparse(rows: np.ndarray) -> sparse.csr_matrix:
    matrix = sparse.csr_matrix(rows)
    matrix.eliminate_zeros()
    return matrix


def _dense(found: Combination, rows: int) -> np.ndarray:
    weights = np.zeros(rows)
    weights[found.places] = found.weights
    return weights


@functools.cache
def _least(
    shape: tuple[int, int], whole: bytes, variances: bytes, question: bytes
) -> list[Fraction | None]:
    """Solved once for all limits."""
    rows, queries = (np.frombuffer(a, np.int64).reshape(-1, shape[1]) for a in (whole, question))
    values = np.frombuffer(variances).tolist()
    exactly = [Fraction(each).limit_denominator(10**7) for each in values]
    return least_variances(rows, exactly, queries)


@pytest.mark.parametrize(
    ("limits", "every", "seeds"),
    pairs(
        [{}, NOT_SMALL],
        [True, False],
        [range(n, n + 25) for n in range(0, 75, 25)],
    ),
)
def test_they_are_those_of_the_whole_system(
    seeds: range, every: bool, limits: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found over all cells, and by colours."""
    for name, value in limits.items():
        monkeypatch.setattr(f"tallyveil.inference.estimates.{name}", value)
    compared = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        history, noises, question, determined = _system(rng)
        if determined is None:
            continue
        answered = rng.permutation(len(question))
        if not every:
            answered = answered[: int(rng.integers(0, len(question)))]
        fresh = Noises.of(DiscreteGaussianLaw, rng.choice([2.0, 5.0, 300.0], len(answered)))
        whole, joined = np.concatenate([history, question[answered]]), [noises, fresh]
        together = Noises.concatenated(joined)
        found = determined.combined(together, answered, len(question))
        if found is None:  # a row without an answer follows from nothing but the others' answers
            assert not every
            continue
        expected = best_combinations(_sparse(whole), together, _sparse(question))
        least = _least(whole.shape, *(a.tobytes() for a in (whole, together.variances, question)))
        for one, other, best, query in zip(found, expected, least, question, strict=True):
            if one is None:
                assert not query.any() or not len(determined.basis) or other is None
                continue
            assert best is not None
            weights = _dense(one, len(whole))
            np.testing.assert_allclose(weights @ whole, query, atol=1e-10)
            if other is not None:  # it may be too near to call
                noise = np.sqrt(together.variances)
                off = (weights - _dense(other, len(whole))) * noise
                np.testing.assert_allclose(off, 0, atol=1e-6 * np.abs(weights * noise).max())
            variance = float((weights**2 * together.variances).sum())
            assert variance == pytest.approx(float(best), rel=1e-6)
            compared += 1
    assert compared > 20


def test_rows_that_one_answer_each_says_are_determined_by_it() -> None:
    """What is asked again more precisely needs no solve: each row is the mean of two answers."""
    history = np.array([[1, 1, 0, 0], [0, 0, 1, 1], [0, 1, 1, 0]])
    question = np.array([[0, 0, 1, 1], [0, 0, 0, 0], [1, 1, 0, 0]])
    noises = Noises.of(DiscreteLaplaceLaw, np.array([20.0, 30.0, 1.0]))
    determined = solved(_sparse(history), noises, _sparse(question)).determined
    assert determined is not None
    answered = np.array([0, 2])
    fresh = Noises.of(DiscreteLaplaceLaw, np.array([10.0, 5.0]))
    together = Noises.concatenated([noises, fresh])
    found = determined.combined(together, answered, 3)
    assert found is not None
    whole = np.concatenate([history, question[answered]])
    expected = best_combinations(_sparse(whole), together, _sparse(question))
    assert found[1] is expected[1] is None
    for row in answered.tolist():
        one, other = found[row], expected[row]
        assert one is not None
        assert other is not None
        np.testing.assert_allclose(_dense(one, 5), _dense(other, 5), atol=1e-12)
    exact = Noises.of(DiscreteLaplaceLaw, np.array([20.0, 0.0, 1.0]))
    assert solved(_sparse(history), exact, _sparse(question)).determined is None


def test_a_history_that_says_nothing_leaves_the_answers() -> None:
    """By two numbers of which nothing follows, rows stay as they were answered."""
    nothing = Determined.nothing(np.array([0, 2]))
    noises = Noises.of(DiscreteLaplaceLaw, np.ones(1))
    first, empty, last = nothing.combined(noises, np.array([2]), 3) or ()
    assert first is None
    assert empty is None
    assert last is not None
    assert last.places.tolist() == [0]
    assert last.weights.tolist() == [1.0]


_TOUCHED = np.array([[1, 0, 1, 0, 0, 0], [0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 0]])


def test_what_follows_of_rows_together_that_none_follows_by_itself() -> None:
    """The difference of the rows does, and they are as one on the cell that no other touches."""
    question = np.array([[1, 0, 1, 0, 1, 0], [0, 1, 1, 0, 1, 0]])
    noises = Noises.of(DiscreteLaplaceLaw, np.ones(3))
    found = solved(_sparse(_TOUCHED), noises, _sparse(question))
    assert found.combinations == [None, None]
    assert found.determined is None


def test_two_answers_of_a_row_take_a_solve() -> None:
    nothing = Determined.nothing(np.array([0]))
    noises = Noises.of(DiscreteLaplaceLaw, np.ones(2))
    assert nothing.combined(noises, np.array([0, 0]), 1) is None


def test_what_is_too_large_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the answers beside it, it would be larger still."""
    for name in (*NOT_SMALL, "exchangeable.LARGEST"):
        monkeypatch.setattr(f"tallyveil.inference.estimates.{name}", 0)
    history = np.concatenate([np.eye(3, dtype=np.int64), np.ones((1, 3), dtype=np.int64)])
    noises = Noises.of(DiscreteLaplaceLaw, np.ones(4))
    found = solved(_sparse(history), noises, _sparse(history[:2]))
    assert found.combinations == [None, None]
    assert found.determined is not None
    assert not len(found.determined.basis)


@pytest.mark.parametrize("scales", [[0.0, 1.0], [1.0, 0.0]])
def test_what_is_exact_is_left_to_a_solve(scales: list[float]) -> None:
    history = np.array([[1, 1, 0], [1, 1, 1]])
    noises = Noises.of(DiscreteLaplaceLaw, scales)
    found = solved(_sparse(history), noises, _sparse(np.array([[0, 0, 2], [1, 1, 3]])))
    assert None not in found.combinations
    assert found.determined is None
