"""What is known of a row: a released answer, an estimate from several, or a count in a range.

All three say the same things of themselves, which `Released` describes, in units of the row's
lattice, on which the truth is an integer. Probabilities are for a flat prior on the integers
(BAYES §4): the value is the truth plus an error of known law, symmetric about 0, so that the truth
is the value less such an error. A released answer and an estimate add up; a count in a range does
not, for its error depends on the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, TypeAlias

from tallyveil import deadline
from tallyveil.knowledge.answers.aim import Aim
from tallyveil.knowledge.answers.estimate import Estimate
from tallyveil.knowledge.answers.released_answer import EstimatedInterval, Released, shifted
from tallyveil.mechanisms import AnyMechanism, CountMechanism, law_of, mechanism
from tallyveil.mechanisms.units import rounded_down

__all__ = [
    "Estimated",
    "InRange",
    "Known",
    "ranged",
    "released",
    "total",
]

# An estimate is a float; its rounding must not make an interval narrower, and it may lie half-way
# between two integers but for rounding.
_ROUNDING: Final = 1e-6
_DIGITS: Final = 6


_NOTHING: Final = Released(0)


@dataclass(frozen=True, slots=True)
class Estimated:
    """An estimate, and the sum of released answers beside it, which may have a part in it.

    ``reported`` is as that of `Released`, instead of the nearest integer.
    """

    estimate: Estimate
    beside: Released = _NOTHING
    reported: int | None = None

    additive: ClassVar[bool] = True
    by: ClassVar[None] = None
    limits: ClassVar[None] = None

    @property
    def value(self) -> float:
        return self.beside.value + self.estimate.value

    @property
    def exact(self) -> bool:
        """It follows from exact rows alone."""
        return not self.beside.laws and self.estimate.variance == 0

    @property
    def law(self) -> Hashable:
        return id(self.estimate.weights), self.beside.laws

    @property
    def variance(self) -> float:
        return self.deviation**2 if self.beside.laws else self.estimate.variance

    @property
    def deviation(self) -> float:
        """√(Σ_k A_k² Var N_k) of an estimate, in which noises that its parts share count once."""
        return math.sqrt(self.estimate.variance) + self.beside.deviation

    def half_width(self, confidence: Fraction) -> float:
        if not self.beside.laws:
            return self.estimate.half_width(confidence)
        each = _half_the_miss(confidence)
        return self.estimate.half_width(each) + self.beside.half_width(each)

    def interval(self, confidence: Fraction) -> EstimatedInterval:
        """The truth is an integer. So an estimate is rounded to the nearest, and the ends of its
        interval to the integers inside it, and the interval holds the truth no less often."""
        own = self.beside
        level = _half_the_miss(confidence) if own.laws else confidence
        half, width = self.estimate.half_width(level) + _ROUNDING, own.half_width(level)
        value, told = self.estimate.value, self.rounded
        low = own.value + math.ceil(value - half) - width
        high = own.value + math.floor(value + half) + width
        return EstimatedInterval(told, min(told, low), max(told, high))

    @property
    def rounded(self) -> int:
        if self.reported is not None:
            return self.reported
        return self.beside.value + round(round(self.estimate.value, _DIGITS))

    def reporting(self, value: int) -> Estimated:
        return Estimated(self.estimate, self.beside, value)

    def probability(self, low: int | None, high: int | None) -> float:
        """The error X of an estimate θ̂ may be of any real size. The estimate less it is rounded to
        the nearest integer, as the value itself is, and what is half-way counts half for each:
        P(low − ½ ≤ θ̂ − X ≤ high + ½). So the claims θ = k are disjoint, and add up to 1.
        """
        if low is not None and high is not None and low > high:
            return 0.0
        least = -math.inf if high is None else self.beside.value - high
        most = math.inf if low is None else self.beside.value - low
        end = shifted(most, self.estimate.value + 0.5)
        start = shifted(least, self.estimate.value - 0.5)
        if not self.beside.laws:
            return max(0.0, self._cdf(end)[0] - self._cdf(start)[1])
        return max(0.0, 1 - self._beyond(end) - self._beyond(-start))

    def quantile(self, probability: float) -> float:
        if self.beside.laws:
            raise TypeError("the sum of an answer and an estimate that may share noise has no law")
        return self.value + self.estimate.error.quantile(probability)

    @property
    def parts(self) -> tuple[Released, tuple[Estimate, ...]]:
        return self.beside, (self.estimate,)

    def suffices(self, aim: Aim) -> bool:
        return aim.met_by(self)

    def _cdf(self, x: float) -> tuple[float, float]:
        """Bounds of ½ P(X < x) + ½ P(X ≤ x)."""
        error = self.estimate.error
        at = error.outer_cdf if self.estimate.weights.rough else error.cdf
        before, behind = at(x - _ROUNDING), at(x + _ROUNDING)
        return (before.lower + behind.lower) / 2, (before.upper + behind.upper) / 2

    def _beyond(self, x: float) -> float:
        """At least P(Σ K_i + X > x), however the two depend on each other: one of them is beyond
        its share of x."""
        if not math.isfinite(x):
            return float(x < 0)
        own, both = self.beside.deviation, self.deviation
        share = math.floor(x * own / both if both else x)
        own_share = self.beside.probability(self.beside.value - share, None)
        return 1 - own_share + 1 - self._cdf(x - share)[0]


@dataclass(frozen=True)
class InRange:
    """A count 0..n by a mechanism with a public range: it says how likely each truth is.

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
    def law(self) -> Hashable:
        return self

    @property
    def variance(self) -> float:
        return self.deviation**2

    @property
    def deviation(self) -> float:
        """√E(θ − value)² under the posterior of the truth θ: such an error has a bias, which is
        part of it."""
        return self.mechanism.deviation(self.scale, self.value)

    def half_width(self, confidence: Fraction) -> float:
        _, low, high = self.interval(confidence)
        return max(self.value - low, high - self.value)

    def interval(self, confidence: Fraction) -> EstimatedInterval:
        return EstimatedInterval(
            self.value, *self.mechanism.interval(self.scale, self.value, confidence)
        )

    def probability(self, low: int | None, high: int | None) -> float:
        return rounded_down(self._probability(low, high))

    def quantile(self, probability: float) -> float:
        inside = (k for k in range(self.mechanism.n) if self._probability(None, k) >= probability)
        return float(next(inside, self.mechanism.n))

    def _probability(self, low: int | None, high: int | None) -> Fraction:
        if low is not None and high is not None and low > high:
            return Fraction(0)
        return self.mechanism.probability(self.scale, self.value, low, high)

    @property
    def limits(self) -> tuple[int, int]:
        return 0, self.mechanism.n

    @property
    def rounded(self) -> int:
        return self.value

    def reporting(self, value: int) -> InRange:
        raise self._alone

    @property
    def parts(self) -> tuple[Released, tuple[Estimate, ...]]:
        raise self._alone

    @property
    def _alone(self) -> TypeError:
        return TypeError("answers of mechanisms with a public range do not add up")

    def suffices(self, aim: Aim) -> bool:
        """For its own mechanism only, and only at the same scale or a smaller one."""
        return aim.mechanism == self.mechanism and aim.no_less(self.mechanism.spread(self.scale))


Known: TypeAlias = Released | Estimated | InRange
"""An answer of one row, or the sum of several rows' answers."""


def total(rows: Sequence[Known]) -> Known:
    """The sum of some rows, and of what is reported of them; of none it is exactly 0.

    Noises of the rows' own answers are independent of each other, and those that estimates share
    count once. Raises TypeError for several rows if one does not add up.
    """
    if len(rows) == 1:
        return rows[0]
    parts = [row.parts for row in deadline.stoppable(rows)]
    own = Released(
        sum(released.value for released, _ in parts),
        tuple(law for released, _ in parts for law in released.laws),
    )
    estimates = [one for _, several in parts for one in several]
    whole = Estimated(Estimate.total(estimates), own) if estimates else own
    return whole.reporting(sum(row.rounded for row in rows))


def released(noise: AnyMechanism, scale: float) -> Callable[[int], Released | InRange]:
    """What a value says that ``noise`` releases at ``scale``."""
    law = law_of(noise.name, scale)
    if law is None:
        return lambda value: ranged(noise.name, scale, value)
    laws = (law,) if law.scale else ()
    return lambda value: Released(value, laws)


def ranged(name: str, scale: float, value: int) -> InRange:
    """What a value says that a mechanism with a public range has released."""
    noise = mechanism(name)
    if not isinstance(noise, CountMechanism):
        raise TypeError(f"{name} has no public range")
    return InRange(value, noise, scale)


def _half_the_miss(confidence: Fraction) -> Fraction:
    """The level of each of two intervals, of which one may miss as often as both may."""
    return 1 - (1 - confidence) / 2
