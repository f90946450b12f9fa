"""The interface of a law of additive integer noise, for sums, intervals and estimates.

A law is symmetric about 0, on the integers. Its characteristic function is positive and falls on
[0, π], which every inversion relies on. Each law has a file of its own; defining the class
registers it in `LAWS`, and `Noises` refers to it by its ``number``.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from tallyveil.arrays import FloatArray
from tallyveil.errors import InvalidParameterValue

__all__ = ["LAWS", "NoiseLaw", "exact_miss"]


@functools.lru_cache(maxsize=256)
def exact_miss(confidence: float | Fraction) -> Fraction:
    """1 − confidence. A float confidence means its decimal text.

    Raises InvalidParameterValue unless 0 < confidence < 1.
    """
    if not 0 < confidence < 1:
        raise InvalidParameterValue(
            f"a confidence lies strictly between 0 and 1, not {confidence}",
            hint="Write 0.95 for 95 percent.",
        )
    return 1 - (
        confidence if isinstance(confidence, Fraction) else Fraction(repr(float(confidence)))
    )


LAWS: list[type[NoiseLaw]] = []
"""By their numbers."""


@dataclass(frozen=True)
class NoiseLaw(ABC):
    """The law of a noise K of this scale; scale 0 means no noise.

    Class methods compute for many noises A_k K_k at once: ``a`` are the A_k > 0, ``scales`` > 0,
    and ``times`` the numbers n_k of independent noises of each kind.
    """

    scale: float
    name: ClassVar[str]  # its name in ledgers, which never changes
    least: ClassVar[float]  # smaller scales count as this one, lest E K² underflow
    heavy: ClassVar[bool]  # whether E e^{λAK} is infinite from λ = 1/(A scale) on
    series_from: ClassVar[float]  # the scale from which its cumulants give ln φ up to A t = 1/5
    number: ClassVar[int]

    def __init_subclass__(cls) -> None:
        cls.number = len(LAWS)
        LAWS.append(cls)

    def __post_init__(self) -> None:
        if not 0 <= self.scale < math.inf:
            raise InvalidParameterValue(
                f"a noise scale is a finite number from 0, not {self.scale}"
            )

    @property
    def variance(self) -> float:
        """Var K; 0 for scale 0."""
        return _variance(self)

    @property
    @abstractmethod
    def epsilon_of_step(self) -> Fraction | None:
        """The largest ln P(K = k)/P(K = k + 1), the loss of a count that moves by 1; None if
        unbounded."""

    @property
    @abstractmethod
    def rho_of_step(self) -> Fraction:
        """An upper bound of the ρ in zCDP that is lost when a count moves by 1."""

    @property
    def widest_rate(self) -> float:
        """The λ from which E e^{λK} is infinite."""
        return 1 / self.scale if self.heavy and self.scale else math.inf

    def half_width(self, confidence: float | Fraction) -> int:
        """The least h with P(|K| ≤ h) ≥ confidence, never too small.

        Raises InvalidParameterValue unless 0 < confidence < 1.
        """
        return _half_width(self, confidence)

    @abstractmethod
    def least_half(self, miss: Fraction) -> int:
        """The least h with P(|K| > h) ≤ miss, never too small, for a scale above 0."""

    def tail(self, half: int) -> float:
        """P(|K| > half), rounded up."""
        if half < 0 or self.scale == 0:
            return float(half < 0)
        return self._tail(half)

    @abstractmethod
    def _tail(self, half: int) -> float:
        """As `tail`, for a scale above 0 and half ≥ 0."""

    @abstractmethod
    def log_mass(self, steps: FloatArray) -> FloatArray:
        """ln P(K = k) at k = ``steps``; concave, also between integers."""

    def log_moment(self, rates: FloatArray) -> FloatArray:
        """At least ln E e^{λK} for 0 < λ = ``rates`` < ``widest_rate``."""
        return self.log_moments(np.ones(1), np.array([self.scale]), np.ones(1), rates)

    def phi(self, points: FloatArray) -> FloatArray:
        """The characteristic function E cos(tK) at t = ``points`` in [0, π]."""
        if self.scale == 0:
            return np.ones_like(points)
        one = np.ones(1)
        result: FloatArray = np.exp(self.log_phis(one, np.array([self.scale]), one, points))
        return result

    @classmethod
    def scale_for_half_width(cls, half: int, confidence: float | Fraction) -> float:
        """The largest scale with P(|K| ≤ half) ≥ confidence, rounded down.

        Raises InvalidParameterValue unless 0 ≤ half < 2⁵³ and 0 < confidence < 1.
        """
        return _scale_for_half_width(cls, half, confidence)

    @classmethod
    @abstractmethod
    def widest(cls, half: int, miss: Fraction) -> float:
        """The largest scale with P(|K| > half) ≤ miss, rounded down."""

    @classmethod
    @abstractmethod
    def variances(cls, scales: FloatArray) -> FloatArray:
        """Var K_k; scales may be 0."""

    @classmethod
    def proxies(cls, scales: FloatArray) -> FloatArray:
        """Bounds of Var K_k from above, with E e^{λK} ≤ e^{λ² proxy/2} for small λ."""
        return cls.variances(scales)

    @classmethod
    @abstractmethod
    def log_moments(
        cls, a: FloatArray, scales: FloatArray, times: FloatArray, rates: FloatArray
    ) -> FloatArray:
        """At least Σ_k n_k ln E e^{λ A_k K_k} at λ = ``rates``, within a relative 1e-12 of that."""

    @classmethod
    @abstractmethod
    def log_phis(
        cls, a: FloatArray, scales: FloatArray, times: FloatArray, points: FloatArray
    ) -> FloatArray:
        """Σ_k n_k ln φ_k(A_k t) at t = ``points``."""

    @classmethod
    @abstractmethod
    def log_phi_bounds(cls, scales: FloatArray, angles: FloatArray) -> FloatArray:
        """At least ln φ_k(t) at every t from one of the ``angles`` to 2π less it."""

    @classmethod
    @abstractmethod
    def cumulants(
        cls, a: FloatArray, scales: FloatArray, order: int
    ) -> tuple[FloatArray, FloatArray]:
        """Widths w_k, and factors f_rk for r = 1 … ``order`` (rows): ln E e^{zA_kK_k} =
        Σ_r f_rk (w_k z)^{2r}, every factor from 0 to 1."""


@functools.lru_cache(maxsize=1024)
def _variance(law: NoiseLaw) -> float:
    return float(law.variances(np.array([law.scale]))[0])


@functools.lru_cache(maxsize=4096)
def _half_width(law: NoiseLaw, confidence: float | Fraction) -> int:
    miss = exact_miss(confidence)
    return law.least_half(miss) if law.scale else 0


@functools.lru_cache(maxsize=4096)
def _scale_for_half_width(law: type[NoiseLaw], half: int, confidence: float | Fraction) -> float:
    if not 0 <= half < 2**53:
        raise InvalidParameterValue(f"a half-width is an integer from 0 to 2^53, not {half}")
    return law.widest(half, exact_miss(confidence))
