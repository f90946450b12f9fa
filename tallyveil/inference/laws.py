"""Laws of additive integer noise, as far as sums and intervals need to know them.

A law is symmetric about 0 and lives on the integers. Its characteristic function is positive and
falls on [0, π], which the inversion in `noise_sums` relies on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tallyveil.inference import discrete_gaussian, discrete_laplace
from tallyveil.inference.confidence import check_scale
from tallyveil.inference.noise import Law

__all__ = ["DiscreteGaussianLaw", "DiscreteLaplaceLaw", "Floats", "NoiseLaw"]

Floats: TypeAlias = npt.NDArray[np.float64]


class NoiseLaw(Protocol):
    """A frozen, hashable value. Scale 0 is no noise at all."""

    @property
    def family(self) -> Law:
        """What `Noises` calls it."""
        ...

    @property
    def scale(self) -> float: ...

    @property
    def variance(self) -> float: ...

    def __hash__(self) -> int: ...

    @property
    def widest_rate(self) -> float:
        """The λ from which on E e^{λK} is infinite."""
        ...

    def half_width(self, confidence: float | Fraction) -> int:
        """The least h with P(|K| ≤ h) ≥ confidence, never too small."""
        ...

    def tail(self, half: int) -> float:
        """P(|K| > half), rounded up."""
        ...

    def log_mass(self, steps: Floats) -> Floats:
        """ln P(K = k) at k = ``steps``; concave, also between integers."""
        ...

    def phi(self, points: Floats) -> Floats:
        """The characteristic function E cos(tK) at t = ``points`` in [0, π]."""
        ...

    def log_moment(self, rates: Floats) -> Floats:
        """At least ln E e^{λK} for 0 < λ = ``rates`` < ``widest_rate``."""
        ...


@dataclass(frozen=True)
class DiscreteLaplaceLaw:
    """P(K = k) = (1−a)/(1+a) · a^|k|, a = e^{−1/b}, b the scale."""

    scale: float

    def __post_init__(self) -> None:
        check_scale(self.scale)

    @property
    def family(self) -> Law:
        return Law.DISCRETE_LAPLACE

    @property
    def variance(self) -> float:
        return discrete_laplace.variance(self.scale)

    @property
    def widest_rate(self) -> float:
        return 1 / self.scale if self.scale else math.inf

    def half_width(self, confidence: float | Fraction) -> int:
        return discrete_laplace.half_width(self.scale, confidence)

    def tail(self, half: int) -> float:
        return discrete_laplace.tail(half, self.scale)

    def log_mass(self, steps: Floats) -> Floats:
        """ln (1−a)/(1+a) − |k|/b, where (1−a)/(1+a) = tanh(1/2b)."""
        result: Floats = math.log(math.tanh(0.5 / self.scale)) - np.abs(steps) / self.scale
        return result

    def phi(self, points: Floats) -> Floats:
        """(1−a)² / (1 − 2a cos t + a²) = 1 / (1 + 2v sin²(t/2)), v the variance (MATH §4)."""
        result: Floats = np.exp(-np.log1p(2 * self.variance * np.sin(points / 2) ** 2))
        return result

    def log_moment(self, rates: Floats) -> Floats:
        """ln (1−a)² / ((1 − a e^λ)(1 − a e^{−λ})), coded without cancellation."""
        if self.scale == 0:
            return np.zeros_like(rates)
        u = 1 / self.scale
        result: Floats = (
            2 * np.log(-np.expm1(-u)) - np.log(-np.expm1(rates - u)) - np.log(-np.expm1(-rates - u))
        )
        return result


@dataclass(frozen=True)
class DiscreteGaussianLaw:
    """P(K = k) = e^{−k²/2σ²} / Σ_n e^{−n²/2σ²}, σ the scale."""

    scale: float

    def __post_init__(self) -> None:
        check_scale(self.scale)

    @property
    def family(self) -> Law:
        return Law.DISCRETE_GAUSSIAN

    @property
    def variance(self) -> float:
        return discrete_gaussian.variance(self.scale)

    @property
    def widest_rate(self) -> float:
        return math.inf

    def half_width(self, confidence: float | Fraction) -> int:
        return discrete_gaussian.half_width(self.scale, confidence)

    def tail(self, half: int) -> float:
        return discrete_gaussian.tail(half, self.scale)

    def log_mass(self, steps: Floats) -> Floats:
        """−k²/2σ² − ln N."""
        normaliser = math.log(discrete_gaussian.normaliser(self.scale))
        result: Floats = -((steps / self.scale) ** 2) / 2 - normaliser
        return result

    def phi(self, points: Floats) -> Floats:
        """Σ_k e^{−k²/2σ²} cos kt / N for σ < 1; else, by Poisson's summation formula,
        Σ_m e^{−σ²(t − 2πm)²/2} / Σ_m e^{−σ²(2πm)²/2}. Terms beyond |m| = 2 and |k| = 12 are less
        than 1e-31 of the whole.
        """
        s = self.scale
        if s == 0:
            return np.ones_like(points)
        if s < 1:
            k = np.arange(1, 13, dtype=np.float64)
            weights = np.exp(-((k / s) ** 2) / 2)
            series: Floats = 1 + 2 * np.cos(np.outer(points, k)) @ weights
            return series / float(1 + 2 * weights.sum())
        turns = 2 * np.pi * np.arange(-2, 3, dtype=np.float64)
        whole = np.exp(-((s * turns) ** 2) / 2).sum()
        terms = np.exp(-((s * (points[:, None] - turns[None, :])) ** 2) / 2)
        result: Floats = terms.sum(axis=1) / whole
        return result

    def log_moment(self, rates: Floats) -> Floats:
        """λ²σ²/2: the discrete Gaussian is sub-Gaussian with its own σ (Canonne, Kamath & Steinke
        2020): E e^{λK} e^{−λ²σ²/2} = Σ_k e^{−(k − λσ²)²/2σ²} / N, and no shift has a larger sum.
        """
        result: Floats = (rates * self.scale) ** 2 / 2
        return result
