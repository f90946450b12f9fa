"""What every law asks of its parameters."""

from __future__ import annotations

import math
from fractions import Fraction

from tallyveil.errors import InvalidParameterValue

__all__ = ["check_scale", "exact_miss", "miss_of"]


def check_scale(scale: float) -> None:
    """Raises InvalidParameterValue unless 0 ≤ scale < ∞."""
    if not 0 <= scale < math.inf:
        raise InvalidParameterValue(f"a noise scale is a finite number from 0, not {scale}")


def exact_miss(confidence: float | Fraction) -> Fraction:
    """1 − confidence. A float confidence means its decimal text.

    Raises InvalidParameterValue unless 0 < confidence < 1.
    """
    if not 0 < confidence < 1:
        raise InvalidParameterValue(
            f"a confidence lies strictly between 0 and 1, not {confidence}",
            hint="Write 0.95 for 95 percent.",
        )
    return 1 - (
        confidence if isinstance(confidence, Fraction) else Fraction(repr(float(confidence)))
    )


def miss_of(confidence: float | Fraction) -> float:
    """`exact_miss`, rounded down."""
    miss = exact_miss(confidence)
    nearest = float(miss)
    return nearest if Fraction(nearest) <= miss else math.nextafter(nearest, 0.0)
