"""Laws of errors: of what was released, of estimates, and of counts in a range.

A row's truth is an integer in units of its lattice, and its value is the truth plus an error. The
error of what was released and of an estimate has a known law, symmetric about 0, whatever the truth
is. So probabilities assume a flat prior on the integers (BAYES §4), and such answers can be added.
The error of a count in a range depends on the truth: such counts cannot be added, and their law is
a posterior.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Final, TypeAlias

from tallyveil.inference import ErrorLaw, NoiseLaw
from tallyveil.knowledge.answers.aim import Aim
from tallyveil.knowledge.answers.estimate import ROUNDING, NoiseWeights, reported_width
from tallyveil.mechanisms import CountMechanism
from tallyveil.mechanisms.units import rounded_down

__all__ = ["EXACT", "Error", "EstimateError", "NoiseSum", "RangeError"]


@dataclass(frozen=True)
class NoiseSum:
    """The error of what was released: a sum of independent noises, 0 if there are none."""

    laws: tuple[NoiseLaw, ...] = ()

    additive: ClassVar[bool] = True
    """Whether such answers can be added to others and used in estimates."""
    by: ClassVar[None] = None
    """The mechanism with a public range that released it, if any."""

    @classmethod
    def of(cls, law: NoiseLaw) -> NoiseSum:
        """One noise."""
        return cls((law,) if law.scale else ())

    @property
    def exact(self) -> bool:
        return not self.laws

    @property
    def key(self) -> Hashable:
        """Equal for errors of the same law, as long as both exist."""
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

    def reach(self, confidence: Fraction) -> tuple[int, int]:
        """How far the interval reaches below the value, and its width."""
        half = self.half_width(confidence)
        return half, 2 * half

    def probability(
        self, released: int, estimate: float, low: int | None, high: int | None
    ) -> float:
        """A lower bound of P(low ≤ truth ≤ high), within 10⁻⁹, of what has this error: the sum of
        what was ``released`` and of an ``estimate``, here 0. None stands for no bound.

        Σ_{k=low}^{high} P(K = value − k), K the sum of the noises.
        """
        if low is not None and high is not None and low > high:
            return 0.0
        least = -math.inf if high is None else _shifted(released - high, 0.0)
        most = math.inf if low is None else _shifted(released - low, 0.0)
        return max(0.0, self._error.cdf(most).lower - self._error.cdf(least, strict=True).upper)

    def quantile(self, probability: float) -> float:
        """How far the truth exceeds the value at most with this probability, or a little more.

        Raises InvalidParameterValue unless 0 < probability < 1.
        """
        return self._error.quantile(probability)

    @property
    def _error(self) -> ErrorLaw:
        return _error_of_sum(_counted(self.laws))

    def suffices(self, aim: Aim) -> bool:
        """Whether it is as precise as ``aim`` asks."""
        return aim.met_by(self)


EXACT: Final = NoiseSum()

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


@dataclass(frozen=True)
class EstimateError:
    """The error of an estimate with these ``weights``, plus one that it may depend on, of what was
    released ``beside``."""

    weights: NoiseWeights
    beside: NoiseSum = EXACT

    additive: ClassVar[bool] = True
    by: ClassVar[None] = None

    @property
    def exact(self) -> bool:
        """Whether it follows from exact rows alone."""
        return self.beside.exact and self.weights.variance == 0

    @property
    def key(self) -> Hashable:
        return id(self.weights), self.beside.laws

    @property
    def variance(self) -> float:
        return self.weights.variance if self.beside.exact else self.deviation**2

    @property
    def deviation(self) -> float:
        """√(Σ_k A_k² Var N_k) for an estimate, where noises that its parts share count once."""
        return math.sqrt(self.weights.variance) + self.beside.deviation

    def half_width(self, confidence: Fraction) -> float:
        if self.beside.exact:
            return self.weights.half_width(confidence)
        each = _half_the_error(confidence)
        return self.weights.half_width(each) + self.beside.half_width(each)

    def reach(self, confidence: Fraction) -> tuple[int, int]:
        """How far the interval reaches below the integer n nearest to θ̂ where θ̂ ≥ n, and its
        width. Where θ̂ < n and the width is odd, it reaches one step further.

        The width is that of `reported_width`, w, on the side of θ̂ where w is odd. So
        low ≤ θ̂ − (w − 1)/2 and high ≥ θ̂ + (w − 1)/2, and since h < (w + 1)/2 no integer of θ̂ ± h
        lies outside: it holds the truth no less often. Here θ̂ has six digits after the point.
        """
        level = confidence if self.beside.exact else _half_the_error(confidence)
        width = reported_width(self.weights.half_width(level)) + 2 * self.beside.half_width(level)
        return width // 2, width

    def probability(
        self, released: int, estimate: float, low: int | None, high: int | None
    ) -> float:
        """P(low − ½ ≤ θ̂ − X ≤ high + ½) for the estimate θ̂ and its error X, a real number.

        θ̂ − X is rounded to the nearest integer, as the value is. Half-way points count half for
        each side, so that the claims θ = k are disjoint and their probabilities add up to 1.
        """
        if low is not None and high is not None and low > high:
            return 0.0
        least = -math.inf if high is None else released - high
        most = math.inf if low is None else released - low
        end, start = _shifted(most, estimate + 0.5), _shifted(least, estimate - 0.5)
        if self.beside.exact:
            return max(0.0, self._cdf(end)[0] - self._cdf(start)[1])
        return max(0.0, 1 - self._beyond(end) - self._beyond(-start))

    def quantile(self, probability: float) -> float:
        if not self.beside.exact:
            raise TypeError("the sum of an answer and an estimate that may share noise has no law")
        return self.weights.error.quantile(probability)

    def suffices(self, aim: Aim) -> bool:
        return aim.met_by(self)

    def _cdf(self, x: float) -> tuple[float, float]:
        """Bounds of ½ P(X < x) + ½ P(X ≤ x)."""
        error = self.weights.error
        at = error.outer_cdf if self.weights.rough else error.cdf
        before, behind = at(x - ROUNDING), at(x + ROUNDING)
        return (before.lower + behind.lower) / 2, (before.upper + behind.upper) / 2

    def _beyond(self, x: float) -> float:
        """An upper bound of P(Σ K_i + X > x), however the two depend on each other: if their sum
        exceeds x, one of them exceeds its share of x."""
        if not math.isfinite(x):
            return float(x < 0)
        own, both = self.beside.deviation, self.deviation
        share = math.floor(x * own / both if both else x)
        own_share = self.beside.probability(0, 0.0, -share, None)
        return 1 - own_share + 1 - self._cdf(x - share)[0]


@dataclass(frozen=True)
class RangeError:
    """The error of a count 0..n that a mechanism with a public range released as ``value``.

    A step of the row's lattice is one record.
    """

    value: int
    mechanism: CountMechanism
    scale: float

    additive: ClassVar[bool] = False
    exact: ClassVar[bool] = False

    @property
    def by(self) -> str:
        return self.mechanism.name

    @property
    def key(self) -> Hashable:
        return self

    @property
    def variance(self) -> float:
        return self.deviation**2

    @property
    def deviation(self) -> float:
        """√E(θ − value)² under the posterior of the truth θ. It includes the bias of the error."""
        return self.mechanism.deviation(self.scale, self.value)

    def half_width(self, confidence: Fraction) -> int:
        below, width = self.reach(confidence)
        return max(below, width - below)

    def reach(self, confidence: Fraction) -> tuple[int, int]:
        """How far the interval reaches below the value, and its width."""
        low, high = self.mechanism.interval(self.scale, self.value, confidence)
        return self.value - low, high - low

    def probability(
        self, released: int, estimate: float, low: int | None, high: int | None
    ) -> float:
        """A lower bound of P(low ≤ truth ≤ high)."""
        return rounded_down(self._probability(low, high))

    def quantile(self, probability: float) -> float:
        """How far the truth exceeds the value at most with this probability, or a little more."""
        inside = (k for k in range(self.mechanism.n) if self._probability(None, k) >= probability)
        return float(next(inside, self.mechanism.n) - self.value)

    def _probability(self, low: int | None, high: int | None) -> Fraction:
        if low is not None and high is not None and low > high:
            return Fraction(0)
        return self.mechanism.probability(self.scale, self.value, low, high)

    def suffices(self, aim: Aim) -> bool:
        """Whether the aim is this very mechanism, at the same or a larger scale."""
        own = self.mechanism
        return aim.mechanism == own and aim.met_by_spread(own.spread(self.scale))


Error: TypeAlias = NoiseSum | EstimateError | RangeError


def _half_the_error(confidence: Fraction) -> Fraction:
    """The confidence of each of two intervals that hold together with ``confidence``."""
    return 1 - (1 - confidence) / 2


def _shifted(x: float, by: float) -> float:
    """x + by, where x may be an integer of any size."""
    try:
        return float(x) + by
    except OverflowError:
        return math.inf if x > 0 else -math.inf
