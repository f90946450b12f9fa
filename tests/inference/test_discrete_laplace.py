"""The discrete Laplace law against sums of its probabilities in exact or 80-digit arithmetic."""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference import DiscreteLaplaceLaw

SCALES = [0.05, 0.3, 1.0, 1.4427, 2.5, 10.4166667, 20.0, 1234.5, 1e6]
CONFIDENCES = [0.5, 0.9, 0.95, 0.99, 0.999999]

scales = st.floats(0.02, 1e9)
confidences = st.floats(1e-3, 1 - 1e-9)


def exact_tail(half: int, scale: float) -> Decimal:
    """P(|K| > half) by the geometric series, to 80 digits."""
    with localcontext(Context(prec=80, Emin=-(10**15))):
        a = (-1 / Decimal(scale)).exp()
        first = (1 - a) / (1 + a) * (-Decimal(half + 1) / Decimal(scale)).exp()
        return 2 * first / (1 - a)


def miss(confidence: float) -> Decimal:
    with localcontext(Context(prec=80)):
        return 1 - Decimal(repr(confidence))


def test_the_tail_is_the_sum_of_the_probabilities() -> None:
    a = math.exp(-1 / 2.5)
    inside = sum((1 - a) / (1 + a) * a ** abs(k) for k in range(-4, 5))
    assert DiscreteLaplaceLaw(2.5).tail(4) == pytest.approx(1 - inside, rel=1e-12)
    assert DiscreteLaplaceLaw(2.5).tail(-1) == 1
    assert DiscreteLaplaceLaw(0.0).tail(0) == 0


@given(st.integers(0, 10**6), scales)
def test_the_tail_is_rounded_up(half: int, scale: float) -> None:
    exact = exact_tail(half, scale)
    assert Decimal(DiscreteLaplaceLaw(scale).tail(half)) >= exact
    assert DiscreteLaplaceLaw(scale).tail(half) <= float(exact) * (1 + 1e-15) + 5e-324


@given(scales, confidences)
def test_the_half_width_is_the_least_that_holds(scale: float, confidence: float) -> None:
    half = DiscreteLaplaceLaw(scale).half_width(confidence)
    assert exact_tail(half, scale) <= miss(confidence)
    assert half == 0 or exact_tail(half - 1, scale) > miss(confidence)


@given(st.integers(0, 10**7), confidences)
def test_the_scale_is_the_largest_float_that_holds(half: int, confidence: float) -> None:
    scale = DiscreteLaplaceLaw.scale_for_half_width(half, confidence)
    assert exact_tail(half, scale) <= miss(confidence)
    assert exact_tail(half, math.nextafter(scale, math.inf)) > miss(confidence)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_a_half_width_and_its_scale_agree(scale: float, confidence: float) -> None:
    half = DiscreteLaplaceLaw(scale).half_width(confidence)
    assert DiscreteLaplaceLaw.scale_for_half_width(half, confidence) >= scale
    if half:
        assert DiscreteLaplaceLaw.scale_for_half_width(half - 1, confidence) < scale


def test_a_probability_on_the_boundary_is_decided_exactly() -> None:
    # a = 1/2 would need b = 1/ln 2; just above it P(|K| ≤ 0) = 1/3 no longer holds.
    below = DiscreteLaplaceLaw.scale_for_half_width(0, Fraction(1, 3))
    assert below == pytest.approx(1 / math.log(2), rel=1e-15)
    assert DiscreteLaplaceLaw(below).half_width(Fraction(1, 3)) == 0
    assert DiscreteLaplaceLaw(math.nextafter(below, 2)).half_width(Fraction(1, 3)) == 1


def test_a_float_confidence_means_its_decimal_text() -> None:
    law = DiscreteLaplaceLaw(20.0)
    assert law.half_width(0.95) == law.half_width(Fraction(19, 20)) == 60


@pytest.mark.parametrize("scale", [1e-3, 0.3, 1.0, 50.0, 1e3])
def test_the_variance_is_the_second_moment(scale: float) -> None:
    a = math.exp(-1 / scale)
    moment = math.fsum(2 * k * k * (1 - a) / (1 + a) * a**k for k in range(1, int(60 * scale) + 60))
    assert DiscreteLaplaceLaw(scale).variance == pytest.approx(moment, rel=1e-9)


def test_the_variance_does_not_cancel_for_large_scales() -> None:
    # 2a/(1−a)² = 2b² − 1/6 + O(b⁻²)
    assert DiscreteLaplaceLaw(1e9).variance == pytest.approx(2e18, rel=1e-15)
    assert DiscreteLaplaceLaw(1e4).variance == pytest.approx(2e8 - 1 / 6, rel=1e-14)
    assert DiscreteLaplaceLaw(0.0).variance == 0
    assert DiscreteLaplaceLaw(5e-324).variance == 0


@pytest.mark.parametrize("scale", [math.nan, math.inf, -1.0])
def test_a_wrong_scale_is_refused(scale: float) -> None:
    with pytest.raises(InvalidParameterValue):
        DiscreteLaplaceLaw(scale)


@pytest.mark.parametrize("confidence", [math.nan, 0.0, 1.0, -0.5, 95.0, math.inf])
def test_a_wrong_confidence_is_refused(confidence: float) -> None:
    with pytest.raises(InvalidParameterValue):
        DiscreteLaplaceLaw(1.0).half_width(confidence)
    with pytest.raises(InvalidParameterValue):
        DiscreteLaplaceLaw.scale_for_half_width(1, confidence)


def test_a_negative_half_width_is_refused() -> None:
    with pytest.raises(InvalidParameterValue):
        DiscreteLaplaceLaw.scale_for_half_width(-1, 0.9)
