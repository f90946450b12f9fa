"""When one estimate improves on another."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tallyveil.inference import DiscreteGaussianLaw, DiscreteLaplaceLaw, Noises
from tallyveil.knowledge.answers.estimate import Estimate, NoiseWeights, improves

CONFIDENCE = Fraction(95, 100)


def _estimate(rng: np.random.Generator) -> Estimate:
    """Of one noise or several, of either law."""
    number = int(rng.integers(1, 12))
    law = rng.choice([DiscreteLaplaceLaw, DiscreteGaussianLaw])
    noises = Noises.of(law, rng.choice([2.0, 20.0, 60.0], number))
    weights = NoiseWeights(rng.normal(size=number) / number, noises)
    return Estimate(0.0, np.arange(number), weights)


@pytest.mark.parametrize("seed", range(60))
def test_an_estimate_of_less_variance_improves_unless_its_interval_is_wider(seed: int) -> None:
    new, reported = (_estimate(np.random.default_rng([seed, n])) for n in range(2))
    better = new.variance < reported.variance
    no_wider = new.weights.error.half_width(CONFIDENCE) <= reported.half_width(CONFIDENCE)
    assert improves(new, reported, None, CONFIDENCE) == (better and no_wider)
