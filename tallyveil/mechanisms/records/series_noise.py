"""A series of fixed length, perturbed as one value: near itself at every time (METRIC Ex. 2 and 4).

A series x has a value at each of k times, on a grid 0 … n of whole steps, so that diam(D) = n in
the distance ‖x − x′‖ = max_i |x_i − x′_i|, which is METRIC's sup norm at the k times (by its
Theorem 3 and Ex. 4 finitely many times suffice). A series with a missing value is missing as a
whole; its distance from every other is n.

The noise has the law that matches this norm, the K-norm mechanism of Hardt & Talwar 2010, "On the
Geometry of Differential Privacy", on whole steps and for the cube:

    P(U = u) ∝ e^{−‖u‖/b} for u ∈ ℤ^k,

and x + U is clamped to the ends of the grid, time by time, which is post-processing. By the
triangle inequality P(y|x) ≤ e^{‖x−x′‖/b} P(y|x′). For large b = n/ε, the mean error is (k+1)b/2 at
each time, and kb for the largest; with Laplace noise at ε/k for each time it would be kb at each
time, and kb(1 + 1/2 + … + 1/k) for the largest.

As for one number (`clamped_laplace`), a randomised response of ε/2 perturbs whether the series is
missing, and a missing one has noise around the middle of the grid, at most h = ⌈n/2⌉ from any
series. With b ≥ 2h/ε

- two series: e^{n/b} ≤ e^ε;
- a series and a missing one, output a series: e^{ε/2} · e^{h/b} ≤ e^ε;
- a series and a missing one, output missing: e^{ε/2}.

**Drawing it.** U is uniform on the cube {−R, …, R}^k with P(R = r) ∝ a^r (2r+1)^k, a = e^{−1/b}:
Σ_{r ≥ ‖u‖} a^r (1−a) = a^‖u‖. And Σ_r (2r+1)^k a^r = Σ_m B(k,m) a^m / (1−a)^{k+1} with the Eulerian
numbers of type B (Brenti 1994, "q-Eulerian Polynomials Arising from Coxeter Groups"), so that
R = m + G_0 + … + G_k, where m has weight B(k,m) a^m and the G_i have P(G = g) = (1−a) a^g.

**What is not exact** is covered by b. To draw m, a is replaced by a rational number with a relative
error of 2⁻¹⁸⁰, so the relative error of each P(R = r) is below 2⁻¹⁷⁰. A G of 2⁵⁶ or more counts as
2⁵⁶; with b ≤ 2⁴² and n ≤ 2⁴⁰ that is less than e^{−2¹³} times as likely as any output. Ratios of
probabilities for series a step or more apart change by factors within 1 ± 2⁻¹⁶⁰, and
b ≥ (2h/ε)(1 + 2⁻⁵²) compensates for more: 1/b ≤ ε/2h − 2⁻⁵⁴ ε/h, and ε/h > 2⁻⁴³. Equal series have
the same noise.
"""

from __future__ import annotations

import math
import secrets
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Final

import numpy as np

from tallyveil.arrays import IntArray
from tallyveil.cache import cached_property
from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.noise.exact_draws import uniform_below
from tallyveil.mechanisms.noise.laplace import geometric_numbers
from tallyveil.mechanisms.records.grid import OnGrid, scale_above
from tallyveil.mechanisms.records.record_response import odds_below

__all__ = ["SeriesNoise", "type_b_eulerian"]

_LONGEST: Final = 2**56
_WIDEST: Final = 2.0**42
_LARGEST_GRID: Final = 2**40
# b is at least 1/45, so that a ≥ e^{−45}: more noise than needed if one step may cost ε = 45.
_NARROWEST: Final = Fraction(1, 45)


class SeriesNoise(OnGrid):
    """Perturbs a series, with one axis of the codes for each time.

    Raises InvalidParameterValue for an ε that is not positive and finite, or so small that b
    exceeds 2⁴².
    """

    name = "series noise"
    audited = ((4,), (2, 2), (6, 6), (4, 4, 4), (5, 5))
    room = Fraction(1, 2**159)

    def __init__(self, times: int, size: int, epsilon: Fraction) -> None:
        if not (times >= 1 and size >= 2):
            raise ValueError("a series has a time, and its grid and NULL two cells at least")
        if not (size <= _LARGEST_GRID and size**times < 2**59):
            raise ValueError("the series has more values than an index can name")
        super().__init__(times, size, epsilon)

    def _scale(self, farthest: int) -> float:
        least = max(_NARROWEST, 2 * farthest / self.epsilon)
        scale = scale_above(least * (1 + Fraction(1, 2**52))) if farthest else 0.0
        if not scale <= _WIDEST:
            raise InvalidParameterValue(
                f"epsilon {float(self.epsilon):g} is too small for a series"
            )
        return scale

    @classmethod
    def of(cls, shape: Sequence[int], epsilon: Fraction) -> SeriesNoise:
        """As declared. Raises ValueError unless all columns have the same number of cells."""
        (size,) = set(shape)
        return cls(len(shape), size, epsilon)

    def _error(self) -> float:
        """Return the error of noise cut off at n, a bound for every x (METRIC eq. 13).

        It is E min(‖U‖, n) = Σ_{j=1}^n P(‖U‖ ≥ j), where P(‖U‖ = r) ∝ a^r ((2r+1)^k − (2r−1)^k).
        Clamping to the grid moves no value further away. A missing series is n from any other.
        """
        k, r = self.times, np.arange(self.diameter, dtype=np.float64)
        shells = (2 * r + 1) ** k - np.where(r > 0, np.abs(2 * r - 1) ** k, 0.0)
        gap = -math.expm1(-1 / self.scale)
        whole = sum(b * math.exp(-m / self.scale) for m, b in enumerate(type_b_eulerian(k)))
        log_whole = math.log(whole) - k * math.log(gap)
        within = np.cumsum(np.exp(np.log(shells) - r / self.scale - log_whole))
        return float(np.sum(1 - np.minimum(within, 1.0)))

    def _noise(self, count: int) -> IntArray:
        half = self._radii(count)
        edges = np.tile((2 * half + 1).astype(np.uint64), self.times)
        drawn = uniform_below(edges).astype(np.int64).reshape(self.times, count)
        noise: IntArray = drawn - half
        return noise

    def _radii(self, count: int) -> IntArray:
        """Draw R = m + G_0 + … + G_k."""
        weights = self._weights
        places = [bisect_right(weights, secrets.randbelow(weights[-1])) for _ in range(count)]
        radii = np.array(places, dtype=np.int64)
        for _ in range(self.times + 1):
            radii += geometric(self.scale, count)
        return radii

    @cached_property
    def _weights(self) -> Sequence[int]:
        """The cumulative sums of B(k,m) q^{k−m}, as integers, with a rational q just below
        e^{1/b}."""
        q = odds_below(1 / Fraction(self.scale))
        numbers = type_b_eulerian(self.times)
        k = self.times
        return list(
            accumulate(
                number * q.numerator ** (k - m) * q.denominator**m
                for m, number in enumerate(numbers)
            )
        )


def geometric(scale: float, count: int) -> IntArray:
    """Draw G with P(G = g) = (1−a) a^g, a = e^{−1/b}, b = ``scale``; larger draws become 2⁵⁶."""
    return np.minimum(geometric_numbers(scale, count), _LONGEST).astype(np.int64)


def type_b_eulerian(k: int) -> list[int]:
    """Return B(k, 0), …, B(k, k), where B(k, m) = (2m+1) B(k−1, m) + (2(k−m)+1) B(k−1, m−1)
    (Brenti 1994)."""
    numbers = [1]
    for j in range(1, k + 1):
        before = [0, *numbers, 0]
        numbers = [
            (2 * m + 1) * own + (2 * (j - m) + 1) * last
            for m, (last, own) in enumerate(pairwise(before))
        ]
    return numbers
