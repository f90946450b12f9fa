"""What is known about a row: a released answer, an estimate from several, or a count in a range.

All three have the properties that `Released` describes, in units of the row's lattice, where the
truth is an integer. Probabilities assume a flat prior on the integers (BAYES §4): the value is the
truth plus an error of known law, symmetric about 0, so the truth is the value minus such an error.
Released answers and estimates can be added. A count in a range cannot, because its error depends on
the truth.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Final, TypeAlias

from tallyveil import deadline
from tallyveil.knowledge.answers.aim import Aim
from tallyveil.knowledge.answers.estimate import ROUNDING, Estimate, reported_width
from tallyveil.knowledge.answers.released_answer import EstimatedInterval, Released, shifted
from tallyveil.mechanisms import CountMechanism, mechanism
from tallyveil.mechanisms.units import rounded_down

__all__ = [
    "Estimated",
    "InRange",
    "Known",
    "ranged",
    "total",
]

_DIGITS: Final = 6


_NOTHING: Final = Released(0)


@dataclass(frozen=True, slots=True)
class Estimated:
    """An estimate plus ``beside``, a sum of released answers that the estimate may depend on.

    ``reported`` replaces the nearest integer, as in `Released`.
    """

    estimate: Estimate
    beside: Released = _NOTHING
    reported: int | None = None

    additive: ClassVar[bool] = True
    by: ClassVar[None] = None

    @property
    def value(self) -> float:
        return self.beside.value + self.estimate.value

    @property
    def exact(self) -> bool:
        """Whether it follows from exact rows alone."""
        return not self.beside.laws and self.estimate.variance == 0

    @property
    def law(self) -> Hashable:
        return id(self.estimate.weights), self.beside.laws

    @property
    def variance(self) -> float:
        return self.deviation**2 if self.beside.laws else self.estimate.variance

    @property
    def deviation(self) -> float:
        """√(Σ_k A_k² Var N_k) for an estimate, where noises that its parts share count once."""
        return math.sqrt(self.estimate.variance) + self.beside.deviation

    def half_width(self, confidence: Fraction) -> float:
        if not self.beside.laws:
            return self.estimate.half_width(confidence)
        each = _half_the_error(confidence)
        return self.estimate.half_width(each) + self.beside.half_width(each)

    def interval(self, confidence: Fraction) -> EstimatedInterval:
        """The interval, stretched to hold the reported value.

        Its width is that of `reported_width`, w, around the integer n nearest to θ̂ and on the side
        of θ̂ where w is odd. So low ≤ θ̂ − (w − 1)/2 and high ≥ θ̂ + (w − 1)/2, and since
        h < (w + 1)/2 no integer of θ̂ ± h lies outside: it holds the truth no less often. Here θ̂ has
        six digits after the point.
        """
        own = self.beside
        level = _half_the_error(confidence) if own.laws else confidence
        width, beside = reported_width(self.estimate.half_width(level)), own.half_width(level)
        below = (width + (self._settled < self._nearest)) // 2
        low = own.value + self._nearest - below - beside
        high = low + width + 2 * beside
        reported = self.rounded
        return EstimatedInterval(reported, min(reported, low), max(reported, high))

    @property
    def rounded(self) -> int:
        if self.reported is not None:
            return self.reported
        return self.beside.value + self._nearest

    @property
    def _nearest(self) -> int:
        """The integer nearest to θ̂."""
        return round(self._settled)

    @property
    def _settled(self) -> float:
        """θ̂ without its last digits, which differ between processes and processors."""
        return round(self.estimate.value, _DIGITS)

    def reporting(self, value: int) -> Estimated:
        return Estimated(self.estimate, self.beside, value)

    def probability(self, low: int | None, high: int | None) -> float:
        """P(low − ½ ≤ θ̂ − X ≤ high + ½) for the estimate θ̂ and its error X, a real number.

        θ̂ − X is rounded to the nearest integer, as the value is. Half-way points count half for
        each side, so that the claims θ = k are disjoint and their probabilities add up to 1.
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
        before, behind = at(x - ROUNDING), at(x + ROUNDING)
        return (before.lower + behind.lower) / 2, (before.upper + behind.upper) / 2

    def _beyond(self, x: float) -> float:
        """An upper bound of P(Σ K_i + X > x), however the two depend on each other: if their sum
        exceeds x, one of them exceeds its share of x."""
        if not math.isfinite(x):
            return float(x < 0)
        own, both = self.beside.deviation, self.deviation
        share = math.floor(x * own / both if both else x)
        own_share = self.beside.probability(self.beside.value - share, None)
        return 1 - own_share + 1 - self._cdf(x - share)[0]


@dataclass(frozen=True)
class InRange:
    """A count 0..n released by a mechanism with a public range, which gives a posterior.

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
        """√E(θ − value)² under the posterior of the truth θ. It includes the bias of the error."""
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
    def rounded(self) -> int:
        return self.value

    def reporting(self, value: int) -> InRange:
        raise self._not_additive

    @property
    def parts(self) -> tuple[Released, tuple[Estimate, ...]]:
        raise self._not_additive

    @property
    def _not_additive(self) -> TypeError:
        return TypeError("answers of mechanisms with a public range cannot be added")

    def suffices(self, aim: Aim) -> bool:
        """Whether the aim is this very mechanism, at the same or a larger scale."""
        own = self.mechanism
        return aim.mechanism == own and aim.met_by_spread(own.spread(self.scale))


Known: TypeAlias = Released | Estimated | InRange
"""The answer of one row, or the sum of several rows' answers."""


def total(rows: Sequence[Known]) -> Known:
    """The sum of the rows, which reports the sum of their reported values; exactly 0 for no rows.

    Noises of the rows' own answers are independent; noises that estimates share count once. Raises
    TypeError if one of several rows is not additive.
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


def ranged(name: str, scale: float, value: int) -> InRange:
    """The answer of a value that mechanism ``name`` released. Raises TypeError if it has no public
    range."""
    noise = mechanism(name)
    if not isinstance(noise, CountMechanism):
        raise TypeError(f"{name} has no public range")
    return InRange(value, noise, scale)


def _half_the_error(confidence: Fraction) -> Fraction:
    """The confidence of each of two intervals that hold together with ``confidence``."""
    return 1 - (1 - confidence) / 2
