"""Probabilities of a symmetric law from its characteristic function, with the error bounded.

X is a `Combination`, φ its characteristic function, η a small probability, and P = 2R with
P(|X| > R) ≤ η. On the circle of length P, with t_j = 2πj/P, X wrapped around has

    P(|X| ≤ h mod P) = 2h/P + (2/π) Σ_{j≥1} φ(t_j) sin(t_j h)/j,

which for h ≤ R is at least P(|X| ≤ h) and at most η more. Three ways to end the sum:

`Series`: break off after J terms. With a Laplace or Gaussian part, φ is at most the part's own
    φ_c, which falls; as Σ_{J<j≤2J} 1/j < ln 2, what is left out is at most
    (2/π) ln 2 · Σ_i φ_c(2^i t_J).
`Lattice`: all X lies on the multiples of a step g, and the sum is finite and exact: with P = gN,
    N = 2M+1,  P(|X| ≤ ng mod P) = (1/N) (2n+1 + 2 Σ_{j≤M} φ(t_j) sin((n+½) g t_j)/sin(g t_j/2)).
`Bracket`: else, Selberg's trigonometric polynomials of degree N−1, which lie above and below the
    indicator of [−h, h] on the circle (Montgomery 1994, Ten Lectures, ch. 1), with
    f(u) = −(1−u) cot πu − 1/π:
    E S± = 2h/P − (2/N) Σ_{j<N} f(j/N) φ(t_j) sin(t_j h)
           ± (1/N) (1 + 2 Σ_{j<N} (1−j/N) φ(t_j) cos(t_j h)).
    Nothing is left out; they differ by what lies within about P/N of ±h.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from tallyveil.inference.noise import Combination, FloatArray, Law

__all__ = ["Bounds", "Bracket", "Lattice", "Series", "Spectrum", "spectrum"]

_SERIES_POINTS: Final = 2**16
_BRACKET_POINTS: Final = 2**14
_LATTICE_POINTS: Final = 2**17
_FIRST_BLOCK: Final = 32
_ROUNDING: Final = 2e-11  # of sums of up to 10⁵ terms below 1 in double precision
_LARGEST_RATIO: Final = 1000


class Bounds(NamedTuple):
    """A probability lies between them."""

    lower: float
    upper: float

    @classmethod
    def clipped(cls, lower: float, upper: float) -> Bounds:
        return cls(float(min(1.0, max(0.0, lower))), float(min(1.0, max(0.0, upper))))


@dataclass(frozen=True, eq=False)
class Spectrum(ABC):
    """φ at ``points`` t_j, ``number`` j; those where φ is negligible are left out."""

    period: float
    reach: float
    neglected: float
    numbers: FloatArray
    phi: FloatArray

    @cached_property
    def points(self) -> FloatArray:
        return 2 * math.pi / self.period * self.numbers

    def within(self, h: float, strict: bool = False) -> Bounds:
        """Bounds of P(|X| ≤ h), of P(|X| < h) if strict."""
        if h < 0:
            return Bounds(0.0, 0.0)
        if h >= self.reach:
            return Bounds(1 - self.neglected, 1.0)
        return self._within(h, strict)

    @abstractmethod
    def _within(self, h: float, strict: bool) -> Bounds:
        """For 0 ≤ h < reach."""

    def density(self, x: FloatArray) -> FloatArray:
        """(1/P) (1 + 2 Σ_j w_j φ(t_j) cos(t_j x)), at |x| ≤ reach, for pictures."""
        weights = 2 * self._damping() * self.phi
        values = np.cos(np.outer(np.clip(x, -self.reach, self.reach), self.points)) @ weights
        result: FloatArray = np.maximum(0.0, (1 + values) / self.period)
        return result

    def _damping(self) -> FloatArray:
        """Fejér's weights: a density smoothed by his kernel, for laws that need not have one."""
        return 1 - self.numbers / (self.numbers[-1] + 1) if len(self.numbers) else self.numbers


@dataclass(frozen=True, eq=False)
class Series(Spectrum):
    left_out: float

    def _within(self, h: float, strict: bool) -> Bounds:
        terms = self.phi * np.sin(self.points * h) / self.numbers
        value = 2 * h / self.period + 2 / math.pi * float(terms.sum())
        off = self.left_out + _ROUNDING
        return Bounds.clipped(value - off - self.neglected, value + off)

    def _damping(self) -> FloatArray:
        return np.ones_like(self.numbers)


@dataclass(frozen=True, eq=False)
class Lattice(Spectrum):
    """``slack`` is how far X may be off the lattice, but for a probability of ``neglected``."""

    step: float
    slack: float

    def _within(self, h: float, strict: bool) -> Bounds:
        low, high = (h - self.slack) / self.step, (h + self.slack) / self.step
        if strict:
            return self.at(math.ceil(low) - 1, math.ceil(high) - 1)
        return self.at(math.floor(low), math.floor(high))

    def at(self, low: int, high: int) -> Bounds:
        """A lower bound of P(|X| ≤ low · step), an upper bound of P(|X| ≤ high · step)."""
        lower = self._mass(low) - _ROUNDING - 2 * self.neglected
        return Bounds.clipped(lower, self._mass(high) + _ROUNDING + self.neglected)

    def _mass(self, n: int) -> float:
        if n < 0:
            return 0.0
        half = self.step / 2 * self.points
        terms = self.phi * np.sin((2 * n + 1) * half) / np.sin(half)
        return (2 * n + 1 + 2 * float(terms.sum())) * self.step / self.period


@dataclass(frozen=True, eq=False)
class Bracket(Spectrum):
    @cached_property
    def _weights(self) -> tuple[FloatArray, FloatArray]:
        share = self.numbers / _BRACKET_POINTS
        f = -(1 - share) / np.tan(math.pi * share) - 1 / math.pi
        return f * self.phi, (1 - share) * self.phi

    def _within(self, h: float, strict: bool) -> Bounds:
        middle_weights, off_weights = self._weights
        angles = self.points * h
        middle = 2 * h / self.period
        middle -= 2 / _BRACKET_POINTS * float(middle_weights @ np.sin(angles))
        off = 1 + 2 * float(off_weights @ np.cos(angles))
        off = off / _BRACKET_POINTS + _ROUNDING
        return Bounds.clipped(middle - off - self.neglected, middle + off)


def spectrum(law: Combination, neglected: float) -> Spectrum:
    """The best way to end the sum for a law with at least one term; η = ``neglected``."""
    reach = law.reach(neglected)
    if np.isin(law.noises.laws, [Law.DISCRETE_LAPLACE, Law.DISCRETE_GAUSSIAN]).all():
        lattice = _lattice(law, reach, neglected)
        if lattice is not None:
            return lattice
    return _series(law, reach, neglected) or _bracket(law, reach, neglected)


def _series(law: Combination, reach: float, neglected: float) -> Series | None:
    laplace, gaussian = law.only(Law.LAPLACE), law.only(Law.GAUSSIAN)
    if not len(laplace.sizes) and not len(gaussian.sizes):
        return None
    variance = gaussian.variance
    widest = float(laplace.sizes[0]) if len(laplace.sizes) else 0.0
    unit = math.pi / reach
    numbers: list[FloatArray] = []
    logs: list[FloatArray] = []
    start = 1
    while start <= _SERIES_POINTS:
        block = np.arange(start, 2 * start if start > _FIRST_BLOCK else start + _FIRST_BLOCK)
        numbers.append(block.astype(np.float64))
        logs.append(law.log_phi(numbers[-1] * unit))
        start = int(block[-1]) + 1
        last = float(numbers[-1][-1]) * unit
        level = float(laplace.log_phi(np.array([last]))[0]) - 0.5 * variance * last**2
        left_out = _beyond(max(level, -41.0), (widest * last) ** 2, variance * last**2)
        if left_out <= neglected:
            j, phi = np.concatenate(numbers), np.exp(np.concatenate(logs))
            keep = phi > 0
            return Series(2 * reach, reach, neglected, j[keep], phi[keep], left_out)
    return None


def _beyond(level: float, x: float, y: float) -> float:
    """(2/π) ln 2 · Σ_{i≥0} φ_c(2^i t), where ln φ_c(t) = level, φ_c has a factor 1/(1+xs²) at st,
    and e^{−ys²/2}: φ_c(st) ≤ φ_c(t) (1+x)/(1+xs²) e^{−y(s²−1)/2}."""
    squares = 4.0 ** np.arange(60)
    ratios = (1 + x) / (1 + x * squares) * np.exp(-0.5 * y * (squares - 1))
    return 2 / math.pi * math.log(2) * math.exp(level) * float(ratios.sum())


def _bracket(law: Combination, reach: float, neglected: float) -> Bracket:
    numbers = np.arange(1, _BRACKET_POINTS, dtype=np.float64)
    pieces = np.split(numbers, 2 ** np.arange(5, 14))
    phi = np.exp(np.concatenate([law.log_phi(piece * (math.pi / reach)) for piece in pieces]))
    keep = phi > 0
    return Bracket(2 * reach, reach, neglected, numbers[keep], phi[keep])


def _lattice(law: Combination, reach: float, neglected: float) -> Lattice | None:
    """X on a lattice, if the coefficients are whole multiples of a step but for rounding errors."""
    largest = float(law.coefficients.max())
    ratios: list[Fraction] = []
    parts = 1
    for a in law.coefficients.tolist():
        ratio = Fraction(a / largest).limit_denominator(_LARGEST_RATIO)
        ratios.append(ratio)
        parts = math.lcm(parts, ratio.denominator)
        if parts > _LARGEST_RATIO:
            return None
    step = largest / parts
    whole = np.array([ratio.numerator * (parts // ratio.denominator) for ratio in ratios])
    distance = np.abs(law.coefficients - whole * step)
    if not (distance <= 1e-12 * largest).all():
        return None
    # |N_k| ≤ b_k ln(2m/η) for all k, but for a probability of at most η; σ_k √(2 ln(2m/η)) is less.
    bound = law.noises.scales * math.log(2 * len(whole) / neglected)
    slack = float((distance * bound).sum())
    half = math.ceil((reach + slack) / step) + 1
    if half > _LATTICE_POINTS:
        return None
    size = 2 * half + 1
    numbers = np.arange(1, half + 1, dtype=np.float64)
    exact = Combination(whole.astype(np.float64), law.noises)
    pieces = np.split(numbers, 2 ** np.arange(5, max(6, int(math.log2(half)))))
    pieces = [piece for piece in pieces if len(piece)]
    phi = np.exp(np.concatenate([exact.log_phi(piece * (2 * math.pi / size)) for piece in pieces]))
    keep = phi > 0
    return Lattice(step * size, reach, neglected, numbers[keep], phi[keep], step, slack)
