"""The paper's own ways to the posterior, against the inversion; and products of likelihoods."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference import (
    ErrorLaw,
    Law,
    Noises,
    count_posterior,
    expected_error,
    mass_within,
    monte_carlo,
    probability_calculation,
)

A = np.array([0.476923, 0.364486, -0.032710, 0.495327, -0.500072, 0.261538, 0.070093, 0.238390])
SCALES = np.array([20.0, 10.0, 20.0, 10.0, 10.0, 40.0, 40.0, 10.0])
LAW = ErrorLaw(A, Noises.of(Law.LAPLACE, SCALES))


def binned(reach: int) -> np.ndarray:
    """P(i − ½ < X ≤ i + ½), by inversion."""
    below = [LAW.cdf(i - 0.5).lower for i in range(-reach, reach + 2)]
    return np.diff(below)


def test_monte_carlo_is_within_its_error() -> None:
    """10⁶ samples: Σ (u − E u)² has the mean of Corollary 4.9 at most, and by Markov's inequality
    for its 4th moment exceeds 40 times that with a probability far below 10⁻⁶."""
    mass = monte_carlo(A, SCALES, 1_000_000, np.random.default_rng())
    assert mass.sum() == pytest.approx(1)
    error = ((mass - binned(len(mass) // 2)) ** 2).sum()
    assert error <= 40 * expected_error(mass, 1_000_000)
    assert mass_within(mass, 47) == pytest.approx(LAW.within(47.5).lower, abs=0.0015)


def test_probability_calculation_loses_at_most_what_it_says() -> None:
    for lost in (0.01, 1e-6):
        mass = probability_calculation(A, SCALES, lost)
        assert len(mass) % 2 == 1
        assert mass == pytest.approx(mass[::-1], abs=1e-12)
        assert 0 <= 1 - mass.sum() <= lost
        # Rounding each term to integers is an error of its own.
        assert ((mass - binned(len(mass) // 2)) ** 2).sum() < max(lost, 1e-3) ** 2
    steps = np.arange(len(mass)) - len(mass) // 2
    extra = (steps**2 * mass).sum() - LAW.variance
    assert extra == pytest.approx(8 / 12, abs=0.35)


def test_its_first_vector_has_the_length_of_the_papers_example() -> None:
    """2 ⌈0.48 · 20 · ln 800⌉ + 1 = 131: the example rounds 2 · 64.2 to 128 before it adds 1."""
    first = probability_calculation(np.array([0.48]), np.array([20.0]), 0.01 / 8)
    assert len(first) == 2 * math.ceil(0.48 * 20 * math.log(800)) + 1


def test_likelihoods_multiply() -> None:
    one, two = np.array([0.2, 0.5, 0.3]), np.array([0.1, 0.0, 0.6])
    assert count_posterior([one, two]) == pytest.approx([0.1, 0.0, 0.9])
    many = count_posterior([np.array([0.5, 0.25])] * 3000)
    assert many == pytest.approx([1, 0])
    for wrong in ([], [one, two[:2]], [-one], [np.array([1.0, 0]), np.array([0, 1.0])],
                  [np.array([math.nan, 1])]):  # fmt: skip
        with pytest.raises(InvalidParameterValue):
            count_posterior(wrong)


def test_wrong_settings_are_refused() -> None:
    for lost in (0.0, 1.0, math.nan):
        with pytest.raises(InvalidParameterValue):
            probability_calculation(A, SCALES, lost)
    with pytest.raises(InvalidParameterValue):
        monte_carlo(A, SCALES, 0, np.random.default_rng())
