"""A released answer: the truth plus a sum of independent noises with known laws."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, NamedTuple, TypeAlias

from tallyveil.inference import ErrorLaw, NoiseLaw
from tallyveil.knowledge.answers.aim import Aim
from tallyveil.knowledge.answers.estimate import Estimate

__all__ = ["EstimatedInterval", "Released", "shifted"]


class EstimatedInterval(NamedTuple):
    """An answer and the ends of its interval, in lattice units."""

    value: int
    low: int
    high: int


class _Fields(NamedTuple):
    value: int
    laws: tuple[NoiseLaw, ...] = ()
    reported: int | None = None


class Released(_Fields):
    """The truth plus a sum of independent noises; exact if there are none.

    ``reported``, if given, is reported instead of the value so that rows of a statement add up. The
    class is a tuple because a statement may make thousands of them.
    """

    __slots__ = ()

    additive: ClassVar[bool] = True
    """Whether it can be added to others and used in estimates."""
    by: ClassVar[None] = None
    """The mechanism with a public range that released it, if any."""

    @classmethod
    def of(cls, value: int, law: NoiseLaw) -> Released:
        """An answer with noise of one law."""
        return cls(value, (law,) if law.scale else ())

    @property
    def exact(self) -> bool:
        return not self.laws

    @property
    def law(self) -> Hashable:
        """Equal for answers whose errors have the same law, as long as both answers exist."""
        return id(self.laws[0]) if len(self.laws) == 1 else self.laws

    @property
    def variance(self) -> float:
        return math.fsum(law.variance for law in self.laws)

    @property
    def deviation(self) -> float:
        """σ of the error, √(Σ_i Var K_i); its root mean square if it is biased."""
        return math.sqrt(self.variance)

    def half_width(self, confidence: Fraction) -> int:
        """The distance from the value to the farther end of its interval."""
        if len(self.laws) <= 1:
            return self.laws[0].half_width(confidence) if self.laws else 0
        return _half_width_of_sum(_counted(self.laws), confidence)

    def interval(self, confidence: Fraction) -> EstimatedInterval:
        """The value to report, and an interval around the value stretched to hold it."""
        half, reported = self.half_width(confidence), self.rounded
        low, high = self.value - half, self.value + half
        return EstimatedInterval(reported, min(reported, low), max(reported, high))

    @property
    def rounded(self) -> int:
        """The integer to report."""
        return self.value if self.reported is None else self.reported

    def reporting(self, value: int) -> Released:
        """Return the answer with ``value`` reported, which its interval is stretched to hold."""
        own, laws, before = self
        return self if value == (own if before is None else before) else Released(own, laws, value)

    def probability(self, low: int | None, high: int | None) -> float:
        """A lower bound of P(low ≤ truth ≤ high), within 10⁻⁹; None for no bound.

        Σ_{k=low}^{high} P(K = value − k), K the sum of the noises.
        """
        if low is not None and high is not None and low > high:
            return 0.0
        least = -math.inf if high is None else shifted(self.value - high, 0.0)
        most = math.inf if low is None else shifted(self.value - low, 0.0)
        return max(0.0, self._error.cdf(most).lower - self._error.cdf(least, strict=True).upper)

    def quantile(self, probability: float) -> float:
        """A value that the truth does not exceed with this probability, or a little more.

        Raises InvalidParameterValue unless 0 < probability < 1.
        """
        return self.value + self._error.quantile(probability)

    @property
    def _error(self) -> ErrorLaw:
        return _error_of_sum(_counted(self.laws))

    @property
    def parts(self) -> tuple[Released, tuple[Estimate, ...]]:
        """The released answer and the estimates it is the sum of. Raises TypeError if it is not
        additive."""
        return self, ()

    def suffices(self, aim: Aim) -> bool:
        """Whether it is as precise as ``aim`` asks."""
        return aim.met_by(self)


_Counted: TypeAlias = frozenset[tuple[NoiseLaw, int]]


def _counted(laws: tuple[NoiseLaw, ...]) -> _Counted:
    return frozenset(Counter(laws).items())


@lru_cache(maxsize=4096)
def _half_width_of_sum(laws: _Counted, confidence: Fraction) -> int:
    return math.floor(_error_of_sum(laws).half_width(confidence))


# Its spectrum takes up to a megabyte.
@lru_cache(maxsize=64)
def _error_of_sum(laws: _Counted) -> ErrorLaw:
    return ErrorLaw.of_sum(dict(laws))


def shifted(x: float, by: float) -> float:
    """x + by, where x may be an integer of any size."""
    try:
        return float(x) + by
    except OverflowError:
        return math.inf if x > 0 else -math.inf
