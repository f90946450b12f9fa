"""Privacy loss in whole units of 10⁻¹² ε or ρ, always rounded up.

Losses are added thousands of times and compared with a budget. In integers that is exact: sixty
charges of 0.05 use up a budget of 3, and the order of summation does not matter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from typing import Final

from tallyveil.arrays import IntArray
from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.losses.rational_sums import ceiling_of_sum

__all__ = [
    "CEILING", "CONTEXT", "UNIT", "IntArray", "below_one", "decimal", "exp_below",
    "from_units", "loss_units", "nearest_units", "positive", "rounded_down", "rounded_up",
    "text_down", "text_up", "units",
]  # fmt: skip

UNIT = 10**12
# Losses are cut off here, beyond any budget; the sum of two still fits in 64 bits.
CEILING = 1 << 60

# Its exp and ln are correctly rounded. The rounding of results and arguments together is far less
# than the relative margin of at least 10⁻⁸⁰ that is subtracted on the private side.
CONTEXT: Final = Context(prec=90, Emin=-(10**15), Emax=10**15)

_ENDLESS = re.compile(r"[eE][+-]?[\d_]{5}")


def positive(value: float | str | Fraction | Decimal, what: str) -> Fraction:
    """Return the exact value of a positive finite number; a float means its decimal text.

    Raises InvalidParameterValue for NaN, infinities, zero, negative numbers and other text, and
    for text with an exponent of more than four digits, which would take long to convert.
    """
    if isinstance(value, str) and _ENDLESS.search(value):
        raise InvalidParameterValue(f"{what} has too large an exponent: {value[:40]}")
    try:
        exact = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
    except (ValueError, OverflowError, ZeroDivisionError):
        exact = Fraction(0)
    if not exact > 0:
        raise InvalidParameterValue(f"{what} must be a positive finite number, not {value}")
    return exact


def below_one(value: float | str | Fraction, what: str) -> Fraction:
    """As `positive`. Also raises InvalidParameterValue for 1 and more."""
    exact = positive(value, what)
    if not exact < 1:
        raise InvalidParameterValue(f"{what} must lie strictly between 0 and 1, not {value}")
    return exact


def rounded_up(exact: Fraction) -> float:
    """Return the least float that is at least ``exact``; infinity if no finite float is."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def rounded_down(exact: Fraction) -> float:
    """Return the largest float that is at most ``exact``."""
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, -math.inf)


def text_up(exact: Fraction, digits: int) -> str:
    """Return the least number of this many significant digits (at most 15) that is at least
    ``exact``, as text."""
    return _text(exact, Context(prec=digits, rounding=ROUND_CEILING))


def text_down(exact: Fraction, digits: int) -> str:
    """Return the largest number of this many significant digits (at most 15) that is at most
    ``exact``, as text."""
    return _text(exact, Context(prec=digits, rounding=ROUND_FLOOR))


def _text(exact: Fraction, context: Context) -> str:
    # The division rounds once, since operands are not rounded.
    short = context.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    return format(float(short), f".{context.prec}g")


def decimal(value: Fraction) -> Decimal:
    """Convert to Decimal, in the precision of the context."""
    return Decimal(value.numerator) / Decimal(value.denominator)


def exp_below(exponent: Fraction) -> Fraction:
    """Return a rational just below eˣ, for 0 ≤ x ≤ 1000; too small by about 10⁻⁸⁰ of it.

    Raises InvalidParameterValue for any other x.
    """
    if not 0 <= exponent <= 1000:
        raise InvalidParameterValue(f"an exponent must be from 0 to 1000, not {exponent}")
    with localcontext(CONTEXT):
        return Fraction(decimal(exponent).exp()) * (1 - Fraction(1, 10**80))


def units(loss: Fraction) -> int:
    """Return ⌈10¹² loss⌉."""
    return math.ceil(loss * UNIT)


def from_units(count: int) -> Fraction:
    return Fraction(count, UNIT)


def nearest_units(amount: float) -> Fraction:
    """Return the nearest amount of whole units. From a float rounded down it is not more than the
    amount of whole units that was rounded."""
    return from_units(round(Fraction(amount) * UNIT))


def loss_units(moves: Sequence[IntArray], rates: Sequence[Fraction]) -> IntArray:
    """Return ⌈10¹² Σ_c moves_c · rates_c⌉ elementwise, cut off at `CEILING`.

    ``moves`` (at least one, all ≥ 0) broadcast together; ``rates`` are the loss per step. The sum
    is rational and rounded once.
    """
    return ceiling_of_sum(moves, [rate * UNIT for rate in rates], CEILING)
