"""The pieces that estimates are made of, against dense matrices, integers and mpmath."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.inference import ErrorLaw, Law, Noises
from tallyveil.inference.combination import Combination, sum_bound
from tallyveil.inference.inverse_factor import InverseFactor
from tallyveil.inference.row_space import RowSpace
from tallyveil.inference.run_rows import RunRows

rows_of_seven = st.lists(
    st.lists(st.integers(-3, 3), min_size=7, max_size=7)
    | st.tuples(st.integers(0, 6), st.integers(1, 7), st.integers(-2, 2)).map(
        lambda r: [r[2] if r[0] <= j < r[0] + r[1] else 0 for j in range(7)]
    ),
    max_size=12,
)


@given(rows_of_seven, st.lists(st.integers(-9, 9), min_size=12, max_size=12))
def test_rows_of_runs_are_the_rows(given_rows: list[list[int]], values: list[int]) -> None:
    rows = RunRows(7)
    dense = np.array(given_rows, dtype=float).reshape(-1, 7)
    for row in dense:
        rows.append(row)
    assert (rows.written_out().toarray() == dense).all()
    x = np.arange(7.0) ** 2 - 5
    weights = np.array(values[: len(dense)], dtype=float)
    assert rows.times(x) == pytest.approx(dense @ x)
    assert rows.combined(weights) == pytest.approx(weights @ dense)


def test_long_sums_of_differences_are_as_good_as_sums_of_entries() -> None:
    """A sum of 200,000 steps, some of which cancel, against exact integers."""
    rng = np.random.default_rng(4)
    cells, scale = 100_000, 1 / 3
    starts = rng.integers(0, cells, 1000)
    rows = RunRows(cells)
    exact = np.zeros(cells, dtype=np.int64)
    weights = rng.integers(-(10**6), 10**6, 1000)
    for start, weight in zip(starts, weights, strict=True):
        row = np.zeros(cells)
        row[start : start + 500] = 1
        rows.append(row)
        exact[start : start + 500] += weight
    found = rows.combined(weights * scale)
    assert np.abs(found - exact * scale).max() <= 1e-15 * np.abs(weights * scale).sum()


def test_the_inverse_factor_solves_over_many_blocks() -> None:
    rng = np.random.default_rng(8)
    size = 150
    root = rng.normal(size=(size, size)) + 12 * np.eye(size)
    g = root @ root.T
    factor = InverseFactor()
    for k in range(size):
        half, solved = factor.halves(g[:k, k])
        factor.append(solved, math.sqrt(g[k, k] - half @ half))
        if k in (0, 62, 63, 64, 149):
            x = rng.normal(size=k + 1)
            assert factor.solve(x) == pytest.approx(np.linalg.solve(g[: k + 1, : k + 1], x))
            found = factor.halves(x)[0]
            expected = np.linalg.solve(np.linalg.cholesky(g[: k + 1, : k + 1]), x)
            assert found == pytest.approx(expected)
    for pivot in (0.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="positive"):
            factor.append(np.zeros(size), pivot)


@settings(max_examples=60)
@given(rows_of_seven, st.lists(st.integers(-3, 3), min_size=7, max_size=7))
def test_membership_is_that_of_exact_ranks(given_rows: list[list[int]], row: list[int]) -> None:
    space = RowSpace(7)
    dense = np.array(given_rows, dtype=float).reshape(-1, 7)
    for each in dense:
        space.take_up(each, space.coordinates(each))
    rank = np.linalg.matrix_rank(dense) if len(dense) else 0
    assert space.rank == rank
    with_row = np.linalg.matrix_rank(np.vstack([dense, row]))
    assert space.coordinates(np.array(row, dtype=float)).inside == (with_row == rank)


def log_phi(law: Law, scale: float, t: float) -> mpmath.mpf:
    """The characteristic functions from their definitions."""
    b, t = mpmath.mpf(scale), mpmath.mpf(t)
    if law is Law.LAPLACE:
        return -mpmath.log1p((b * t) ** 2)
    if law is Law.GAUSSIAN:
        return -((b * t) ** 2) / 2
    if law is Law.DISCRETE_LAPLACE:
        a = mpmath.e ** (-1 / b)
        return mpmath.log((1 - a) ** 2 / (1 - 2 * a * mpmath.cos(t) + a**2))
    reach = range(-math.ceil(14 * scale) - 1, math.ceil(14 * scale) + 2)
    weights = [mpmath.e ** (-(mpmath.mpf(k) ** 2) / (2 * b * b)) for k in reach]
    values = [w * mpmath.cos(k * t) for k, w in zip(reach, weights, strict=True)]
    return mpmath.log(mpmath.fsum(values) / mpmath.fsum(weights))


@pytest.mark.parametrize("law", list(Law))
def test_characteristic_and_moment_functions_are_those_of_the_definition(law: Law) -> None:
    """Forty terms of all sizes, so that some are summed up by their cumulants."""
    rng = np.random.default_rng(6)
    coefficients = 10 ** rng.uniform(-3, 0, 40)
    scales = rng.uniform(0.4, 6, 40)
    combination = Combination.of(coefficients, Noises.of(law, scales))
    points = np.geomspace(1e-4, 0.6, 15)
    found = combination.log_phi(points)
    with mpmath.workdps(40):
        for t, value in zip(points, found, strict=True):
            exact = sum(log_phi(law, s, a * t) for a, s in zip(coefficients, scales, strict=True))
            assert float(exact) == pytest.approx(value, abs=1e-12)
    rates = np.geomspace(1e-3, 0.999, 9) * min(combination.limit, 2.0)
    found = combination.cumulant_generating(rates)
    with mpmath.workdps(40):
        for rate, value in zip(rates, found, strict=True):
            exact = mpmath.mpf(0)
            for a, s in zip(coefficients, scales, strict=True):
                x, u = mpmath.mpf(a) * rate, 1 / mpmath.mpf(s)
                if law is Law.LAPLACE:
                    exact -= mpmath.log(1 - (s * x) ** 2)
                elif law is Law.DISCRETE_LAPLACE:
                    exact += 2 * mpmath.log(1 - mpmath.e**-u)
                    exact -= mpmath.log((1 - mpmath.e ** (x - u)) * (1 - mpmath.e ** (-x - u)))
                else:
                    exact += (s * x) ** 2 / 2
            assert float(exact) == pytest.approx(value, rel=1e-11)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(list(Law)), st.floats(0.02, 3), st.floats(0.3, 9)),
        min_size=1,
        max_size=60,
    ),
    st.floats(0.05, 6),
    st.floats(1, 4),
)
def test_what_is_called_dead_is_dead(
    terms: list[tuple[Law, float, float]], first: float, ratio: float
) -> None:
    laws, coefficients, scales = (list(column) for column in zip(*terms, strict=True))
    noises = Noises(np.array(laws, dtype=np.int8), np.array(scales))
    law = Combination.of(np.array(coefficients), noises)
    if law.dead_between(first, ratio * first):
        values = law.log_phi(np.linspace(first, ratio * first, 200))
        assert (values == -np.inf).all()


def test_the_bound_of_a_sum_holds_for_every_law() -> None:
    """Its own tail, at a miss that the inversion still sees."""
    for law in Law:
        for sizes in ([1.0], [1.0] * 50, [1.0, 1e-3, 1e-3]):
            scale = 4.0
            bound = sum_bound(np.array(sizes), 1e-4)
            error = ErrorLaw(np.array(sizes) / scale, Noises.of(law, [scale] * len(sizes)))
            assert error.within(bound).lower >= 1 - 1e-4
            assert error.within(bound / 6).upper < 1 - 1e-4
    assert sum_bound(np.zeros(3), 1e-4) == 0
