"""The discrete Gaussian law, and intervals for the truth from one observation (MATH §3).

K has P(K = k) = e^{−k²/2σ²} / N, N = Σ_k e^{−k²/2σ²}, with σ > 0 the scale in lattice units
(Canonne, Kamath & Steinke 2020, Definition 1). Its variance is at most σ².

Tails are summed term by term while σ ≤ 4096. Beyond, N ≥ σ√(2π) and, the density being convex
from σ on, each term is at most the integral over the unit interval around it:

    P(|K| > h) ≤ erfc((h + ½) / (σ√2)),   with h instead of h + ½ where h + ½ < σ.

That is too large by less than one lattice step in 4096. Everything is rounded to the safe side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Final

import numpy as np
from scipy.special import erfc, erfcinv

from tallyveil.arrays import FloatArray
from tallyveil.inference.laws.noise_law import NoiseLaw
from tallyveil.inference.roots import root_between

__all__ = ["DiscreteGaussianLaw"]

_SUMMED: Final = 4096.0
_BITS: Final = 30  # of the widest scale
_REACH: Final = 40  # e^{−40²/2} is less than the smallest float
_MARGIN: Final = 1e-12  # relative, far more than the rounding of sums and of erfc


def _rounded_down(miss: Fraction) -> float:
    nearest = float(miss)
    return nearest if Fraction(nearest) <= miss else math.nextafter(nearest, 0.0)


def _normaliser(scale: float) -> float:
    """N, by its terms or, for σ ≥ 1, by Poisson's summation σ√(2π) Σ_m e^{−2π²σ²m²}."""
    if scale >= 1:
        m = np.arange(1, 4, dtype=np.float64)
        theta = 1 + 2 * float(np.exp(-2 * (math.pi * scale * m) ** 2).sum())
        return scale * math.sqrt(2 * math.pi) * theta
    k = np.arange(1, _REACH + 2, dtype=np.float64)
    return 1 + 2 * float(np.exp(-((k / scale) ** 2) / 2).sum())


@lru_cache(maxsize=4096)
def _variance(scale: float) -> float:
    """Σ k² e^{−k²/2σ²} / N by its terms."""
    k = np.arange(1, math.ceil(_REACH * scale) + 2, dtype=np.float64)
    return float(2 * (k * k * np.exp(-((k / scale) ** 2) / 2)).sum() / _normaliser(scale))


@dataclass(frozen=True)
class DiscreteGaussianLaw(NoiseLaw):
    """P(K = k) = e^{−k²/2σ²} / Σ_n e^{−n²/2σ²}, σ the scale."""

    name: ClassVar[str] = "discrete_gaussian"
    least: ClassVar[float] = 1 / math.sqrt(128)
    heavy: ClassVar[bool] = False
    series_from: ClassVar[float] = 2.0  # from here on φ is the normal law's to a series' precision

    @property
    def epsilon_of_step(self) -> None:
        return None

    @property
    def rho_of_step(self) -> Fraction:
        """1/(2σ²) (Canonne, Kamath & Steinke 2020, Theorem 4)."""
        return 1 / (2 * Fraction(self.scale) ** 2)

    def least_half(self, miss: Fraction) -> int:
        most = _rounded_down(miss)
        half = max(0, math.floor(self.scale * math.sqrt(2) * float(erfcinv(most))) - 1)
        while half > 0 and self.tail(half) <= most:
            half -= 1 + (half >> 40)
        while self.tail(half) > most:
            half += 1 + (half >> 40)
        return half

    def _tail(self, half: int) -> float:
        scale = self.scale
        if scale <= _SUMMED:
            k = np.arange(half + 1, half + 2 + math.ceil(_REACH * scale), dtype=np.float64)
            value = 2 * float(np.exp(-((k / scale) ** 2) / 2).sum()) / _normaliser(scale)
        else:
            start = half + 0.5 if half + 0.5 >= scale else float(half)
            value = float(erfc(start / (scale * math.sqrt(2))))
        return min(1.0, math.nextafter(value * (1 + _MARGIN), math.inf))

    def log_mass(self, steps: FloatArray) -> FloatArray:
        """−k²/2σ² − ln N."""
        normaliser = math.log(_normaliser(self.scale))
        result: FloatArray = -((steps / self.scale) ** 2) / 2 - normaliser
        return result

    @classmethod
    def widest(cls, half: int, miss: Fraction) -> float:
        """Rounded down by less than one part in 10⁹. P(|K| > half) rises with σ, so this is the
        root of one increasing function."""
        most = _rounded_down(miss)

        def tail(scale: float) -> float:
            return cls(scale).tail(half)

        low = high = (half + 0.5) / (math.sqrt(2) * float(erfcinv(most)))
        while tail(low) > most:
            low /= 2
        while tail(high) <= most:
            high *= 2
        return root_between(lambda s: math.log(tail(s) / most), low, high, _BITS)[0]

    @classmethod
    def variances(cls, scales: FloatArray) -> FloatArray:
        """Σ k² e^{−k²/2σ²} / N where σ < 4, otherwise σ², which then differs from it by less than
        e^{−2π²σ²} · 4π²σ⁴ < 1e-100."""
        result = scales**2
        for place in np.flatnonzero((scales < 4) & (scales > 0)):
            result[place] = _variance(float(scales[place]))
        return result

    @classmethod
    def proxies(cls, scales: FloatArray) -> FloatArray:
        return np.maximum(scales**2, cls.variances(scales))

    @classmethod
    def log_moments(
        cls, a: FloatArray, scales: FloatArray, times: FloatArray, rates: FloatArray
    ) -> FloatArray:
        """λ²σ²/2 for A = 1: the discrete Gaussian is sub-Gaussian with its own σ (Canonne, Kamath &
        Steinke 2020): E e^{λK} e^{−λ²σ²/2} = Σ_k e^{−(k − λσ²)²/2σ²} / N, and no shift has a larger
        sum."""
        result: FloatArray = 0.5 * rates**2 * (times @ (a * scales) ** 2)
        return result

    @classmethod
    def log_phis(
        cls, a: FloatArray, scales: FloatArray, times: FloatArray, points: FloatArray
    ) -> FloatArray:
        total = np.zeros(len(points))
        for own, scale, number in zip(a.tolist(), scales.tolist(), times.tolist(), strict=True):
            total += number * _log_phi(own * points, scale)
        return total

    @classmethod
    def log_phi_bounds(cls, scales: FloatArray, angles: FloatArray) -> FloatArray:
        """At most 2.01 e^{−σ²s²/2}: one other term of the sum is at most as large as the first, and
        the rest are far less."""
        result: FloatArray = np.minimum(0.0, 0.7 - 0.5 * (scales * angles) ** 2)
        return result

    @classmethod
    def cumulants(
        cls, a: FloatArray, scales: FloatArray, order: int
    ) -> tuple[FloatArray, FloatArray]:
        """c_1 = σ²/2, the others next to 0."""
        factors = np.zeros((order, len(a)))
        factors[0] = 0.5
        return a * scales, factors


def _log_phi(points: FloatArray, sigma: float) -> FloatArray:
    """ln of Σ_k e^{−k²/2σ²} cos kt / N for σ < 1; otherwise, by Poisson's summation formula, of
    Σ_m e^{−σ²(t − 2πm)²/2} / Σ_m e^{−σ²(2πm)²/2}. Terms beyond |k| = 12σ are less than 1e-31 of
    the whole, those beyond |m| = 1 less than 1e-17."""
    if sigma < 1:
        steps = np.arange(1, math.ceil(12 * sigma) + 1, dtype=np.float64)
        weights = 2 * np.exp(-0.5 * (steps / sigma) ** 2)
        values = (1 + np.cos(np.outer(points, steps)) @ weights) / (1 + weights.sum())
        result: FloatArray = np.log(np.maximum(values, 1e-300))
        return result
    near = np.abs(np.remainder(points + math.pi, 2 * math.pi) - math.pi)
    rate = 2 * math.pi * sigma**2
    others = np.exp(rate * (near - math.pi)) + np.exp(-rate * (near + math.pi))
    none = math.log1p(2 * math.exp(-rate * math.pi))
    ratio: FloatArray = np.log1p(others) - (0.5 * (sigma * near) ** 2 + none)
    return ratio
