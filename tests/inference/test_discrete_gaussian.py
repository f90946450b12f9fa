"""The discrete Gaussian law against sums of its terms, and mixed sums against convolution."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference import DiscreteGaussianLaw, DiscreteLaplaceLaw, ErrorLaw, NoiseLaw

CONFIDENCES = [0.5, 0.9, 0.95, 0.99, 0.999]
laws = st.one_of(
    st.floats(0.05, 12).map(DiscreteGaussianLaw), st.floats(0.05, 12).map(DiscreteLaplaceLaw)
)


def probabilities(law: NoiseLaw) -> npt.NDArray[np.float64]:
    """P(K = k), k = −m … m."""
    k = np.arange(-math.ceil(60 * law.scale) - 3, math.ceil(60 * law.scale) + 4, dtype=np.float64)
    if isinstance(law, DiscreteGaussianLaw):
        weights = np.exp(-(k**2) / (2 * law.scale**2))
    else:
        weights = np.exp(-np.abs(k) / law.scale)
    return weights / weights.sum()


def mass(chance: npt.NDArray[np.float64], half: int) -> float:
    middle = len(chance) // 2
    return math.fsum(chance[max(0, middle - half) : middle + half + 1])


@given(st.floats(0.05, 60), st.integers(0, 300))
def test_the_tail_is_the_sum_of_its_terms(scale: float, half: int) -> None:
    k = np.arange(half + 1, half + 3 + math.ceil(60 * scale), dtype=np.float64)
    whole = 1 / probabilities(DiscreteGaussianLaw(scale)).max()
    exact = 2 * float(np.exp(-((k / scale) ** 2) / 2).sum()) / whole
    assert exact <= DiscreteGaussianLaw(scale).tail(half) <= exact * (1 + 1e-10) + 1e-300


@pytest.mark.parametrize("scale", [4097.0, 1e6, 2.0**40])
@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_large_scales_follow_the_normal_law(scale: float, confidence: float) -> None:
    half = DiscreteGaussianLaw(scale).half_width(confidence)
    normal = float(norm.isf((1 - confidence) / 2)) * scale
    assert normal - 1 <= half <= normal * (1 + 1e-11) + 2
    assert DiscreteGaussianLaw.scale_for_half_width(half, confidence) == pytest.approx(
        scale, rel=1e-3
    )


@given(st.lists(laws, min_size=2, max_size=5), st.sampled_from(CONFIDENCES))
def test_mixed_sums_have_the_least_half_width(noises: list[NoiseLaw], confidence: float) -> None:
    total = np.ones(1)
    for law in noises:
        total = np.convolve(total, probabilities(law))
    half = math.floor(ErrorLaw.of_sum(Counter(noises)).half_width(confidence))
    assert mass(total, half) >= confidence - 1e-12
    assert half == 0 or mass(total, half - 1) < confidence + 1e-4 * (1 - confidence)


@given(laws, st.floats(0, math.pi))
def test_the_characteristic_function_is_the_sum_of_cosines(law: NoiseLaw, point: float) -> None:
    chance = probabilities(law)
    k = np.arange(len(chance)) - len(chance) // 2
    expected = float((chance * np.cos(point * k)).sum())
    assert float(law.phi(np.array([point]))[0]) == pytest.approx(expected, abs=1e-12)


@given(laws, st.floats(0.01, 0.99))
def test_the_moment_bound_is_one(law: NoiseLaw, share: float) -> None:
    rate = share * min(law.widest_rate, 3 / law.scale)
    chance = probabilities(law)
    k = np.arange(len(chance)) - len(chance) // 2
    with np.errstate(over="ignore"):
        expected = math.log(math.fsum(chance * np.exp(rate * k)))
    assert float(law.log_moment(np.array([rate]))[0]) >= expected - 1e-6


@pytest.mark.parametrize(
    ("half", "confidence"), [(-1, 0.9), (2**53, 0.9), (3, 0.0), (3, 1.0), (3, math.nan)]
)
def test_what_makes_no_sense_is_refused(half: int, confidence: float) -> None:
    with pytest.raises(InvalidParameterValue):
        DiscreteGaussianLaw.scale_for_half_width(half, confidence)
    if half == 3:
        with pytest.raises(InvalidParameterValue):
            DiscreteGaussianLaw(1.0).half_width(confidence)
