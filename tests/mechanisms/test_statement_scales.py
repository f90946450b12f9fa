"""(ε, δ) for one statement with discrete Gaussian noise, against sums over what can come out."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import get_args

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms import (
    Adjacency,
    Neighbours,
    StatementCalibration,
    mechanism,
    statement_scales,
)
from tallyveil.mechanisms.noise.statement_scales import CALIBRATIONS, analytic_scale
from tallyveil.workload.workload import Workload
from tests.matrices import column

GAUSSIAN = mechanism("gaussian")
ADD_REMOVE = Adjacency("add_remove")


def workload(*dense: list[list[int]]) -> Workload:
    return Workload("t", tuple(map(column, dense)))


def exact_delta(epsilon: float, scales: list[float], move: list[int]) -> float:
    """Σ_x max(0, P(x) − e^ε P(x − move)) for independent discrete Gaussians, x within 11 σ."""
    axes = [np.arange(-math.ceil(11 * s) - 9, math.ceil(11 * s) + 10) for s in scales]
    here, there = np.ones(()), np.ones(())
    for axis, scale, step in zip(axes, scales, move, strict=True):
        weights = np.exp(-((axis / scale) ** 2) / 2)
        moved = np.exp(-(((axis - step) / scale) ** 2) / 2)
        here = np.multiply.outer(here, weights / weights.sum())
        there = np.multiply.outer(there, moved / weights.sum())
    return float(np.maximum(0, here - math.exp(epsilon) * there).sum())


def moves(w: Workload, neighbours: Neighbours) -> list[list[int]]:
    """What one record can move the rows by, distinct up to the sign."""
    full = np.pad(np.vstack([c.factors[0].dense() for c in w.columns]), ((0, 0), (0, 1)))
    cells = range(full.shape[1])
    pairs = [(j, full.shape[1] - 1) for j in cells]
    if neighbours == "replace":
        pairs = list(itertools.combinations(cells, 2))
    return [list(move) for move in {tuple((full[:, j] - full[:, k]).tolist()) for j, k in pairs}]


@pytest.mark.parametrize("calibration", CALIBRATIONS)
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize(
    "dense",
    [
        [[[1, 1]]],
        [[[3, 1]]],
        [[[1, 0], [0, 1]]],
        [[[1, 1]], [[0, 1]]],
        [[[2, 1]], [[1, 1]]],
    ],
)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-3), (1.0, 1e-6), (2.5, 1e-5)])
@pytest.mark.parametrize("like", [None, [3.0, 1.0]])
def test_every_move_of_a_record_is_within_epsilon_and_delta(
    calibration: StatementCalibration,
    neighbours: Neighbours,
    dense: list[list[list[int]]],
    epsilon: float,
    delta: float,
    like: list[float] | None,
) -> None:
    w = workload(*dense)
    some = None if like is None else like[: len(w.columns)]
    scales = statement_scales(w, epsilon, delta, Adjacency(neighbours), calibration, some)
    by_row = [s for c, s in zip(w.columns, scales, strict=True) for _ in range(c.height)]
    for move in moves(w, neighbours):
        # Either of the two tables may be the one that is there.
        for way in (move, [-step for step in move]):
            assert exact_delta(epsilon, by_row, way) <= delta * (1 + 1e-9)


@given(
    st.floats(0.05, 6),
    st.floats(1e-9, 0.2),
    st.integers(1, 4),
    st.sampled_from(["zcdp", "analytic"]),
)
def test_one_count_is_within_epsilon_and_delta_and_not_by_far(
    epsilon: float, delta: float, step: int, calibration: StatementCalibration
) -> None:
    (scale,) = statement_scales(workload([[step]]), epsilon, delta, ADD_REMOVE, calibration)
    assert exact_delta(epsilon, [scale], [step]) <= delta * (1 + 1e-9)
    if calibration == "analytic":
        (by_rho,) = statement_scales(workload([[step]]), epsilon, delta, ADD_REMOVE, "zcdp")
        continuous = step * analytic_scale(epsilon, delta)
        assert continuous * (1 - 1e-9) <= scale <= by_rho
        # τ² is below 1 up to N = 10⁴ rows at ε = 0.05.
        assert scale <= max(math.hypot(continuous * 1.01, 1), continuous * 1.01)


@pytest.mark.parametrize(("s", "tau"), [(0.2, 0.7), (0.3, 0.8), (0.8, 0.9), (1.5, 0.7)])
def test_rounded_continuous_noise_is_discrete_noise_within_kappa(s: float, tau: float) -> None:
    """The module's lemma: |ln P(Z = z) − ln P(X = z)| ≤ κ. The trapezium rule is exact for such
    smooth integrands to far below κ, which is from 3e-4 to 6e-7.
    """
    kappa, wide = 5 * math.exp(-2 * (math.pi * tau) ** 2), math.hypot(s, tau)
    y, width = np.linspace(-12 * s, 12 * s, 20_001, retstep=True)
    z = np.arange(-80, 81)
    beside = np.exp(-((z[:, None] - y) ** 2) / (2 * tau**2))
    density = np.exp(-(y**2) / (2 * s**2)) / (s * math.sqrt(2 * math.pi))
    drawn = (density * beside / beside.sum(axis=0)).sum(axis=1) * width
    exact = np.exp(-(z**2) / (2 * wide**2))
    near = np.abs(z) <= 5 * wide
    gap = np.abs(np.log(drawn[near]) - np.log(exact[near] / exact.sum())).max()
    assert gap <= kappa
    assert s > 0.3 or gap > kappa / 100


def test_the_rules_are_what_they_are_said_to_be() -> None:
    """MATH §6's values: 4.22468 by the theorem and 4.84909 by Lemma 13 at ε = 1, δ = 10⁻⁶."""
    one = workload([[1]])

    def scale(rule: StatementCalibration) -> float:
        return statement_scales(one, 1, "1e-6", ADD_REMOVE, rule)[0]

    assert scale("zcdp") == pytest.approx(4.53088, abs=1e-5)
    assert scale("subspace") == pytest.approx(4.84909, abs=1e-5)
    tau2 = math.log(10_000) / (2 * math.pi**2)
    assert scale("analytic") == pytest.approx(math.hypot(4.22468, math.sqrt(tau2)), rel=2e-3)


def test_what_is_charged_is_the_scales_rho() -> None:
    w, relation = workload([[1, 1]], [[50, 7]]), Adjacency("add_remove", 3)
    for rule in get_args(StatementCalibration):
        scales = statement_scales(w, 1, "1e-6", relation, rule)
        exact = 9 * sum(
            Fraction(d) ** 2 / (2 * Fraction(s) ** 2) for d, s in zip((1, 50), scales, strict=True)
        )
        assert GAUSSIAN.loss(w, scales, relation, "rho").bound == math.ceil(exact * 10**12)


def test_a_column_that_no_record_moves_stays_exact() -> None:
    for rule in get_args(StatementCalibration):
        scales = statement_scales(workload([[1, 0]], [[0, 0]]), 1, "1e-6", ADD_REMOVE, rule)
        assert scales[0] > 4
        assert scales[1] == 0


def test_the_constant_of_the_lemma_is_refused_where_it_does_not_suffice() -> None:
    """By mpmath's normal law: at ε = 1, δ = 10⁻¹² the paper's σ = 6.35 has a δ of 4e-12."""
    c = (1 + mpmath.sqrt(1 + mpmath.log(mpmath.mpf(10) ** 12))) / 1
    delta = mpmath.ncdf(1 / (2 * c) - c) - mpmath.e * mpmath.ncdf(-1 / (2 * c) - c)
    assert delta > mpmath.mpf(10) ** -12
    for epsilon, least in ((1, "1e-12"), (5, "1e-6"), (20, "0.01")):
        with pytest.raises(InvalidParameterValue, match="constant of Lemma 13 is too small"):
            statement_scales(workload([[1]]), epsilon, least, ADD_REMOVE, "subspace")


@pytest.mark.parametrize("calibration", [*CALIBRATIONS, "classic"])
def test_whatever_is_asked_has_a_scale_or_is_refused(calibration: StatementCalibration) -> None:
    epsilons = ["1e-15", "1e-9", 1e-4, 1, 50, 1e6, 1e14, math.nan, 0, -1]
    deltas = ["1e-99", "1e-6", "0.999999", 0, 1, math.nan]
    for epsilon, delta in itertools.product(epsilons, deltas):
        try:
            (scale,) = statement_scales(workload([[1]]), epsilon, delta, ADD_REMOVE, calibration)
        except InvalidParameterValue:
            continue
        assert calibration != "classic", (epsilon, delta)
        assert 0 < float(delta) < 1, (epsilon, delta)
        assert 0 < scale < 2**52, (epsilon, delta)
