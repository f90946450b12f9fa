"""What one discrete Laplace observation says about the truth (MATH §3 and §4).

K has P(K = k) = (1−a)/(1+a) · a^|k|, a = e^{−1/b}, with b > 0 the scale in lattice units. Hence

    P(|K| > h) = 2 a^{h+1} / (1 + a),        Var K = 2a / (1−a)²,

and y ± h is both the symmetric confidence interval and, under a flat prior on the integers, the
narrowest symmetric credible interval of the truth (BAYES Algorithm 3 for one observation).

The solutions are computed in 50-digit decimal arithmetic, whose exp and ln are correctly
rounded, and then moved to the safe side by a relative 1e-40, far more than the rounding error.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from tallyveil.errors import InvalidParameterValue

__all__ = ["half_width", "scale_for_half_width", "tail", "variance"]

_CONTEXT = Context(prec=50, Emin=-(10**15), Emax=10**15)
_MARGIN = Decimal("1e-40")
_TWO = Decimal(2)


def variance(scale: float) -> float:
    """2a/(1−a)², within a few units in the last place; 0 for the exact scale 0.

    Coded as (√(2a) / (1−a))² with 1−a = −expm1(−1/b): nothing cancels for large b.
    """
    _check_scale(scale)
    if scale == 0:
        return 0.0
    root = math.sqrt(2 * math.exp(-1 / scale)) / math.expm1(-1 / scale)
    return root * root


def tail(half: int, scale: float) -> float:
    """P(|K| > half), rounded up; 0 for the exact scale 0."""
    _check_scale(scale)
    if half < 0:
        return 1.0
    if scale == 0:
        return 0.0
    with localcontext(_CONTEXT):
        a = (-1 / Decimal(scale)).exp()
        exponent = -(half + 1) / Decimal(scale)
        exact = _TWO * exponent.exp() / (1 + a) * (1 + _MARGIN)
    return min(1.0, math.nextafter(float(exact), math.inf))


@lru_cache(maxsize=4096)
def half_width(scale: float, confidence: float | Fraction) -> int:
    """The least integer h with P(|K| ≤ h) ≥ confidence.

    h + 1 ≥ b · (ln 2 − ln(1+a) − ln δ), δ = 1 − confidence. A float confidence means its
    decimal text, so 0.95 is exactly 19/20.

    Raises InvalidParameterValue unless 0 ≤ scale < ∞ and 0 < confidence < 1.
    """
    _check_scale(scale)
    delta = _miss(confidence)
    if scale == 0:
        return 0
    with localcontext(_CONTEXT):
        b = Decimal(scale)
        a = (-1 / b).exp()
        bound = b * (_TWO.ln() - (1 + a).ln() - delta.ln())
        least = (bound * (1 + _MARGIN)).to_integral_value(ROUND_CEILING)
    return max(0, int(least) - 1)


@lru_cache(maxsize=4096)
def scale_for_half_width(half: int, confidence: float | Fraction) -> float:
    """The largest scale b with P(|K| ≤ half) ≥ confidence, rounded down to a float.

    u = 1/b is the root of the convex, increasing F(u) = (h+1)u + ln(1+e^{−u}) − ln(2/δ).
    F(ln(2/δ)/(h+1)) > 0, so Newton's steps from there descend to the root without overshooting.

    Raises InvalidParameterValue unless half ≥ 0 and 0 < confidence < 1.
    """
    if not 0 <= half < 2**53:
        raise InvalidParameterValue(f"a half-width is an integer from 0 to 2^53, not {half}")
    delta = _miss(confidence)
    with localcontext(_CONTEXT):
        level = (_TWO / delta).ln()
        u = level / (half + 1)
        step = u
        while step > u * _MARGIN:
            e = (-u).exp()
            step = ((half + 1) * u + (1 + e).ln() - level) / ((half + 1) - e / (1 + e))
            u -= step
        scale = float(1 / u * (1 - _MARGIN))
    while half_width(scale, confidence) > half:
        scale = math.nextafter(scale, 0.0)
    return scale


def _check_scale(scale: float) -> None:
    if not 0 <= scale < math.inf:
        raise InvalidParameterValue(f"a noise scale is a finite number from 0, not {scale}")


def _miss(confidence: float | Fraction) -> Decimal:
    """δ = 1 − confidence, rounded down, as a Decimal in the module's precision."""
    if not 0 < confidence < 1:
        raise InvalidParameterValue(
            f"a confidence lies strictly between 0 and 1, not {confidence}",
            hint="Write 0.95 for 95 percent.",
        )
    exact = confidence if isinstance(confidence, Fraction) else Fraction(repr(float(confidence)))
    miss = 1 - exact
    with localcontext(_CONTEXT):
        return Decimal(miss.numerator) / Decimal(miss.denominator) * (1 - _MARGIN)
