"""A released answer: the truth and the sum of some independent noises, by their laws."""

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

__all__ = ["EstimatedInterval", "Released", "shifted", "variance_of"]


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
    """The truth and the sum of some independent noises; of none, it is exact.

    ``reported`` is what is reported instead of the value, so that rows of a statement add up. It is
    a tuple, since statements of thousands of rows make as many.
    """

    __slots__ = ()

    additive: ClassVar[bool] = True
    """Whether it adds up with others, and can take part in estimates."""
    by: ClassVar[None] = None
    """The mechanism with a public range that it is from, if it is."""
    limits: ClassVar[None] = None
    """Between which numbers the truth is for certain, if that is known."""

    @classmethod
    def of(cls, value: int, law: NoiseLaw) -> Released:
        """With noise of one law."""
        return cls(value, (law,) if law.scale else ())

    @property
    def exact(self) -> bool:
        return not self.laws

    @property
    def law(self) -> Hashable:
        """Equal for answers whose errors have one law, while both are held."""
        return id(self.laws[0]) if len(self.laws) == 1 else self.laws

    @property
    def variance(self) -> float:
        return math.fsum(map(variance_of, self.laws))

    @property
    def deviation(self) -> float:
        """σ of the error, √(Σ_i Var K_i); about the value, where that is not its mean."""
        return math.sqrt(self.variance)

    def half_width(self, confidence: Fraction) -> int:
        """How far the farther end of the interval is."""
        if len(self.laws) <= 1:
            return _half_width(self.laws[0], confidence) if self.laws else 0
        return _half_width_of_sum(_counted(self.laws), confidence)

    def interval(self, confidence: Fraction) -> EstimatedInterval:
        half = self.half_width(confidence)
        told = self.rounded
        return EstimatedInterval(told, min(told, self.value - half), max(told, self.value + half))

    @property
    def rounded(self) -> int:
        """What is reported."""
        return self.value if self.reported is None else self.reported

    def reporting(self, value: int) -> Released:
        """The same, with another value reported. Its interval holds that too."""
        own, laws, told = self
        return self if value == (own if told is None else told) else Released(own, laws, value)

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
        """A value that the truth is at most with this probability, or a little more.

        Raises InvalidParameterValue unless 0 < probability < 1.
        """
        return self.value + self._error.quantile(probability)

    @property
    def _error(self) -> ErrorLaw:
        return _error_of_sum(_counted(self.laws))

    @property
    def parts(self) -> tuple[Released, tuple[Estimate, ...]]:
        """What it is the sum of. Raises TypeError if it does not add up."""
        return self, ()

    def suffices(self, aim: Aim) -> bool:
        """Whether it is as good as what is asked for."""
        return aim.met_by(self)


@lru_cache(maxsize=4096)
def variance_of(law: NoiseLaw) -> float:
    return law.variance


@lru_cache(maxsize=4096)
def _half_width(law: NoiseLaw, confidence: Fraction) -> int:
    return law.half_width(confidence)


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
