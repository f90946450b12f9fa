"""Half-widths of sums of noise, against the exact law by convolution and known limits."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference import DiscreteLaplaceLaw, half_width, variance
from tallyveil.inference import half_width_of_sum as half_width_of_laws


def half_width_of_sum(scales: list[float], confidence: float | Fraction) -> int:
    return half_width_of_laws([DiscreteLaplaceLaw(scale) for scale in scales], confidence)


def law(scales: list[float]) -> npt.NDArray[np.float64]:
    """P(S = n), n = −m … m, by convolving the laws of the single noises."""
    total = np.ones(1)
    for scale in scales:
        reach = math.ceil(60 * scale) + 2
        a = math.exp(-1 / scale)
        single = (1 - a) / (1 + a) * a ** np.abs(np.arange(-reach, reach + 1))
        total = np.convolve(total, single)
    return total


def mass(scales: list[float], h: int) -> float:
    exact = law(scales)
    middle = len(exact) // 2
    return math.fsum(exact[max(0, middle - h) : middle + h + 1])


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(0.05, 12), min_size=2, max_size=5),
    st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999]),
)
def test_it_is_the_least_that_holds_the_confidence(scales: list[float], confidence: float) -> None:
    h = half_width_of_sum(scales, confidence)
    assert mass(scales, h) >= confidence - 1e-12
    assert h == 0 or mass(scales, h - 1) < confidence + 1e-4 * (1 - confidence)


@pytest.mark.parametrize("confidence", [0.9999999, Fraction(10**12 - 1, 10**12)])
def test_beyond_floating_point_the_bound_is_taken(confidence: float | Fraction) -> None:
    scales = [3.0, 5.0]
    h = half_width_of_sum(scales, confidence)
    exact = law(scales)
    middle = len(exact) // 2
    tail = math.fsum(exact[: middle - h]) * 2
    assert tail <= 1 - confidence


@pytest.mark.parametrize(("scale", "count"), [(1.0, 5000), (1e6, 2), (1e6, 40), (0.02, 10)])
def test_extremes_agree_with_the_normal_law_or_the_single_noise(scale: float, count: int) -> None:
    h = half_width_of_sum([scale] * count, 0.95)
    deviation = math.sqrt(count * variance(scale))
    if count >= 40:
        assert h == pytest.approx(1.959964 * deviation, rel=0.02)
    assert h <= count * max(1, half_width(scale, 0.95))
    assert h >= half_width(scale, 0.95)


def test_the_sum_of_two_wide_noises_has_its_known_law() -> None:
    """For large b the sum of two has density (1 + |x|/b) e^{−|x|/b} / 4b, so the tail beyond x is
    (1 + x/2b) e^{−x/b}."""
    b = 1e5
    x = half_width_of_sum([b, b], 0.95) / b
    assert (1 + x / 2) * math.exp(-x) == pytest.approx(0.05, rel=1e-4)


def test_noise_of_scale_nought_adds_nothing() -> None:
    assert half_width_of_sum([0.0, 0.0], 0.9) == 0
    assert half_width_of_sum([0.0, 4.0], 0.9) == half_width(4.0, 0.9)
    assert half_width_of_sum([], 0.9) == 0


@pytest.mark.parametrize(
    ("scales", "confidence"),
    [
        ([1.0, math.nan], 0.9),
        ([1.0, -1.0], 0.9),
        ([1.0, math.inf], 0.9),
        ([1.0, 1.0], 0.0),
        ([1.0, 1.0], 1.0),
        ([1.0, 1.0], math.nan),
    ],
)
def test_what_makes_no_sense_is_refused(scales: list[float], confidence: float) -> None:
    with pytest.raises(InvalidParameterValue):
        half_width_of_sum(scales, confidence)
