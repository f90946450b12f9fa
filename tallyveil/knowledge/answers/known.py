"""What is known about one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, NamedTuple

from tallyveil import deadline
from tallyveil.inference import NoiseLaw
from tallyveil.knowledge.answers.errors import EXACT, Error, EstimateError, NoiseSum, RangeError
from tallyveil.knowledge.answers.estimate import Estimate
from tallyveil.mechanisms import CountMechanism, mechanism

__all__ = ["DIGITS", "EstimatedInterval", "Known", "total"]

DIGITS: Final = 6
"""Estimates are rounded without their last digits, which differ between processes."""


class EstimatedInterval(NamedTuple):
    """An answer and the ends of its interval, in lattice units."""

    value: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Known:
    """A row's answer: what was ``released``, an ``estimate``, or the sum of both, with its error.

    ``reported``, if given, is reported instead of the nearest integer so that rows of a statement
    add up. Everything is in units of the row's lattice.
    """

    error: Error
    released: int
    estimate: Estimate | None = None
    reported: int | None = None

    @classmethod
    def with_noise(cls, value: int, *laws: NoiseLaw) -> Known:
        """The truth plus independent noises of these laws; exact if there are none."""
        return cls(NoiseSum(tuple(law for law in laws if law.scale)), value)

    @classmethod
    def estimated(cls, estimate: Estimate) -> Known:
        return cls(EstimateError(estimate.weights), 0, estimate)

    @classmethod
    def in_range(cls, name: str, scale: float, value: int) -> Known:
        """The value that mechanism ``name`` released. Raises TypeError if it has no public
        range."""
        noise = mechanism(name)
        if not isinstance(noise, CountMechanism):
            raise TypeError(f"{name} has no public range")
        return cls(RangeError(value, noise, scale), value)

    @property
    def value(self) -> float:
        """The answer before it is rounded."""
        return self.released if self.estimate is None else self.released + self.estimate.value

    @property
    def rounded(self) -> int:
        """The integer to report."""
        if self.reported is not None:
            return self.reported
        return self.released + round(self._settled)

    @property
    def _settled(self) -> float:
        """The estimate without its last digits."""
        return 0.0 if self.estimate is None else round(self.estimate.value, DIGITS)

    def reporting(self, value: int) -> Known:
        """Return the answer with ``value`` reported, which its interval is stretched to hold."""
        own = self.estimate is None and value == self.released
        return replace(self, reported=None if own else value)

    def interval(self, confidence: Fraction) -> EstimatedInterval:
        """The value to report, and an interval stretched to hold it."""
        below, width = self.error.reach(confidence)
        nearest, reported = round(self._settled), self.rounded
        low = self.released + nearest - below - (width & (self._settled < nearest))
        return EstimatedInterval(reported, min(reported, low), max(reported, low + width))

    def probability(self, low: int | None, high: int | None) -> float:
        """The probability that the truth is from ``low`` to ``high``, never too large but for
        rounding; None for no bound."""
        theta = 0.0 if self.estimate is None else self.estimate.value
        return self.error.probability(self.released, theta, low, high)

    def quantile(self, probability: float) -> float:
        """A value that the truth does not exceed with this probability, or a little more.

        Raises InvalidParameterValue unless 0 < probability < 1.
        """
        return self.value + self.error.quantile(probability)


def total(rows: Sequence[Known]) -> Known:
    """The sum of the rows, which reports the sum of their reported values; exactly 0 for no rows.

    Noises of the rows' own answers are independent; noises that estimates share count once. Raises
    TypeError if one of several rows is not additive.
    """
    if len(rows) == 1:
        return rows[0]
    laws, estimates = list[NoiseLaw](), list[Estimate]()
    for row in deadline.stoppable(rows):
        error = row.error
        if isinstance(error, RangeError):
            raise TypeError("answers of mechanisms with a public range cannot be added")
        laws += (error.beside if isinstance(error, EstimateError) else error).laws
        if row.estimate is not None:
            estimates.append(row.estimate)
    own, released = NoiseSum(tuple(laws)) if laws else EXACT, sum(row.released for row in rows)
    whole = Known(own, released)
    if estimates:
        one = Estimate.total(estimates)
        whole = Known(EstimateError(one.weights, own), released, one)
    return whole.reporting(sum(row.rounded for row in rows))
