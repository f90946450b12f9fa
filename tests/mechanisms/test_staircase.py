"""Staircase noise: its law by summing it up, its privacy in whole levels, its draws by χ²."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference import DiscreteLaplaceLaw
from tallyveil.mechanisms.noise.staircase import Staircase
from tests.goodness import surprise

epsilons = st.floats(0.3, 8).map(lambda value: f"{value:.3f}")


@st.composite
def staircases(draw: st.DrawFn) -> Staircase:
    sensitivity = draw(st.integers(1, 12))
    return Staircase(sensitivity, draw(epsilons), draw(st.integers(1, sensitivity)))


@given(staircases())
def test_a_move_within_the_sensitivity_changes_at_most_one_level(law: Staircase) -> None:
    reach = 4 * law.sensitivity
    for noise in range(-reach, reach + 1):
        for move in range(1, law.sensitivity + 1):
            assert abs(law.level(noise) - law.level(noise + move)) <= 1
        assert abs(law.level(noise) - law.level(noise + 3 * law.sensitivity)) <= 3


@given(staircases())
def test_the_law_adds_up(law: Staircase) -> None:
    reach = int(law.sensitivity * (40 * law.scale + 2))
    p = np.array([law.probability(k) for k in range(reach)])
    assert 2 * p.sum() - p[0] == pytest.approx(1, abs=1e-12)
    assert law.variance == pytest.approx(2 * (p * np.arange(reach) ** 2.0).sum(), rel=1e-11)
    for confidence in (0.5, 0.9, 0.999):
        within = 2 * p.cumsum() - p[0]
        # Where rounding decides, either is right.
        assert law.half_width(confidence) in {
            int(np.argmax(within >= confidence - slack)) for slack in (1e-12, -1e-12)
        }


def mean_absolute(law: Staircase) -> float:
    """E|K|."""
    reach = int(law.sensitivity * (40 * law.scale + 2))
    return 2 * sum(k * law.probability(k) for k in range(1, reach))


@settings(max_examples=25)
@given(st.integers(1, 9), epsilons)
def test_the_default_step_makes_the_least_error(sensitivity: int, epsilon: str) -> None:
    least = min(
        mean_absolute(Staircase(sensitivity, epsilon, r)) for r in range(1, sensitivity + 1)
    )
    assert mean_absolute(Staircase(sensitivity, epsilon)) == pytest.approx(least, rel=1e-12)


@given(epsilons)
def test_at_sensitivity_one_it_is_discrete_laplace(epsilon: str) -> None:
    law = Staircase(1, epsilon)
    a = math.exp(-float(law.epsilon))
    for noise in (-3, 0, 1, 7):
        expected = (1 - a) / (1 + a) * a ** abs(noise)
        assert law.probability(noise) == pytest.approx(expected, rel=1e-12)
    for confidence in (0.5, 0.95, 0.999):
        plain = DiscreteLaplaceLaw(law.scale)
        assert law.half_width(confidence) == plain.half_width(confidence)


def test_it_beats_laplace_noise_where_sensitivity_and_epsilon_are_large() -> None:
    law = Staircase(20, 5)
    laplace = 20 / 5
    assert mean_absolute(law) < 0.5 * laplace


@pytest.mark.parametrize(("sensitivity", "epsilon", "step"), [(1, "0.7", 1), (7, 2, 3), (7, 2, 7)])
def test_draws_have_the_law(sensitivity: int, epsilon: str, step: int) -> None:
    """χ² on 10 000 draws; a sound sampler fails one run in 10⁷."""
    law = Staircase(sensitivity, epsilon, step)
    reach = math.ceil(30 * sensitivity * law.scale)
    probabilities = {k: law.probability(k) for k in range(-reach, reach + 1)}
    assert surprise(law.draw(10_000), probabilities) > 1e-7


@given(st.fractions(Fraction(1, 10**9), 10**6))
def test_the_cost_is_never_more_than_asked_for(epsilon: Fraction) -> None:
    law = Staircase(3, epsilon)
    assert epsilon * (1 - Fraction(1, 2**50)) <= law.epsilon <= epsilon


def test_parameters_are_checked() -> None:
    for epsilon in (math.nan, math.inf, -1, 0, "x", "1e-400", "1e400"):
        with pytest.raises(InvalidParameterValue):
            Staircase(2, epsilon)
    wrong: Any
    for wrong in (0, -1, 1.5, True, 10**7, math.nan):
        with pytest.raises(InvalidParameterValue, match="sensitivity"):
            Staircase(wrong, 1)
    for wrong in (0, 3, 1.0):
        with pytest.raises(InvalidParameterValue, match="step"):
            Staircase(2, 1, wrong)
    for confidence in (math.nan, 0, 1, 2):
        with pytest.raises(InvalidParameterValue, match="confidence"):
            Staircase(2, 1).half_width(confidence)
