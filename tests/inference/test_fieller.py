"""Fieller's sets against brute force: every pair of noises, and every quotient in a grid."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from tallyveil.inference import DiscreteGaussianLaw, DiscreteLaplaceLaw, Fieller, Noises, outward
from tests.pairs import pairs_first

LAWS = (DiscreteLaplaceLaw, DiscreteGaussianLaw)
MOMENTS = ([1.0, 0.0], [1.0, 1.0])  # Σ (v − lo), and the number of records times hi − lo
APART = ([1.0, 0.0], [0.0, 1.0])
CONFIDENCES = (Fraction(4, 5), Fraction(19, 20))


def masses(law: type, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """All values of one noise with more than 1e-9 of probability, and their probabilities."""
    reach = math.ceil(20 * scale) + 2 if law is DiscreteLaplaceLaw else math.ceil(7 * scale) + 4
    steps = np.arange(-reach, reach + 1)
    weights = np.exp(law(scale).log_mass(steps.astype(float)))
    return steps, weights / weights.sum()


def fieller(top: list[float], bottom: list[float], law: type, scale: float) -> Fieller:
    return Fieller(np.array(top), np.array(bottom), Noises.of(law, [scale] * len(top)))


@pytest.mark.parametrize(
    ("scale", "law", "weights"), pairs_first([0.4, 1.0, 2.0, 5.0, 10.0], LAWS, [MOMENTS, APART])
)
def test_each_quotient_is_held_with_the_confidence(
    law: type, scale: float, weights: tuple[list[float], list[float]]
) -> None:
    """For the truth N = 60 and S = rN, all pairs of noises are tried: the probability that the ends
    hold r is at least the confidence, and no further above it than a step of noise is likely."""
    own = fieller(*weights, law, scale)
    steps, chances = masses(law, scale)
    both = np.outer(chances, chances).ravel()
    top, bottom = ((w[0] * steps[:, None] + w[1] * steps[None, :]).ravel() for w in weights)
    n = 60 * max(1, scale)
    for confidence in CONFIDENCES:
        for r in (0.0, 0.25, 1 / 3, 0.41, 0.499, 0.5, 0.731, 1.0, 1.7, -2.3):
            low, high = own.ends(r * n + top, n + bottom, confidence)
            held = float(both[(low <= r + 1e-9) & (r - 1e-9 <= high)].sum())
            assert held >= confidence - Fraction(1, 10**7), (confidence, r)
            if scale >= 5:
                assert held <= float(confidence) + 0.4 * (1 - float(confidence)), (confidence, r)


def test_the_set_is_what_brute_force_finds() -> None:
    """In a grid of quotients, those that the exact half-width accepts are between the ends, which
    are no further out than the allowance for the steps of the noise explains."""
    law, scale, confidence = DiscreteLaplaceLaw, 10.0, Fraction(19, 20)
    own = fieller(*MOMENTS, law, scale)
    steps, chances = masses(law, scale)
    x, y = np.repeat(steps, len(steps)), np.tile(steps, len(steps))
    both = np.outer(chances, chances).ravel()
    tops, bottoms = np.array([40.0, 210.0, -35.0]), np.array([150.0, 260.0, 120.0])
    low, high = own.ends(tops, bottoms, confidence)
    for number, (top, bottom) in enumerate(zip(tops, bottoms, strict=True)):
        wide = high[number] - low[number]
        accepted = []
        for r in np.linspace(low[number] - wide / 4, high[number] + wide / 4, 121):
            inside = np.abs(x - r * (x + y)) <= abs(top - r * bottom) - 1e-9
            if both[inside].sum() < confidence:
                accepted.append(r)
        assert low[number] <= min(accepted)
        assert max(accepted) <= high[number]
        assert max(accepted) - min(accepted) >= 0.95 * wide


def test_normal_errors_have_fiellers_closed_form() -> None:
    """|S − rN| ≤ z σ √(1 + r²) is a quadratic inequality, and the noise is nearly normal."""
    sigma, z = 1000.0, stats.norm.ppf(0.975)
    own = fieller(*APART, DiscreteGaussianLaw, sigma)
    tops, bottoms = np.array([5e4, -2e4, 3e5, 0.0]), np.array([9e3, 4e4, 2.5e3, 7e3])
    low, high = own.ends(tops, bottoms, Fraction(19, 20))
    square = (z * sigma) ** 2
    a, b, c = bottoms**2 - square, -2 * tops * bottoms, tops**2 - square
    root = np.sqrt(b**2 - 4 * a * c)
    ends = (-b - root) / (2 * a), (-b + root) / (2 * a)
    assert (low <= ends[0]).all()
    assert (high >= ends[1]).all()
    assert (high - low) == pytest.approx(ends[1] - ends[0], rel=5e-3)


def test_unbounded_exact_and_dependent_answers() -> None:
    own = fieller(*APART, DiscreteLaplaceLaw, 5.0)
    low, high = own.ends(np.array([9.0, 9.0]), np.array([10.0, -10.0]), Fraction(19, 20))
    assert np.isinf([low, high]).all()
    exact = Fieller(np.array([2.0]), np.array([0.0]), Noises.of(DiscreteLaplaceLaw, [5.0]))
    half = 2 * DiscreteLaplaceLaw(5.0).half_width(Fraction(19, 20))
    low, high = exact.ends(np.array([50.0, 50.0]), np.array([-4.0, 0.0]), Fraction(19, 20))
    assert (low[0], high[0]) == pytest.approx(((-50 - half) / 4, (-50 + half) / 4), rel=1e-8)
    assert np.isnan([low[1], high[1]]).all()
    same = Fieller(np.array([3.0]), np.array([1.0]), Noises.of(DiscreteLaplaceLaw, [5.0]))
    low, high = same.ends(np.array([300.0]), np.array([100.0]), Fraction(19, 20))
    assert (low[0], high[0]) == pytest.approx((3, 3), abs=1e-6)
    nothing = Fieller(np.zeros(0), np.zeros(0), Noises.concatenated([]))
    assert nothing.ends(np.array([6.0]), np.array([4.0]), Fraction(1, 2)) == ([1.5], [1.5])


def test_ends_are_rounded_outward_and_hold_what_is_reported() -> None:
    low, high = np.array([1.23456789, -5.0, 2.0, 1e9]), np.array([2.3456789, 7.0, 2.0, 1e9 + 5])
    least, most = outward(low, high, np.array([2.4, np.nan, 2.0, 1e9]))
    assert least.tolist() == pytest.approx([1.2345, -5.001, 2.0, 1e9 - 1e-4], rel=1e-12, abs=2e-3)
    assert (least <= low).all()
    assert (most >= np.fmax(high, [2.4, 0, 0, 0])).all()
    assert (most - least <= (np.fmax(high, [2.4, 0, 0, 0]) - low) * 1.0003).all()
