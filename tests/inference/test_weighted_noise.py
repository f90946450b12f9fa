"""Characteristic and moment functions of sums of noises, against mpmath."""

from __future__ import annotations

import functools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.inference import (
    LAWS,
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    ErrorLaw,
    NoiseLaw,
    Noises,
)
from tallyveil.inference.laws.weighted_noise import WeightedNoise, sum_bound

Family = type[NoiseLaw]


def log_phi(law: Family, scale: float, t: mpmath.mpc | float) -> mpmath.mpc:
    """ln E e^{itK} from the definitions, and ln E e^{xK} at t = −ix."""
    b, t = mpmath.mpf(scale), mpmath.mpmathify(t)
    if law is DiscreteLaplaceLaw:
        a = mpmath.e ** (-1 / b)
        return mpmath.log((1 - a) ** 2 / (1 - 2 * a * mpmath.cos(t) + a**2))
    weights = _gaussian_weights(scale)
    twice, before, now = 2 * mpmath.cos(t), mpmath.cos(t), mpmath.mpf(1)  # cos -t, cos 0
    total = -weights[0]
    for weight in weights:
        total += 2 * weight * now
        before, now = now, twice * now - before
    return mpmath.log(total / (2 * mpmath.fsum(weights) - weights[0]))


@functools.cache
def _gaussian_weights(scale: float) -> list[mpmath.mpf]:
    """Of 0, 1, …, at the precision of the first call."""
    b = mpmath.mpf(scale)
    return [mpmath.e ** (-(mpmath.mpf(k) ** 2) / (2 * b * b)) for k in range(math.ceil(14 * b) + 2)]


@pytest.mark.parametrize("law", LAWS)
def test_characteristic_and_moment_functions_are_those_of_the_definition(
    law: Family,
) -> None:
    """Forty terms of all sizes, so that some are summed up by their cumulants."""
    rng = np.random.default_rng(6)
    coefficients = 10 ** rng.uniform(-3, 0, 40)
    scales = rng.uniform(0.4, 6, 40)
    combination = WeightedNoise.of(coefficients, Noises.of(law, scales))
    even = np.arange(300) * 2e-3
    for points in np.geomspace(1e-4, 0.6, 15), even, even + 1e-4:
        found = combination.log_phi(points)
        with mpmath.workdps(40):
            for t, value in [*zip(points, found, strict=True)][:: len(points) // 5]:
                terms = zip(coefficients, scales, strict=True)
                exact = sum(log_phi(law, s, a * t) for a, s in terms)
                assert float(exact) == pytest.approx(value, abs=1e-12)
    rates = np.geomspace(1e-3, 0.999, 9) * min(combination.limit, 2.0)
    found = combination.cumulant_generating(rates)
    with mpmath.workdps(40):
        for rate, value in zip(rates, found, strict=True):
            exact = mpmath.mpf(0)
            for a, s in zip(coefficients, scales, strict=True):
                x = mpmath.mpf(a) * rate
                if law is DiscreteGaussianLaw:  # a bound of ln E e^{xK}
                    exact += (s * x) ** 2 / 2
                else:
                    exact += log_phi(law, s, mpmath.mpc(0, -x)).real
            assert float(exact) == pytest.approx(value, rel=1e-11)


@given(
    st.lists(
        st.tuples(st.sampled_from(LAWS), st.floats(0.02, 3), st.floats(0.3, 9)),
        min_size=1,
        max_size=60,
    ),
    st.floats(0.05, 6),
    st.floats(1, 4),
)
def test_what_is_called_dead_is_dead(
    terms: list[tuple[Family, float, float]], first: float, ratio: float
) -> None:
    laws, coefficients, scales = (list(column) for column in zip(*terms, strict=True))
    noises = Noises(np.array([law.number for law in laws], dtype=np.int8), np.array(scales))
    law = WeightedNoise.of(np.array(coefficients), noises)
    if law.dead_between(np.array([first]), np.array([ratio * first])).all():
        values = law.log_phi(np.linspace(first, ratio * first, 200))
        assert (values == -np.inf).all()


def test_the_bound_of_a_sum_holds_for_every_law() -> None:
    """Its own tail, at a miss that the inversion still sees."""
    for law in LAWS:
        for sizes in ([1.0], [1.0] * 50, [1.0, 1e-3, 1e-3]):
            scale = 4.0
            bound = sum_bound(np.array(sizes), 1e-4)
            error = ErrorLaw(np.array(sizes) / scale, Noises.of(law, [scale] * len(sizes)))
            assert error.within(bound).lower >= 1 - 1e-4
            assert error.within(bound / 6).upper < 1 - 1e-4
    assert sum_bound(np.zeros(3), 1e-4) == 0
