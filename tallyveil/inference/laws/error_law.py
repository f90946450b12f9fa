"""The law of the error of a linear estimate, Σ A_k N_k, symmetric about zero (BAYES §4 and §5.2).

Every probability is a pair of bounds that include the numerical error, and every width follows from
the bound that makes it wider. The bounds are within `TOLERANCE` of each other where all
coefficients are in whole-number proportion. Otherwise the law's points lie on no lattice, and a
width can be too wide by about R/8,000, where R is the reach: no less than the half-width at
1 − 10⁻¹⁰, some 6 to 17 standard deviations.

The estimate is θ̂ = θ + X, and so θ = θ̂ − X, whose law is the posterior under a flat prior on the
reals. The interval θ̂ ± h is the narrowest symmetric one of its probability (BAYES Algorithm 3, on
the law itself instead of its rounding to integers), which is its coverage too, whatever the truth.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from scipy.special import ndtri

from tallyveil.arrays import FloatArray
from tallyveil.cache import cached_property
from tallyveil.errors import InvalidParameterValue
from tallyveil.inference.laws.noise_law import LAWS, NoiseLaw, exact_miss
from tallyveil.inference.laws.noises import Noises
from tallyveil.inference.laws.spectrum import (
    Lattice,
    Outer,
    ProbabilityBounds,
    Spectrum,
    spectrum,
)
from tallyveil.inference.laws.weighted_noise import WeightedNoise

__all__ = ["ErrorLaw"]

TOLERANCE: Final = 1e-9
_NEGLECTED: Final = TOLERANCE / 10
_LEAST_MISS: Final = 1e-6  # below it Chernoff's bound is used
_FURTHER: Final = 1.04  # factor by which half-widths mostly exceed a normal law's
_TABLED: Final = 1e-11  # the largest error of sums of tabled probabilities


class ErrorLaw:
    """The law of X = Σ A_k N_k. Immutable; expensive parts are computed at the first use.

    Raises InvalidParameterValue unless there is one finite coefficient for each noise.
    """

    def __init__(self, coefficients: FloatArray, noises: Noises) -> None:
        self._law = WeightedNoise.of(coefficients, noises)
        self._given = np.asarray(coefficients, dtype=np.float64), noises

    @classmethod
    def of_sum(cls, laws: Mapping[NoiseLaw, int]) -> ErrorLaw:
        """The law of the sum of independent noises; ``laws`` has the number of noises of each."""
        each = np.repeat(np.arange(len(laws)), np.array([*laws.values()], dtype=np.int64))
        numbers = np.array([law.number for law in laws], dtype=np.int8)
        noises = Noises(numbers, np.array([law.scale for law in laws], dtype=np.float64))
        return cls(np.ones(len(each)), noises.take(each))

    @property
    def variance(self) -> float:
        return self._law.variance

    def mixed_with(self, noises: Noises, weight: float) -> ErrorLaw:
        """The law of (1 − weight) X + weight · (the sum of other, independent noises)."""
        coefficients, own = self._given
        return ErrorLaw(
            np.concatenate([coefficients * (1 - weight), np.full(len(noises), weight)]),
            Noises.concatenated([own, noises]),
        )

    @cached_property
    def _spectrum(self) -> Spectrum:
        return spectrum(self._law, _NEGLECTED)

    @cached_property
    def _single(self) -> _Discrete | _Tabled | None:
        """The direct form of the law, if it is that of a single noise or of a tabled sum of noises
        drawn together."""
        law = self._law
        if law.joint:
            tabled = law.joint[0].masses() if len(law.steps) == 1 else None
            return None if tabled is None else _Tabled(*tabled)
        if len(law.sizes) != 1 or law.times[0] != 1:
            return None
        own = LAWS[law.noises.laws[0]](float(law.noises.scales[0]))
        return _Discrete(float(law.coefficients[0]), own)

    def within(self, h: float, *, strict: bool = False) -> ProbabilityBounds:
        """Bounds of P(|X| ≤ h), or of P(|X| < h)."""
        if math.isnan(h):
            raise InvalidParameterValue("a half-width is a number, not NaN")
        if not len(self._law.steps) or h < 0:
            inside = h > 0 or (h == 0 and not strict)
            return ProbabilityBounds(float(inside), float(inside))
        if h == math.inf:
            return ProbabilityBounds(1.0, 1.0)
        if self._single is not None:
            low, high = (
                self._single.miss(h + off, strict) for off in (-self._law.slack, self._law.slack)
            )
            return ProbabilityBounds.clipped(1 - low - 1e-15, 1 - high + _NEGLECTED)
        slack = self._law.slack
        if slack:
            narrow, wide = (self._spectrum.within(h + off, strict) for off in (-slack, slack))
            return ProbabilityBounds(narrow.lower, wide.upper)
        return self._spectrum.within(h, strict)

    def half_width(self, confidence: float | Fraction) -> float:
        """The least h for which the bounds show P(|X| ≤ h) ≥ confidence; never too small.

        Raises InvalidParameterValue unless 0 < confidence < 1.
        """
        miss = exact_miss(confidence)
        if not len(self._law.sizes):
            return 0.0
        if isinstance(self._single, _Discrete):
            return self._single.half_width(confidence) + self._law.slack
        if not len(self._law.steps):
            return self._law.slack
        if miss < _LEAST_MISS or (self._single is None and isinstance(self._spectrum, Outer)):
            return self._law.reach(float(miss) * (1 - 1e-6)) + self._law.slack
        if self._single is not None:
            return self._single.half_width(float(miss) - 1e-15) + self._law.slack
        target, slack = float(1 - miss) + 1e-15, self._law.slack
        if isinstance(self._spectrum, Lattice):
            return self._lattice_half_width(self._spectrum, target)
        end = self._spectrum.reach
        guess = math.sqrt(self._law.variance) * float(ndtri((1 + target) / 2))
        return _least(self._spectrum.at_least, target, guess, end, 1e-7) + slack

    def outer_half_width(self, confidence: float | Fraction) -> float:
        """An h with P(|X| ≤ h) ≥ confidence by Chernoff's bound: quick, and somewhat too wide.

        Raises InvalidParameterValue unless 0 < confidence < 1.
        """
        if not 0 < confidence < 1 or not len(self._law.steps) or self._single is not None:
            return self.half_width(confidence)
        miss = float(1 - Fraction(str(confidence))) * (1 - 1e-6)
        return self._law.reach(miss) + self._law.slack

    def _lattice_half_width(self, lattice: Lattice, target: float) -> float:
        every = range(math.ceil(lattice.reach / lattice.step))
        steps = bisect_left(every, True, key=lambda n: lattice.lower(n) >= target)
        return steps * lattice.step + lattice.slack + self._law.slack

    def cdf(self, x: float, *, strict: bool = False) -> ProbabilityBounds:
        """Bounds of P(X ≤ x), or of P(X < x)."""
        if x > 0 or (x == 0 and not strict):
            inside = self.within(x, strict=strict)
            return ProbabilityBounds((1 + inside.lower) / 2, (1 + inside.upper) / 2)
        inside = self.within(-x, strict=not strict)
        return ProbabilityBounds((1 - inside.upper) / 2, (1 - inside.lower) / 2)

    def outer_cdf(self, x: float) -> ProbabilityBounds:
        """Bounds of P(X ≤ x) by Chernoff's bound: quick, and somewhat too far apart."""
        if not len(self._law.steps) or self._single is not None or not math.isfinite(x):
            return self.cdf(x)
        miss = min(0.5, self._law.tail(max(abs(x) - self._law.slack, 0.0)) + 1e-20)
        return ProbabilityBounds(1 - miss, 1.0) if x >= 0 else ProbabilityBounds(0.0, miss)

    def quantile(self, probability: float) -> float:
        """From 1/2 on the least x for which the bounds show P(X ≤ x) ≥ probability; below 1/2 the
        negative of the quantile of 1 − probability.

        Raises InvalidParameterValue unless 0 < probability < 1.
        """
        if probability < 0.5:
            return -self.quantile(1 - probability)
        both = 2 * Fraction(str(probability)) - 1 if probability < 1 else probability
        return self.half_width(both) if both else 0.0


@dataclass(frozen=True)
class _Discrete:
    """A K, with K of a law on the integers."""

    step: float
    law: NoiseLaw

    def miss(self, h: float, strict: bool) -> float:
        """P(|X| > h), of P(|X| ≥ h) if strict."""
        steps = math.ceil(h / self.step) - 1 if strict else math.floor(h / self.step)
        return self.law.tail(steps) if steps < 2**53 else 0.0

    def half_width(self, confidence: float | Fraction) -> float:
        return self.step * self.law.half_width(confidence)


@dataclass(frozen=True)
class _Tabled:
    """A K, with P(K = k) for k = 0, 1, …, each to 1e-13."""

    step: float
    masses: FloatArray

    @cached_property
    def _beyond(self) -> FloatArray:
        """At least P(|K| > k)."""
        tails = np.cumsum(self.masses[::-1])[::-1]
        return np.append(2 * tails[1:], 0.0) + _TABLED

    def miss(self, h: float, strict: bool) -> float:
        """P(|X| > h), of P(|X| ≥ h) if strict."""
        steps = math.ceil(h / self.step) - 1 if strict else math.floor(h / self.step)
        return (
            float(min(1.0, self._beyond[min(steps, len(self._beyond) - 1)])) if steps >= 0 else 1.0
        )

    def half_width(self, miss: float) -> float:
        return self.step * int(np.searchsorted(-self._beyond, -miss))


def _least(
    lower: Callable[[float], float], target: float, guess: float, end: float, precision: float
) -> float:
    """The least multiple of ``precision`` · ``end`` at which the continuous ``lower`` reaches the
    target, as it does at ``end``. Uses secants, or bisection where these leave the bracket,
    starting at ``guess``. Where they stop depends on the last digits, the multiple does not."""
    low, high, step = 0.0, end, precision * end
    last, here = guess, min(_FURTHER * guess, end)
    off = lower(last) - target
    while abs(here - last) > step:
        now = lower(here) - target
        low, high = (low, here) if now >= 0 else (here, high)
        ahead = here - now * (here - last) / (now - off) if now != off else high
        if ahead <= 0 and lower(0.0) >= target:
            return 0.0
        last, off, here = here, now, ahead if low < ahead < high else (low + high) / 2
    near = math.ceil(here / step)
    for steps in (near, near + 1, near - 1):
        if lower(steps * step) >= target > lower((steps - 1) * step):
            return steps * step
    # It is flat here, as between the values of errors that are nearly whole.
    every = range(math.ceil(end / step) + 1)
    return step * bisect_left(every, True, key=lambda steps: lower(steps * step) >= target)
