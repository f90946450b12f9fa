"""What follows about the truth from an estimate, under a flat prior (BAYES §4 and §5.2).

The estimate is θ̂ = θ + X, with X a symmetric `ErrorLaw`, and so θ = θ̂ − X.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference.error_law import ErrorLaw
from tallyveil.inference.spectrum import Bounds

__all__ = ["Interval", "Posterior"]


class Interval(NamedTuple):
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Posterior:
    """The belief about θ: symmetric about ``center``, which is its mean.

    It is the posterior under a flat prior on the reals, and the interval's coverage over repeated
    noise is its probability, whatever the truth.
    """

    center: float
    error: ErrorLaw

    def __post_init__(self) -> None:
        if not math.isfinite(self.center):
            raise InvalidParameterValue("an estimate is a finite number")

    @property
    def variance(self) -> float:
        return self.error.variance

    def interval(self, confidence: float | Fraction) -> Interval:
        """The narrowest symmetric interval with at least this probability (BAYES Algorithm 3, on
        the law itself instead of its rounding to integers)."""
        h = self.error.half_width(confidence)
        return Interval(self.center - h, self.center + h)

    def at_least(self, confidence: float | Fraction) -> float:
        """An L with P(θ ≥ L) ≥ confidence, the largest for a confidence above 1/2."""
        return self.center - self.error.one_sided(confidence)

    def at_most(self, confidence: float | Fraction) -> float:
        """A U with P(θ ≤ U) ≥ confidence, the least for a confidence above 1/2."""
        return self.center + self.error.one_sided(confidence)

    def quantile(self, probability: float) -> float:
        """The θ below which this probability lies.

        Raises InvalidParameterValue unless 0 < probability < 1.
        """
        if probability >= 0.5:
            return self.at_most(probability)
        return self.at_least(1 - probability)

    def probability(self, low: float = -math.inf, high: float = math.inf) -> Bounds:
        """Bounds of P(low ≤ θ ≤ high): of X ≤ θ̂ − low less X < θ̂ − high.

        Raises InvalidParameterValue unless low ≤ high.
        """
        if not low <= high:
            raise InvalidParameterValue(f"an interval ends after it begins, not [{low}, {high}]")
        below = self.error.cdf(self.center - low)
        above = self.error.cdf(self.center - high, strict=True)
        return Bounds.clipped(below.lower - above.upper, below.upper - above.lower)
