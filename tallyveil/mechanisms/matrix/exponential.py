"""The exponential mechanism of McSherry and Talwar on a finite range (COUNT eq. 2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import localcontext
from fractions import Fraction
from itertools import pairwise

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.matrix.count_matrix import CountMatrix
from tallyveil.mechanisms.matrix.privacy_level import checked_alpha, checked_range
from tallyveil.mechanisms.units import CONTEXT, decimal

__all__ = ["exponential"]

# ε is reduced by this share of itself, to leave room for rounding to integers.
_ROOM = Fraction(1, 1 << 20)
# 2⁻²⁰⁰⁰ is practically never; more digits would only be slow.
_MAX_SPREAD_BITS = 2000

Quality = Callable[[int, int], Fraction | int | float]


def exponential(n: int, alpha: Fraction | float | str, quality: Quality) -> CountMatrix:
    """Return P[i|j] ∝ e^{ε q(i, j) / (2s)}, with ``quality`` q of output i for truth j, ε = −ln α.

    s = max |q(i, j) − q(i, j+1)|, computed from q. It is α-DP for truths that differ by one: a
    step changes each term and each column's sum by a factor of at most e^{ε/2}. The factor 2
    makes it weaker than a mechanism designed for counts (COUNT §IV-C).

    The weights are rounded to integers at an ε smaller by a part in a million, and proved at α.

    Raises InvalidParameterValue unless 1 ≤ n ≤ `MAX_RANGE` and 0 < α < 1, and for a quality that
    is not finite, never depends on the truth, or spreads over more than 2000 bits.
    """
    checked_range(n)
    level = checked_alpha(alpha)
    table = [[_exact(quality(i, j), i, j) for i in range(n + 1)] for j in range(n + 1)]
    sensitivity = max(
        abs(a - b) for here, there in pairwise(table) for a, b in zip(here, there, strict=True)
    )
    if not sensitivity > 0:
        raise InvalidParameterValue("the quality of an output must depend on the truth")
    # The power of e^{−ε} of each output, relative to the column's best one.
    steps = [[(max(column) - q) / (2 * sensitivity) for q in column] for column in table]
    spread = max(map(max, steps)) * Fraction(-math.log2(level))
    if not spread <= _MAX_SPREAD_BITS:
        raise InvalidParameterValue(
            f"the quality spreads over {float(spread):.0f} bits, more than {_MAX_SPREAD_BITS}",
            hint="Raise the quality of the worst outputs.",
        )
    bits = 128 + math.ceil(spread)
    powers = _powers(level, {step for column in steps for step in column}, bits)
    columns = [_scaled([powers[step] for step in column], 1 << bits) for column in steps]
    return CountMatrix("EXP", level, columns)


def _powers(alpha: Fraction, steps: set[Fraction], bits: int) -> dict[Fraction, int]:
    """Return ⌊2^bits α^{(1−room) step}⌋ for each step."""
    with localcontext(CONTEXT, prec=30 + bits * 3 // 10):
        log = decimal(alpha).ln()
        return {s: int((log * decimal(s * (1 - _ROOM))).exp() * (1 << bits)) for s in steps}


def _scaled(column: list[int], total: int) -> list[int]:
    """Scale the column to ``total``, rounding down; the rest goes to the largest entry."""
    whole = sum(column)
    scaled = [weight * total // whole for weight in column]
    scaled[scaled.index(max(scaled))] += total - sum(scaled)
    return scaled


def _exact(value: Fraction | int | float, output: int, truth: int) -> Fraction:
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidParameterValue(f"the quality of {output} for {truth} is not finite: {value}")
    return Fraction(value)
