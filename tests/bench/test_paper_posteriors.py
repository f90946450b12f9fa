"""The paper's two ways to a posterior against the inversion, and that against a closed form."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from bench.paper_posteriors import (
    LaplaceSum,
    expected_error,
    monte_carlo,
    probability_calculation,
)

A = np.array([0.476923, 0.364486, -0.032710, 0.495327, -0.500072, 0.261538, 0.070093, 0.238390])
SCALES = np.array([20.0, 10.0, 20.0, 10.0, 10.0, 40.0, 40.0, 10.0])
LAW = LaplaceSum(A, SCALES)


def binned(reach: int) -> np.ndarray:
    """P(i − ½ < X ≤ i + ½), by inversion."""
    inside = np.array([LAW.within(i + 0.5).lower for i in range(reach + 1)])
    right = np.diff(inside) / 2
    return np.concatenate([right[::-1], inside[:1], right])


def laplace_tail(scales: list[float], h: float) -> float:
    """P(|X| > h) of a sum of Laplace noises of distinct scales, by partial fractions:
    Σ_i e^{−h/s_i} Π_{j≠i} s_i²/(s_i² − s_j²)."""
    with mpmath.workdps(120):
        s = [mpmath.mpf(x) for x in scales]
        total = mpmath.mpf(0)
        for i, own in enumerate(s):
            weight = mpmath.e ** (-mpmath.mpf(h) / own)
            for other in s[:i] + s[i + 1 :]:
                weight *= own**2 / (own**2 - other**2)
            total += weight
        return float(total)


@pytest.mark.parametrize("scales", [[3.0], [3.0, 1e-2], [3.0, 2.9, 0.4], [9.5, 7, 5, 3, 2, 1]])
def test_the_inversion_has_the_closed_form(scales: list[float]) -> None:
    law = LaplaceSum(np.ones(len(scales)), np.array(scales))
    for at in (0.1, 1.0, 2.5):
        h = at * math.sqrt(law.variance)
        bounds = law.within(h)
        assert bounds.lower - 1e-12 <= 1 - laplace_tail(scales, h) <= bounds.upper + 1e-12
        assert bounds.upper - bounds.lower <= 1e-9
    assert laplace_tail(scales, law.half_width(0.95)) == pytest.approx(0.05, abs=1e-9)


def test_the_example_of_the_paper_in_40_digits() -> None:
    """BAYES §3 and §5.2; by partial fractions it is 47.38333 and P(θ > 0) = 0.961904."""
    assert LAW.half_width(0.95) == pytest.approx(47.38333, rel=1e-5)
    assert (1 + LAW.within(42.0142).lower) / 2 == pytest.approx(0.961904, abs=1e-5)


def test_monte_carlo_is_within_its_error() -> None:
    """10⁶ samples: Σ (u − E u)² has the mean of Corollary 4.9 at most, and by Markov's inequality
    for its 4th moment exceeds 40 times that with a probability far below 10⁻⁶."""
    mass = monte_carlo(A, SCALES, 1_000_000, np.random.default_rng())
    assert mass.sum() == pytest.approx(1)
    error = ((mass - binned(len(mass) // 2)) ** 2).sum()
    assert error <= 40 * expected_error(mass, 1_000_000)
    middle = len(mass) // 2
    within = mass[middle - 47 : middle + 48].sum()
    assert within == pytest.approx(LAW.within(47.5).lower, abs=0.0015)


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
