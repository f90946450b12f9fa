"""Estimates of one query and of many at once, against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from tallyveil.inference import (
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    Exchangeable,
    Noises,
    best_combinations,
)
from tallyveil.inference.estimates import combinations, together
from tallyveil.inference.estimates.least_norm import LARGEST
from tests.inference.exact import best_combination, least_variances

SLOW = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(100)]


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
    return history, Noises.of(DiscreteLaplaceLaw, np.concatenate(scales))


def _queries(rng: np.random.Generator, history: np.ndarray) -> np.ndarray:
    """Some in the row space, some anywhere."""
    m, n = history.shape
    made = []
    for _ in range(int(rng.integers(1, 8))):
        inside = (rng.integers(-1, 2, m) * (rng.random(m) < 0.4)) @ history
        anywhere = rng.integers(-1, 2, n) * (rng.random(n) < 0.5)
        made.append(inside if rng.random() < 0.7 else anywhere)
    return np.array(made, dtype=np.int64)


@pytest.mark.parametrize("seed", [*range(40), *SLOW[40:]])
def test_many_queries_have_the_least_variances(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    history, noises = _history(rng)
    dense = history.toarray()
    queries = _queries(rng, dense)
    least = least_variances(dense, _short(noises.variances), queries)
    for small in (4096, 0):
        monkeypatch.setattr(together, "_SMALL", small)
        found_all = best_combinations(history, noises, _sparse(queries))
        for query, best, found in zip(queries, least, found_all, strict=True):
            if found is None:
                assert best is None or not query.any()
                continue
            weights = np.zeros(len(dense))
            weights[found.places] = found.weights
            _assert_best(weights, dense, noises.variances, query, best)


@given(
    st.lists(st.lists(st.integers(-2, 2), min_size=4, max_size=4), min_size=1, max_size=9),
    st.lists(st.sampled_from([0.0, 0.5, 2.0, 1800.0, 2e5]), min_size=9, max_size=9),
    st.lists(st.integers(-2, 2), min_size=4, max_size=4),
)
def test_one_query_has_the_least_variance(
    h: list[list[int]], variances: list[float], q: list[int]
) -> None:
    rows, query, own = np.array(h), np.array(q), np.array(variances[: len(h)])
    [best] = least_variances(rows, own, query[None, :])
    found = best_combination(_sparse(rows), own, query)
    assert (found is None) == (best is None)
    if found is not None:
        _assert_best(found, rows, own, query, best)


def _short(variances: np.ndarray) -> list[Fraction]:
    return [Fraction(each).limit_denominator(10**7) for each in variances.tolist()]


def _sparse(rows: np.ndarray) -> sparse.csr_matrix:
    matrix = sparse.csr_matrix(rows)
    matrix.eliminate_zeros()
    return matrix


def _assert_best(
    weights: np.ndarray,
    rows: np.ndarray,
    variances: np.ndarray,
    query: np.ndarray,
    best: Fraction | None,
) -> None:
    assert best is not None
    np.testing.assert_allclose(weights @ rows, query, atol=1e-9)
    variance = float((weights**2 * variances).sum())
    assert variance == pytest.approx(float(best), rel=1e-6, abs=1e-9)


def test_the_example_of_the_paper() -> None:
    """H, α and q of BAYES eq. 20 and 22 and §3, with the variances of Laplace noise."""
    h = [[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 1, 0],
         [0, 1, 0, 1], [2, 1, 0, 0], [0, 0, 2, -1], [0, -1, 0, 1]]  # fmt: skip
    y = np.array([30.8, 30.3, 46.9, 20.2, 30.4, 68.9, 38.9, 9.5])
    variances = 2 * np.array([20.0, 10.0, 20.0, 10.0, 10.0, 40.0, 40.0, 10.0]) ** 2
    rows = _sparse(np.array(h))
    cells = [best_combination(rows, variances, row) for row in np.eye(4, dtype=int)]
    values = [float(cell @ y) for cell in cells if cell is not None]
    assert values == pytest.approx([24.992, 10.177, 17.021, 19.502], abs=5e-4)
    found = best_combination(rows, variances, np.array([1, 0, 1, 0]))
    assert found is not None
    a = [0.477, 0.364, -0.033, 0.495, -0.500, 0.262, 0.070, 0.238]
    assert found == pytest.approx(a, abs=5e-4)
    assert float(found @ y) == pytest.approx(42.014, abs=5e-4)
    assert float((found**2 * variances).sum()) == pytest.approx(554.4500359453630748, rel=1e-12)


def test_near_dependence_is_not_taken_for_dependence() -> None:
    """A row a hair's breadth from the others is not determined by them."""
    big = 10**6
    for row in ([big, big, 1], [big + 1, big, 0]):
        history, variances = _sparse(np.array([[big, big, 0]])), np.ones(1)
        assert best_combination(history, variances, np.array([1, 1, 0])) is not None
        assert best_combination(history, variances, np.array(row)) is None


@pytest.mark.parametrize("largest", [LARGEST, 0])
@pytest.mark.parametrize("seed", [*range(10), *SLOW[10:40]])
def test_few_rows_over_many_cells_have_the_least_variances(
    seed: int, largest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some rows are sums of others, so that there are many combinations to choose from. Above the
    largest system that is decomposed, products of its rows find them."""
    for module in (combinations, together):
        monkeypatch.setattr(module, "LARGEST", largest)
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 3, (int(rng.integers(2, 7)), 20))
    sums = rng.integers(-1, 2, (2, len(rows))) @ rows
    history = np.concatenate([rows, sums[sums.any(axis=1)]])
    noises = Noises.of(DiscreteLaplaceLaw, rng.choice([1.0, 3.0, 100.0], len(history)))
    queries = np.concatenate([rng.integers(-1, 2, (4, len(history))) @ history, rows[:1] + 1])
    least = least_variances(history, _short(noises.variances), queries)
    found_all = best_combinations(_sparse(history), noises, _sparse(queries))
    for query, best, found in zip(queries, least, found_all, strict=True):
        assert (found is None) == (best is None or not query.any())
        if found is not None:
            weights = np.zeros(len(history))
            weights[found.places] = found.weights
            _assert_best(weights, history, noises.variances, query, best)


@pytest.mark.parametrize("big", [10**3, 10**5, 10**6, 10**7, 10**8])
def test_a_row_near_the_others_adds_what_it_says(big: int) -> None:
    """The difference of two rows of large coefficients is a count of one cell."""
    rows = np.full((2, 8), big)
    rows[1, 3] += 1
    [found] = best_combinations(
        _sparse(rows), Noises.of(DiscreteLaplaceLaw, np.ones(2)), _sparse(rows[1:] - rows[:1])
    )
    assert found is not None
    assert found.weights[np.argsort(found.places)] == pytest.approx([-1, 1], abs=1e-6)


def test_multiples_of_a_query_are_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the averages of groups, whose sums are multiples of their counts."""
    solved, nearest = list[int](), Exchangeable.nearest

    def one_by_one(history: Exchangeable, queries: np.ndarray) -> object:
        if len(queries) > 1:
            return None
        solved.append(len(queries))
        return nearest(history, queries)

    monkeypatch.setattr(Exchangeable, "nearest", one_by_one)
    rng = np.random.default_rng(4)
    rows = rng.integers(-2, 3, (6, 9))
    history = Exchangeable(_sparse(rows), rng.uniform(1, 9, 6))
    first, second = rng.integers(-3, 4, (2, 6)) @ rows
    anything = rng.integers(1, 9, 9)
    queries = np.array([6 * first, second, 15 * first, 0 * first, anything, -second, 2 * anything])
    found = history.combinations(queries)
    assert len(solved) == 4
    assert found[4] is found[6] is None
    assert not history.given_up  # that it determines neither is known
    for query, weights in zip(queries, found, strict=True):
        if weights is not None:
            np.testing.assert_allclose(weights @ rows, query, atol=1e-10)
    assert found[0] is not None
    assert found[2] is not None
    np.testing.assert_allclose(found[2], 2.5 * found[0], rtol=1e-12)
    monkeypatch.setattr("tallyveil.inference.estimates.exchangeable.LARGEST", 1.0)
    assert history.one_by_one(queries[:2]) == [None, None]
    assert history.given_up


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


def test_groups_that_are_alike_are_of_one_kind() -> None:
    """A hundred groups of four parts each, of one precision: closed form, and one law."""
    groups, parts = 100, 4
    fine = sparse.identity(groups * parts, format="csr", dtype=np.int64)
    sums = sparse.csr_matrix(
        np.kron(np.eye(groups, dtype=np.int64), np.ones((1, parts), dtype=np.int64))
    )
    history = sparse.vstack([fine, sums], format="csr")
    noises = Noises.of(
        DiscreteGaussianLaw, np.r_[np.full(groups * parts, 3.0), np.full(groups, 2.0)]
    )
    whole = sparse.csr_matrix(np.ones((1, groups * parts), dtype=np.int64))
    found = best_combinations(history, noises, sparse.vstack([sums, whole], format="csr"))
    v, w = noises.variances[0], noises.variances[-1]
    each = 1 / (1 / w + 1 / (parts * v))
    variances = []
    for one in found:
        assert one is not None
        variances.append((one.weights**2 * noises.variances[one.places]).sum())
    np.testing.assert_allclose(variances, [*[each] * groups, groups * each])
    assert len({one.kind for one in found[:-1] if one is not None}) == 1


def test_what_is_alike_but_for_one_law_or_one_cell_is_told_apart() -> None:
    history = sparse.csr_matrix(np.kron(np.eye(3, dtype=np.int64), np.array([[1, 0], [1, 1]])))
    history.eliminate_zeros()
    noises = Noises.of(DiscreteGaussianLaw, [1.0, 2.0, 1.0, 2.0, 1.0, 5.0])
    question = _sparse(np.kron(np.eye(3, dtype=np.int64), np.array([[0, 1]])))
    first, second, third = best_combinations(history, noises, question)
    assert first is not None
    assert second is not None
    assert third is not None
    assert first.kind == second.kind != third.kind
    np.testing.assert_allclose(third.weights, [-1, 1])


def test_nothing_is_determined_by_nothing() -> None:
    none = sparse.csr_matrix((0, 3), dtype=np.int64)
    question = sparse.csr_matrix(np.array([[1, 0, 0], [0, 0, 0]]))
    assert best_combinations(none, Noises.of(DiscreteLaplaceLaw, []), question) == [None, None]
    assert best_combination(none, np.zeros(0), np.array([1, 0, 0])) is None
