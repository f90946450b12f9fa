"""OpenDP's samplers as an oracle: what they draw has the law that we state, and what we draw too.

OpenDP (Canonne, Kamath and Steinke 2020, "The Discrete Gaussian for Differential Privacy",
algorithms 1 to 3) draws the same laws by other means: rejection from exact Bernoulli trials, where
`exact_draws` bounds tables of weights. Draws are not seeded; a sound pair of samplers fails one of
these tests once in 10^8 runs.
"""

from __future__ import annotations

import numpy as np
import opendp.prelude as dp
import pytest

from tallyveil.mechanisms import law_of
from tallyveil.mechanisms.noise.additive import Additive
from tallyveil.mechanisms.noise.gaussian import DiscreteGaussian
from tallyveil.mechanisms.noise.laplace import DiscreteLaplace
from tests.goodness import surprise

DRAWS = 10_000
ALARM = 1e-9  # of each of twelve comparisons
SCALES = [0.3, 3.5, 40.0]
OURS: dict[str, Additive] = {"laplace": DiscreteLaplace(), "gaussian": DiscreteGaussian()}


def theirs(name: str, scale: float) -> list[int]:
    """Noise that OpenDP adds to as many zeros."""
    dp.enable_features("contrib")
    zeros = dp.vector_domain(dp.atom_domain(T="i64"))
    if name == "laplace":
        add = dp.m.make_laplace(zeros, dp.l1_distance(T="i64"), scale=scale)
    else:
        add = dp.m.make_gaussian(zeros, dp.l2_distance(T="f64"), scale=scale)
    return list(add([0] * DRAWS))


def stated(name: str, scale: float) -> dict[int, float]:
    law = law_of(name, scale)
    assert law is not None
    reach = law.half_width(1 - 1e-12)
    steps = np.arange(-reach, reach + 1)
    return dict(zip(steps.tolist(), np.exp(law.log_mass(steps.astype(float))), strict=True))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", OURS)
def test_both_samplers_draw_from_the_stated_law(name: str, scale: float) -> None:
    law = stated(name, scale)
    assert sum(law.values()) == pytest.approx(1)
    assert surprise(theirs(name, scale), law) > ALARM
    assert surprise(np.asarray(OURS[name].draw(scale, DRAWS)).tolist(), law) > ALARM


@pytest.mark.parametrize("name", OURS)
def test_a_scale_that_is_a_seventh_off_is_noticed(name: str) -> None:
    assert surprise(theirs(name, 3.0), stated(name, 3.5)) < ALARM
