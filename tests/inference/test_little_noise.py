"""Noise that is 0 but for a chance no float can tell: the laws of sums with it, and top-ups."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.inference import (
    LAWS,
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    ErrorLaw,
    NoiseLaw,
    Noises,
    combined,
    top_up,
)

Family = type[NoiseLaw]
DISCRETE = [DiscreteLaplaceLaw, DiscreteGaussianLaw]
SCALES = [0.02, 1 / 372, 1 / 745, 1 / 750, 1e-5, 5e-324]


@pytest.mark.parametrize("law", DISCRETE)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("weights", [[1.0, 1.0], [0.3, 0.7], [1e-6, 1.0], [1.0] * 40])
def test_sums_of_them_are_0_but_for_a_chance_of_almost_nothing(
    law: Family, scale: float, weights: list[float]
) -> None:
    error = ErrorLaw(np.array(weights), Noises.of(law, [scale] * len(weights)))
    assert error.half_width(Fraction(19, 20)) <= 1e-3
    assert error.half_width(1 - Fraction(1, 10**9)) < 4  # Chernoff's bound
    assert 0 < error.variance < 1e-19
    assert error.within(0.9).upper >= error.within(0.9).lower >= 1 - 1e-8
    assert error.outer_half_width(Fraction(19, 20)) < 2


@pytest.mark.parametrize("law", DISCRETE)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("other", LAWS)
def test_beside_other_noise_they_do_not_matter(
    law: Family, scale: float, other: type[NoiseLaw]
) -> None:
    alone = ErrorLaw(np.ones(1), Noises.of(other, 3.0))
    both = ErrorLaw(np.ones(2), Noises.concatenated([Noises.of(other, 3.0), Noises.of(law, scale)]))
    assert both.half_width(0.9) == pytest.approx(alone.half_width(0.9), abs=0.02)
    assert both.half_width(0.9) >= alone.half_width(0.9) - 1e-9


@pytest.mark.parametrize("law", DISCRETE)
@pytest.mark.parametrize("scale", SCALES)
def test_what_is_known_so_well_needs_no_top_up_and_can_have_one(law: Family, scale: float) -> None:
    known = ErrorLaw(np.array([0.5, 0.5]), Noises.of(law, [scale, scale]))
    assert top_up(known, 1.0, 0.95, law) is None
    found = combined(known, law, scale)
    assert 0 < found.variance < known.variance
    assert math.isfinite(found.half_width(0.95))
