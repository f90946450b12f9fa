"""The least purchase that, combined with what is known, meets a target (MATH §4).

The history gives θ + X with the law of X, a symmetric `ErrorLaw` of variance V. A fresh answer to
the same integer query gives θ + K with K discrete Laplace of scale b (or of another law) and
variance v. Their best combination has the error

    w X + (1−w) K,   w = v / (V + v),

whose half-width grows with b, from 0 to that of X. The largest b is sought for which the half-width
at the confidence is at most the target: its cost, sensitivity / b, is the least. It is compared
with the scale at which the fresh answer alone meets the target (BAYES Theorem 5.3, for the discrete
law), and the larger of the two is used. That is the latter where the history adds next to nothing,
since an answer on the integers may use a whole half-width up to its very end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference.laws.discrete_laplace import DiscreteLaplaceLaw
from tallyveil.inference.laws.error_law import ErrorLaw
from tallyveil.inference.laws.noise_law import NoiseLaw
from tallyveil.inference.laws.noises import Noises
from tallyveil.inference.roots import root_between

__all__ = ["combined", "top_up"]

_BITS: Final = 14  # of the scale, which is rounded down
_WIDEST: Final = 1e15


def combined(known: ErrorLaw | None, law: type[NoiseLaw], scale: float) -> ErrorLaw:
    """The error of the best combination of what is known with a fresh answer of this noise.

    Raises InvalidParameterValue unless 0 ≤ scale < ∞.
    """
    fresh = Noises.of(law, scale)
    v = float(fresh.variances[0])
    if known is None or v == 0:
        return ErrorLaw(np.ones(1), fresh)
    return known.mixed_with(fresh, known.variance / (known.variance + v))


def top_up(
    known: ErrorLaw | None,
    half_width: float,
    confidence: float | Fraction,
    law: type[NoiseLaw] = DiscreteLaplaceLaw,
    *,
    rough: bool = False,
) -> float | None:
    """The scale of the widest fresh noise that meets the target, or None if ``known`` meets it by
    itself.

    ``half_width`` is in units of the query's integer lattice. ``rough``: what is known, and its
    combinations, have bounds as intervals (`ErrorLaw.outer_half_width`).

    Raises InvalidParameterValue unless 0 ≤ half_width < 2⁵³ and 0 < confidence < 1.
    """
    if not 0 <= half_width < 2**53:
        raise InvalidParameterValue(f"a half-width is a number from 0 to 2^53, not {half_width}")
    width = ErrorLaw.outer_half_width if rough else ErrorLaw.half_width
    if known is not None and width(known, confidence) <= half_width:
        return None
    alone = law.scale_for_half_width(math.floor(half_width), confidence)
    if known is None:
        return alone

    def excess(scale: float) -> float:
        return width(combined(known, law, scale), confidence) - half_width

    return _largest(excess, alone) if excess(alone) < 0 else alone


def _largest(excess: Callable[[float], float], low: float) -> float:
    """The largest scale without excess, rounded down; there is no excess at ``low``."""
    high = 2 * low
    while excess(high) <= 0:
        low, high = high, 2 * high
        if not high < _WIDEST:
            return low
    return max(root_between(excess, low, high, _BITS)[0], low)
