"""Half-widths and probabilities of sums of noise, against the law by convolution, and limits."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference import (
    DiscreteGaussianLaw,
    DiscreteLaplaceLaw,
    ErrorLaw,
    NoiseLaw,
    ProbabilityBounds,
)
from tallyveil.knowledge import Known


def half_width_of_sum(scales: list[float], confidence: float | Fraction) -> int:
    laws = Counter(map(DiscreteLaplaceLaw, scales))
    return math.floor(ErrorLaw.of_sum(laws).half_width(confidence))


def between(laws: list[NoiseLaw], low: float, high: float) -> ProbabilityBounds:
    """Bounds of P(low ≤ Σ K_i ≤ high)."""
    error = ErrorLaw.of_sum(Counter(laws))
    upto, below = error.cdf(high), error.cdf(low, strict=True)
    return ProbabilityBounds.clipped(upto.lower - below.upper, upto.upper - below.lower)


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
    deviation = math.sqrt(count * DiscreteLaplaceLaw(scale).variance)
    if count >= 40:
        assert h == pytest.approx(1.959964 * deviation, rel=0.02)
    assert h <= count * max(1, DiscreteLaplaceLaw(scale).half_width(0.95))
    assert h >= DiscreteLaplaceLaw(scale).half_width(0.95)


def test_the_sum_of_two_wide_noises_has_its_known_law() -> None:
    """For large b the sum of two has density (1 + |x|/b) e^{−|x|/b} / 4b, so the tail beyond x is
    (1 + x/2b) e^{−x/b}."""
    b = 1e5
    x = half_width_of_sum([b, b], 0.95) / b
    assert (1 + x / 2) * math.exp(-x) == pytest.approx(0.05, rel=1e-4)


def test_noise_of_scale_nought_adds_nothing() -> None:
    assert half_width_of_sum([0.0, 0.0], 0.9) == 0
    assert half_width_of_sum([0.0, 4.0], 0.9) == DiscreteLaplaceLaw(4.0).half_width(0.9)
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


def single_law(noise: NoiseLaw) -> list[mpmath.mpf]:
    """P(K = k), k = −m … m, from the definition."""
    reach = math.ceil(40 * noise.scale) + 2
    if not noise.scale:
        weights = [mpmath.mpf(k == 0) for k in range(-reach, reach + 1)]
    elif isinstance(noise, DiscreteLaplaceLaw):
        weights = [mpmath.exp(-abs(k) / mpmath.mpf(noise.scale)) for k in range(-reach, reach + 1)]
    else:
        weights = [
            mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * mpmath.mpf(noise.scale) ** 2))
            for k in range(-reach, reach + 1)
        ]
    whole = mpmath.fsum(weights)
    return [w / whole for w in weights]


LAWS = [
    [DiscreteLaplaceLaw(0.4)],
    [DiscreteLaplaceLaw(7.3)],
    [DiscreteGaussianLaw(0.3)],
    [DiscreteGaussianLaw(5.5)],
    [DiscreteLaplaceLaw(2.0)] * 3,
    [DiscreteLaplaceLaw(6.0), DiscreteGaussianLaw(0.8), DiscreteLaplaceLaw(1.5)],
    [DiscreteGaussianLaw(3.0), DiscreteGaussianLaw(9.0)],
    [DiscreteLaplaceLaw(0.0), DiscreteGaussianLaw(2.0)],
]


@pytest.mark.parametrize("laws", LAWS, ids=str)
def test_a_probability_lies_between_its_bounds(laws: list[NoiseLaw]) -> None:
    exact = np.array([1.0])
    for noise in laws:
        exact = np.convolve(exact, np.array([float(p) for p in single_law(noise)]))
    middle = len(exact) // 2
    far = math.ceil(8 * math.sqrt(sum(noise.variance for noise in laws))) + 1
    points = sorted({-far, -7, -3, -1, 0, 1, 2, 5, far})
    for low in [-math.inf, *points]:
        for high in [*(x for x in points if x >= low), math.inf]:
            start = 0 if low == -math.inf else max(0, middle + int(low))
            stop = len(exact) if high == math.inf else middle + int(high) + 1
            truth = math.fsum(exact[start:stop])
            bounds = between(laws, low, high)
            assert bounds.lower - 1e-12 <= truth <= bounds.upper + 1e-12
            assert bounds.upper - bounds.lower <= 1e-9


def test_numbers_of_any_size_are_told_from_infinity_by_nothing() -> None:
    far = 10**400
    for laws in LAWS:
        answer = Known.with_noise(0, *laws)
        assert answer.probability(-far, far) >= 1 - 1e-9
        assert answer.probability(far, None) <= 1e-9
    exact = Known.with_noise(0)
    assert exact.probability(0, 0) == exact.probability(0, far) == 1
    assert exact.probability(1, None) == 0


@pytest.mark.parametrize("laws", LAWS[:2], ids=str)
def test_a_tail_is_what_is_beyond(laws: list[NoiseLaw]) -> None:
    (noise,) = laws
    exact = single_law(noise)
    middle = len(exact) // 2
    for half in (0, 1, 5):
        outside = 2 * mpmath.fsum(exact[middle + half + 1 :])
        assert outside <= noise.tail(half) <= float(outside) * (1 + 1e-9) + 1e-15
