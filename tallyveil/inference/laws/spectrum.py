"""Probabilities of a symmetric law from its characteristic function, with the error bounded.

X is a `WeightedNoise`, φ its characteristic function, η a small probability, and P = 2R with
P(|X| > R) ≤ η. On the circle of length P, with t_j = 2πj/P, X wrapped around has

    P(|X| ≤ h mod P) = 2h/P + (2/π) Σ_{j≥1} φ(t_j) sin(t_j h)/j,

which for h ≤ R is at least P(|X| ≤ h) and at most η more. Two ways end the sum:

`Lattice`: all X lies on the multiples of a step g, and the sum is finite and exact: with P = gN,
    N = 2M+1,  P(|X| ≤ ng mod P) = (1/N) (2n+1 + 2 Σ_{j≤M} φ(t_j) sin((n+½) g t_j)/sin(g t_j/2)).
`Bracket`: otherwise Selberg's trigonometric polynomials of degree N−1, above and below the
    indicator of [−h, h] on the circle (Montgomery 1994, Ten Lectures, ch. 1), with
    f(u) = −(1−u) cot πu − 1/π:
    E S± = 2h/P − (2/N) Σ_{j<N} f(j/N) φ(t_j) sin(t_j h)
           ± (1/N) (1 + 2 Σ_{j<N} (1−j/N) φ(t_j) cos(t_j h)).
    No term is left out; the two differ by the probability within about P/N of ±h.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from tallyveil.arrays import FloatArray, IntArray
from tallyveil.cache import cached_property
from tallyveil.inference.laws.waves import Waves
from tallyveil.inference.laws.weighted_noise import WeightedNoise, sum_bound

__all__ = ["Lattice", "Outer", "ProbabilityBounds", "Spectrum", "spectrum"]

_BRACKET_POINTS: Final = 2**14
_LATTICE_POINTS: Final = 2**17
_FEWEST_POINTS: Final = 2**9
_WORK: Final = 3_000_000  # operations, where noises are drawn together
_FIRST_BLOCK: Final = 16
_SHORT: Final = 128  # block
_PIECES: Final = 32  # into which a longer one is divided
_FEW_RUNS: Final = 4  # of blocks, which are computed one by one
_ROUNDING: Final = 2e-11  # of sums of up to 10⁵ terms below 1 in double precision
_LARGEST_RATIO: Final = 1000
_ROUNDED: Final = 1e-9
_OFF_THE_LATTICE: Final = 1e-6


class ProbabilityBounds(NamedTuple):
    """Bounds of a probability."""

    lower: float
    upper: float

    @classmethod
    def clipped(cls, lower: float, upper: float) -> ProbabilityBounds:
        return cls(float(min(1.0, max(0.0, lower))), float(min(1.0, max(0.0, upper))))


@dataclass(frozen=True, eq=False)
class Spectrum(ABC):
    """``phi`` is φ(t_j) by j; 0 at j = 0 and where φ is negligible."""

    period: float
    reach: float
    neglected: float
    phi: FloatArray

    def within(self, h: float, strict: bool = False) -> ProbabilityBounds:
        """Bounds of P(|X| ≤ h), or of P(|X| < h) if strict."""
        if h < 0:
            return ProbabilityBounds(0.0, 0.0)
        if h >= self.reach:
            return ProbabilityBounds(1 - self.neglected, 1.0)
        return self._within(h, strict)

    def at_least(self, h: float) -> float:
        """A lower bound of P(|X| ≤ h), which may be negative."""
        return self.within(h).lower

    @abstractmethod
    def _within(self, h: float, strict: bool) -> ProbabilityBounds:
        """As `within`, for 0 ≤ h < reach."""


@dataclass(frozen=True, eq=False)
class Lattice(Spectrum):
    """X on the multiples of ``step``. Except with probability ``neglected``, X is within ``slack``
    of the lattice."""

    step: float
    slack: float

    def _within(self, h: float, strict: bool) -> ProbabilityBounds:
        low, high = (h - self.slack) / self.step, (h + self.slack) / self.step
        if strict:
            return self._at(math.ceil(low) - 1, math.ceil(high) - 1)
        return self._at(math.floor(low), math.floor(high))

    def lower(self, n: int) -> float:
        """A lower bound of P(|X| ≤ n · step)."""
        return self._mass(n) - _ROUNDING - 2 * self.neglected

    def _at(self, low: int, high: int) -> ProbabilityBounds:
        return ProbabilityBounds.clipped(
            self.lower(low), self._mass(high) + _ROUNDING + self.neglected
        )

    def _mass(self, n: int) -> float:
        if n < 0:
            return 0.0
        share = self.step / self.period
        terms = float(self._waves.at((2 * n + 1) * math.pi * share)[0].imag)
        return (2 * n + 1 + 2 * terms) * share

    @cached_property
    def _waves(self) -> Waves:
        weights, numbers = np.zeros((1, len(self.phi))), np.flatnonzero(self.phi)
        points = 2 * math.pi / self.period * numbers
        weights[0, numbers] = self.phi[numbers] / np.sin(self.step / 2 * points)
        return Waves(weights)


@dataclass(frozen=True, eq=False)
class Outer(Spectrum):
    """No sum: Chernoff's bound of the tails."""

    law: WeightedNoise

    def _within(self, h: float, strict: bool) -> ProbabilityBounds:
        beyond = 2 * self.law.tail(h * (1 - 1e-12)) if h > 0 else 1.0
        return ProbabilityBounds.clipped(1 - beyond - self.neglected, 1.0)


@dataclass(frozen=True, eq=False)
class Bracket(Spectrum):
    """``degree`` is N."""

    degree: int

    @cached_property
    def _waves(self) -> Waves:
        return Waves(_selberg(self.degree)[:, : len(self.phi)] * self.phi)

    def _within(self, h: float, strict: bool) -> ProbabilityBounds:
        middle, off = self._middle(h)
        return ProbabilityBounds.clipped(middle - off - self.neglected, middle + off)

    def at_least(self, h: float) -> float:
        if not 0 <= h < self.reach:
            return super().at_least(h)
        middle, off = self._middle(h)
        return middle - off - self.neglected

    def _middle(self, h: float) -> tuple[float, float]:
        """The centre of the bounds, and their distance from it."""
        waves = self._waves.at(2 * math.pi / self.period * h)
        middle = 2 * h / self.period - 2 / self.degree * float(waves[0].imag)
        return middle, (1 + 2 * float(waves[1].real)) / self.degree + _ROUNDING


@lru_cache(maxsize=4)
def _selberg(degree: int) -> FloatArray:
    """f(j/N) and 1 − j/N for j < N; f(0), which is undefined, as 0."""
    share = np.arange(degree) / degree
    f = np.zeros(degree)
    f[1:] = -(1 - share[1:]) / np.tan(math.pi * share[1:]) - 1 / math.pi
    return np.array([f, 1 - share])


def spectrum(law: WeightedNoise, neglected: float) -> Spectrum:
    """The best way to end the sum for a law with at least one term; η = ``neglected``."""
    reach = law.reach(neglected)
    return (
        _lattice(law, reach, neglected)
        or _bracket(law, reach, neglected)
        or Outer(2 * reach, reach, neglected, np.zeros(0), law)
    )


def _bracket(law: WeightedNoise, reach: float, neglected: float) -> Bracket | None:
    """A `Bracket`, or None where too few points can be computed."""
    number = _BRACKET_POINTS
    while number * law.work > _WORK:
        number //= 2
    if number < _FEWEST_POINTS:
        return None
    level = _level(number, neglected)
    phi = _phi(law, number - 1, math.pi / reach, level)
    return Bracket(2 * reach, reach, 1.1 * neglected, phi, number)


def _level(number: int, neglected: float) -> float:
    """The ln φ below which φ may be left out at N points. The error is at most
    Σ_j (2/π + 2j/N) φ/j, or Σ_j φ/j with a `Lattice`, which is η/10."""
    return math.log(neglected / (10 * (2 + math.log(number))))


def _phi(law: WeightedNoise, count: int, unit: float, level: float) -> FloatArray:
    """φ(j · unit) for j ≤ count, up to the last value of at least the level; 0 for smaller values
    and at j = 0."""
    starts, stops = _alive(law, count, unit, level)
    phi = np.zeros(max(stops, default=1))
    joints = np.flatnonzero(starts[1:] == stops[:-1])
    runs = list(map(np.arange, np.delete(starts, joints + 1), np.delete(stops, joints)))
    for run in [np.concatenate(runs)] if len(runs) > _FEW_RUNS else runs:
        points = np.multiply(run, unit, dtype=np.float64)
        phi[run] = np.exp(law.log_phi(points, level))
    return phi[: int(np.flatnonzero(phi).max(initial=0)) + 1]


def _alive(law: WeightedNoise, count: int, unit: float, level: float) -> tuple[IntArray, IntArray]:
    """The starts and stops of blocks of 1 … count that hold every j at which φ may reach the level.
    Blocks are halved as long as some turn out to be below it."""
    starts = np.append(1, _FIRST_BLOCK << np.arange(count.bit_length()))
    starts = starts[starts <= count]
    stops = np.append(starts[1:], count + 1)
    while True:
        alive = ~law.dead_between(starts * unit, (stops - 1) * unit, level)
        starts, stops = starts[alive], stops[alive]
        longest = int((stops - starts).max(initial=0))
        if longest <= _SHORT or alive.all():
            return starts, stops
        width = max(_SHORT, longest // _PIECES)
        parts = [np.append(np.arange(a, b, width), b) for a, b in zip(starts, stops, strict=True)]
        starts = np.concatenate([part[:-1] for part in parts])
        stops = np.concatenate([part[1:] for part in parts])


def _common_denominator(ratios: FloatArray) -> int | None:
    """The least D ≤ 1000 with all ratios multiples of 1/D, except for rounding errors."""
    parts = 1
    while True:
        off = np.abs(ratios - np.rint(ratios * parts) / parts)
        worst = int(np.argmax(off))
        if off[worst] <= _ROUNDED:
            return parts
        own = _denominator(float(ratios[worst]))
        if own is None or math.lcm(parts, own) > _LARGEST_RATIO:
            return None
        parts = math.lcm(parts, own)


def _denominator(ratio: float) -> int | None:
    """The least q ≤ 1000 for which the ratio is p/q except for a rounding error. p/q is among the
    convergents of its continued fraction, as every p/q nearer than 1/2q² is."""
    before, here, rest = 0, 1, ratio
    while abs(ratio * here - round(ratio * here)) > _ROUNDED * here:
        rest = 1 / (rest - math.floor(rest))
        before, here = here, math.floor(rest) * here + before
        if here > _LARGEST_RATIO:
            return None
    return here


def _lattice(law: WeightedNoise, reach: float, neglected: float) -> Lattice | None:
    """X on a lattice, if its coefficients are multiples of a step except for rounding errors."""
    if not len(law.steps):
        return None
    largest = float(law.steps.max())
    ratios = law.steps / largest
    parts = _common_denominator(ratios)
    if parts is None:
        return None
    step, whole = largest / parts, np.rint(ratios * parts)
    slack = sum_bound(np.abs(law.steps - whole * step) * law.scales, neglected)
    if not slack <= _OFF_THE_LATTICE * step:
        return None
    half = math.ceil((reach + slack) / step) + 1
    size = 2 * half + 1
    exact, unit = law.in_units(step), 2 * math.pi / size
    level = _level(half, neglected)
    ends = np.ldexp(float(_FEWEST_POINTS), np.arange(half.bit_length()))
    dead = exact.dead_between(ends * unit, np.full(len(ends), half * unit), level)
    number = int(min(half, *ends[dead | (ends >= half)]))
    if number > _LATTICE_POINTS or number * law.work > _WORK:
        return None
    phi = _phi(exact, number, unit, level)
    return Lattice(step * size, reach, 1.1 * neglected, phi, step, slack)
