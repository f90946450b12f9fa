"""The privacy level of a count mechanism: α = e^{−ε}, as a rational on the private side."""

from __future__ import annotations

import math
from decimal import localcontext
from fractions import Fraction

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.units import CONTEXT, below_one, decimal, exp_below, positive

__all__ = [
    "MAX_EPSILON",
    "MAX_RANGE",
    "alpha_for",
    "checked_alpha",
    "checked_range",
    "epsilon_for",
]

# Matrices have (n+1)² entries; beyond this, the ends of the range no longer matter (COUNT §I).
MAX_RANGE = 500
# A larger ε gives no protection; its α would only make the integers longer.
MAX_EPSILON = 40
# Exceeds the error of `exp_below`, so that exp_below(epsilon_for(α)) is still at least 1/α.
_SLACK = Fraction(1, 10**55)


def alpha_for(epsilon: Fraction | float | str) -> Fraction:
    """Return a rational α with e^{−ε} ≤ α < 1, so that an α-DP mechanism is ε-DP.

    α = ⌈2ᵏ e^{−ε}⌉ / 2ᵏ, with k such that −ln α falls short of ε by at most ε · 2⁻²⁴. An ε above
    40 counts as 40.

    Raises InvalidParameterValue unless ε is positive and finite, and at least 10⁻¹².
    """
    exact = min(positive(epsilon, "epsilon"), Fraction(MAX_EPSILON))
    if exact < Fraction(1, 10**12):
        raise InvalidParameterValue(f"epsilon must be at least 1e-12, not {epsilon}")
    # Rounding up adds at most 2⁻ᵏ to α, so −ln α loses at most 2⁻ᵏ e^ε.
    bits = 25 + math.ceil(exact * Fraction(3, 2)) + max(0, math.ceil(-math.log2(exact)))
    return Fraction(math.ceil(2**bits / exp_below(exact)), 2**bits)


def epsilon_for(alpha: Fraction | float | str) -> Fraction:
    """Return an ε ≥ −ln α, too large by about 10⁻⁵⁵: the cost of a step of one in the truth."""
    exact = checked_alpha(alpha)
    with localcontext(CONTEXT):
        return Fraction(decimal(1 / exact).ln()) + _SLACK


def checked_alpha(alpha: Fraction | float | str) -> Fraction:
    """Return α exactly; a float means its decimal text.

    Raises InvalidParameterValue unless 0 < α < 1.
    """
    return below_one(alpha, "alpha")


def checked_range(n: int) -> int:
    """Return n. Raises InvalidParameterValue unless it is an integer from 1 to `MAX_RANGE`."""
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MAX_RANGE:
        raise InvalidParameterValue(
            f"the largest possible count must be an integer from 1 to {MAX_RANGE}, not {n}",
            hint="For a larger range, use a mechanism without a range, such as laplace: the ends"
            " hardly matter.",
        )
    return n
