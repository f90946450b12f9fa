"""BLUE against exact rational arithmetic, the paper's example, and against being better."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference import Estimator, KroneckerRow, Law, Noises, classes_of
from tallyveil.mechanisms.units import from_units, loss_units

BAYES_H = [[1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 1, 0],
           [0, 1, 0, 1], [2, 1, 0, 0], [0, 0, 2, -1], [0, -1, 0, 1]]  # fmt: skip
BAYES_SCALES = [20.0, 10.0, 20.0, 10.0, 10.0, 40.0, 40.0, 10.0]
BAYES_Y = [30.8, 30.3, 46.9, 20.2, 30.4, 68.9, 38.9, 9.5]

Matrix = list[list[Fraction]]


def solved(matrix: Matrix, right: Matrix) -> Matrix | None:
    """X with matrix X = right by Gauss and Jordan, free unknowns 0; None if there is none."""
    rows = [list(a) + list(b) for a, b in zip(matrix, right, strict=True)]
    width, pivots = len(matrix[0]), []
    for column in range(width):
        found = next((r for r in range(len(pivots), len(rows)) if rows[r][column]), None)
        if found is None:
            continue
        top = len(pivots)
        rows[top], rows[found] = rows[found], rows[top]
        rows[top] = [v / rows[top][column] for v in rows[top]]
        for r in range(len(rows)):
            if r != top and rows[r][column]:
                rows[r] = [v - rows[r][column] * t for v, t in zip(rows[r], rows[top], strict=True)]
        pivots.append(column)
    if any(any(row[width:]) for row in rows[len(pivots) :]):
        return None
    solution = [[Fraction(0)] * len(right[0]) for _ in range(width)]
    for row, column in zip(rows, pivots, strict=False):
        solution[column] = row[width:]
    return solution


def exact_variance(h: list[list[int]], variances: list[Fraction], q: list[int]) -> Fraction | None:
    """The least Σ A_k² v_k with A H = q, by its Lagrange conditions: v_k A_k = H_k z, A H = q."""
    m, n = len(h), len(q)
    matrix = [[variances[k] if i == k else Fraction(0) for i in range(m)]
              + [Fraction(-c) for c in h[k]] for k in range(m)]  # fmt: skip
    matrix += [[Fraction(h[i][j]) for i in range(m)] + [Fraction(0)] * n for j in range(n)]
    right = [[Fraction(0)] for _ in range(m)] + [[Fraction(c)] for c in q]
    solution = solved(matrix, right)
    if solution is None:
        return None
    return sum((solution[k][0] ** 2 * variances[k] for k in range(m)), Fraction(0))


def laplace(scales: list[float]) -> Noises:
    return Noises.of(Law.LAPLACE, scales)


def test_the_papers_example() -> None:
    """H, α, y and q of BAYES eq. 20 and 22 and §3. The half-width and the probability are those
    of the exact law by partial fractions, in 40 digits."""
    estimator = Estimator(4)
    estimator.observe(BAYES_H, BAYES_Y, laplace(BAYES_SCALES))
    cells = [estimator.estimate(row) for row in np.eye(4, dtype=int)]
    values = [cell.value for cell in cells if cell is not None]
    assert values == pytest.approx([24.992, 10.177, 17.021, 19.502], abs=5e-4)
    found = estimator.estimate([1, 0, 1, 0])
    assert found is not None
    a = [0.477, 0.364, -0.033, 0.495, -0.500, 0.262, 0.070, 0.238]
    assert found.coefficients == pytest.approx(a, abs=5e-4)
    assert found.value == pytest.approx(42.014, abs=5e-4)
    assert found.variance == pytest.approx(554.4500359453630748, rel=1e-13)
    low, high = found.posterior.interval(0.95)
    assert (high - low) / 2 == pytest.approx(47.38332970713610448, rel=1e-8)
    positive = found.posterior.probability(low=0)
    assert positive.lower <= 0.9619041161415353946 <= positive.upper
    assert positive.upper - positive.lower < 1e-9
    # What 4·10⁶ samples gave is off by less than three of their standard deviations.
    samples = 4_000_000
    density = 2 * float(found.error.density(np.array([(high - low) / 2]))[0])
    off = math.sqrt(0.95 * 0.05 / samples)
    assert abs((high - low) / 2 - 47.421) <= 3 * off / density
    assert abs(positive.lower - 0.96184) <= 3 * math.sqrt(0.962 * 0.038 / samples)


def test_the_papers_example_costs_what_its_section_5_says() -> None:
    """B = (α./S)ᵀ |H| (BAYES eq. 71), exactly: 0.1, 0.275, 0.25 and 0.375."""
    rates = [1 / Fraction(scale) for scale in BAYES_SCALES]
    spent = loss_units(list(np.abs(np.array(BAYES_H))), rates)
    assert [from_units(int(s)) for s in spent] == [
        Fraction(1, 10), Fraction(11, 40), Fraction(1, 4), Fraction(3, 8),
    ]  # fmt: skip


rows_of_four = st.lists(
    st.lists(st.integers(-2, 2), min_size=4, max_size=4), min_size=1, max_size=7
)


@settings(max_examples=80)
@given(
    rows_of_four,
    st.lists(st.sampled_from([0.001, 0.5, 1.0, 30.0, 1e6]), min_size=7, max_size=7),
    st.integers(0, 2),
    st.lists(st.integers(-2, 2), min_size=4, max_size=4),
)
def test_it_is_the_least_variance_there_is(
    h: list[list[int]], scales: list[float], known: int, q: list[int]
) -> None:
    known = min(known, len(h))
    scales = [0.0] * known + scales[known : len(h)]
    expected = exact_variance(h, [2 * Fraction(s) ** 2 for s in scales], q)
    rng = np.random.default_rng(3)
    x = rng.integers(0, 50, 4)
    estimator = Estimator(4)
    for row, scale in list(zip(h, scales, strict=True))[::-1]:
        # Answers without noise: an unbiased estimate must return the truth.
        estimator.observe(row, [int(np.dot(row, x))], laplace([scale]))
    found = estimator.estimate(q)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        reversed_rows = np.array(h)[::-1]
        assert found.coefficients @ reversed_rows == pytest.approx(np.array(q), abs=1e-8)
        assert found.value == pytest.approx(float(np.dot(q, x)), abs=1e-6)
        assert found.variance == pytest.approx(float(expected), rel=1e-7, abs=1e-18)


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_correlated_releases(seed: int) -> None:
    """Against generalised least squares, with Gaussian noise of covariance M D Mᵀ."""
    rng = np.random.default_rng(seed)
    h = rng.integers(-1, 3, (7, 4))
    mixing = np.eye(3) + 0.5 * rng.normal(size=(3, 3))
    sigmas = rng.uniform(0.5, 5, 7)
    covariance = np.diag(sigmas**2)
    covariance[:3, :3] = mixing @ covariance[:3, :3] @ mixing.T
    estimator = Estimator(4)
    estimator.observe(h[:3], np.zeros(3), Noises.of(Law.GAUSSIAN, sigmas[:3]), mixing)
    estimator.observe(h[3:], np.zeros(4), Noises.of(Law.GAUSSIAN, sigmas[3:]))
    q = h[0] + 2 * h[4]
    found = estimator.estimate(q)
    assert found is not None
    information = h.T @ np.linalg.inv(covariance) @ h
    assert found.variance == pytest.approx(q @ np.linalg.pinv(information) @ q, rel=1e-6)
    a = found.coefficients
    assert found.variance == pytest.approx(a @ covariance @ a, rel=1e-9)


def test_a_projected_release_knows_what_it_left_out() -> None:
    """Noise Π e that sums to 0 (SUBSPACE Corollary 11): the sum of the answers is exact."""
    projector = np.eye(3) - 1 / 3
    estimator = Estimator(3)
    noises = Noises.of(Law.DISCRETE_LAPLACE, [5.0] * 3)
    estimator.observe(np.eye(3, dtype=int), [4.0, 5.0, 6.0], noises, projector)
    total, single = estimator.estimate([1, 1, 1]), estimator.estimate([1, 0, 0])
    assert total is not None
    assert single is not None
    assert total.value == 15
    assert total.posterior.interval(0.95) == pytest.approx((15, 15), abs=1e-9)
    assert single.variance == pytest.approx(noises.variances[0] * 2 / 3)


def test_near_dependence_is_decided_by_integers() -> None:
    """Rows a hair's breadth from dependence, and dependent rows with long coefficients."""
    big = 10**6
    estimator = Estimator(3)
    estimator.observe([[big, big, 0]], [0.0], laplace([1.0]))
    assert estimator.estimate([1, 1, 0]) is not None
    assert estimator.estimate([big, big, 1]) is None
    assert estimator.estimate([big + 1, big, 0]) is None
    estimator.observe([[big, big + 1, 0]], [0.0], laplace([1.0]))
    found = estimator.estimate([0, 1, 0])
    assert found is not None
    assert found.coefficients == pytest.approx([-1, 1], rel=1e-6)
    assert estimator.estimate([0, 1, 1]) is None


def test_a_larger_history_with_many_dependent_rows() -> None:
    rng = np.random.default_rng(5)
    h = sparse.random(240, 90, 0.15, random_state=rng, data_rvs=lambda k: np.ones(k)).tocsr()
    scales = rng.uniform(1, 60, 240)
    once, slowly = Estimator(90), Estimator(90)
    once.observe(h, np.zeros(240), laplace(list(scales)))
    for k in range(240):
        slowly.observe(h[k], [0.0], laplace([scales[k]]))
    dense = h.toarray()
    information = np.linalg.inv(dense.T @ (dense / (2 * scales**2)[:, None]))
    for _ in range(5):
        q = rng.integers(0, 2, 90)
        expected = q @ information @ q
        for estimator in (once, slowly):
            found = estimator.estimate(q)
            assert found is not None
            assert found.variance == pytest.approx(expected, rel=1e-9)


def test_scales_far_apart_do_not_spoil_the_best_answer() -> None:
    """Worthless answers first, so that the basis has to be chosen again."""
    estimator = Estimator(3)
    estimator.observe(np.eye(3, dtype=int), [1.0, 2.0, 3.0], laplace([1e6] * 3))
    estimator.observe([[1, 1, 0], [0, 1, 1], [1, 0, 1]], [11.0, 12.0, 13.0], laplace([1e-3] * 3))
    found = estimator.estimate([1, 0, 0])
    assert found is not None
    assert found.value == pytest.approx(6, abs=1e-9)
    assert found.variance == pytest.approx(2 * 1e-6 * 3 / 4, rel=1e-6)


def test_an_estimate_is_never_worse_than_its_parts() -> None:
    rng = np.random.default_rng(11)
    for _ in range(20):
        h = rng.integers(0, 2, (6, 4))
        parts = [Estimator(4), Estimator(4), Estimator(4)]
        for k, row in enumerate(h):
            noise = Noises.of(Law(k % 4), [float(rng.uniform(0.5, 20))])
            for estimator in (parts[k % 2], parts[2]):
                estimator.observe(row, [0.0], noise)
        for q in rng.integers(-1, 2, (10, 4)):
            found = [estimator.estimate(q) for estimator in parts]
            single = [e.variance for e in found[:2] if e is not None]
            if single:
                assert found[2] is not None
                assert found[2].variance <= min(single) * (1 + 1e-9)


def test_without_history_only_nothing_is_known() -> None:
    estimator = Estimator(3)
    assert estimator.estimate([1, 0, 0]) is None
    nothing = estimator.estimate([0, 0, 0])
    assert nothing is not None
    assert (nothing.value, nothing.variance) == (0, 0)


def test_wrong_observations_are_refused_and_change_nothing() -> None:
    estimator = Estimator(2)
    noise = laplace([1.0])
    for rows, values, noises in (
        ([[0.5, 1]], [1.0], noise),
        ([[2**53, 1]], [1.0], noise),
        ([[np.nan, 1]], [1.0], noise),
        ([[1, 1, 1]], [1.0], noise),
        ([[1, 1]], [np.nan], noise),
        ([[1, 1]], [1.0, 2.0], noise),
        ([[1, 1]], [1.0], laplace([1.0, 2.0])),
    ):
        with pytest.raises(InvalidParameterValue):
            estimator.observe(rows, values, noises)
    for mixing in ([[np.inf]], [[1.0], [1.0]]):
        with pytest.raises(InvalidParameterValue):
            estimator.observe([[1, 1]], [1.0], noise, mixing)
    with pytest.raises(InvalidParameterValue):
        estimator.estimate([[1, 1], [1, 0]])
    with pytest.raises(InvalidParameterValue):
        Estimator(0)
    assert (len(estimator), estimator.rank) == (0, 0)


def row(**factors: list[int]) -> KroneckerRow:
    return KroneckerRow([((axis,), np.array(f)) for axis, f in factors.items()])


def written_out(r: KroneckerRow, axes: str, sizes: list[int]) -> np.ndarray:
    total = np.full(sizes, r.scalar)
    for names, tensor in r.factors:
        order = sorted(range(len(names)), key=lambda k: axes.index(names[k]))
        shape = [size if axis in names else 1 for axis, size in zip(axes, sizes, strict=True)]
        total = total * np.transpose(tensor, order).reshape(shape)
    return total.ravel()


def test_classes_give_the_estimates_of_the_cells() -> None:
    rng = np.random.default_rng(2)
    sizes = {"a": 4, "b": 5, "c": 3}
    for _ in range(10):
        rows = []
        for _ in range(9):
            chosen = rng.permutation(list("abc"))[: rng.integers(1, 4)].tolist()
            if len(chosen) == 3 and rng.random() < 0.5:
                pair, last = tuple(chosen[:2]), chosen[2]
                joint = rng.integers(0, 2, [sizes[x] for x in pair])
                rows.append(
                    KroneckerRow([(pair, joint), ((last,), rng.integers(0, 2, sizes[last]))], 2)
                )
            else:
                rows.append(row(**{x: rng.integers(0, 2, sizes[x]).tolist() for x in chosen}))
        cells = [written_out(r, "abc", [4, 5, 3]) for r in rows]
        for query in [*rows[:3], row(a=[1, 0, 1, 0]), KroneckerRow([])]:
            classes = classes_of(rows, query)
            full, merged = Estimator(60), Estimator(classes.matrix.shape[1])
            noises = laplace([1.0 + k for k in range(9)])
            full.observe(np.array(cells), np.arange(9.0), noises)
            merged.observe(classes.matrix, np.arange(9.0), noises)
            one = full.estimate(written_out(query, "abc", [4, 5, 3]))
            two = merged.estimate(classes.query)
            assert (one is None) == (two is None)
            if one is not None and two is not None:
                assert two.coefficients == pytest.approx(one.coefficients, abs=1e-9)


def test_of_a_large_cube_the_related_rows_are_used() -> None:
    axes = [f"a{n}" for n in range(12)]
    halves = [row(**{axis: [1, 0] * 500}) for axis in axes]
    pairs = [row(**{axes[k]: list(range(1000)), axes[k + 1]: [1, 0] * 500}) for k in range(11)]
    query = row(a0=[0, 1] * 500)
    everything = KroneckerRow([])
    classes = classes_of([*halves, *pairs, everything], query, cells=5000)
    assert {0, 23} <= set(classes.used.tolist())
    assert len(classes.used) < 24
    assert classes.matrix.shape[1] <= 5000
    estimator = Estimator(classes.matrix.shape[1])
    estimator.observe(
        classes.matrix, np.ones(len(classes.used)), laplace([1.0] * len(classes.used))
    )
    found = estimator.estimate(classes.query)
    assert found is not None
    by_number = dict(zip(classes.used.tolist(), found.coefficients, strict=True))
    assert by_number.pop(0) == pytest.approx(-1)
    assert by_number.pop(23) == pytest.approx(1)
    assert list(by_number.values()) == pytest.approx([0] * len(by_number))
