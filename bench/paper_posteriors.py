"""The law of Σ A_k L_k, L_k Laplace of scale b_k: by inversion, and in the two ways of BAYES §4.

The gate's noise is discrete and its laws are those of `tallyveil.inference`; these are what the
paper compares. Nothing is released by them, and no interval relies on them.
"""

from __future__ import annotations

import heapq
import itertools
import math

import numpy as np
from scipy.optimize import brentq
from scipy.signal import fftconvolve

from tallyveil.arrays import FloatArray
from tallyveil.inference import ProbabilityBounds

__all__ = ["LaplaceSum", "expected_error", "monte_carlo", "probability_calculation"]

_WRAPPED = 1e-10  # η
_POINTS = 2**17
_CHUNK = 2_000_000
_DIRECT = 256  # shorter vectors are convolved term by term


class LaplaceSum:
    """By inversion of φ(t) = Π_k 1/(1 + (A_k b_k t)²) (BAYES Theorem 4.2).

    On a circle of length 2R, with P(|X| > R) ≤ η by Chernoff and t_j = πj/R,

        P(|X| ≤ h) = h/R + (2/π) Σ_j φ(t_j) sin(t_j h)/j,

    up to η. φ falls, and Σ_{J<j≤2J} 1/j < ln 2: breaking off after J terms leaves out at most
    (2/π) ln 2 Σ_i φ(2^i t_J).
    """

    def __init__(self, coefficients: FloatArray, scales: FloatArray) -> None:
        sizes = np.abs(coefficients) * scales
        self.sizes: FloatArray = sizes[sizes > 0]
        self.variance = float(2 * (self.sizes**2).sum())
        if len(self.sizes) < 2:
            return
        rates = (1 - np.geomspace(1e-3, 0.99, 64)) / self.sizes.max()
        exponents = -np.log1p(-((self.sizes[:, None] * rates) ** 2)).sum(axis=0)
        self._reach = float(((math.log(2 / _WRAPPED) + exponents) / rates).min())
        numbers, logs = [], []
        start, self._left_out = 1, 1.0
        while start <= _POINTS and self._left_out > _WRAPPED:
            numbers.append(np.arange(start, 2 * start + 31, dtype=np.float64))
            logs.append(self._log_phi(numbers[-1] * math.pi / self._reach))
            last = float(numbers[-1][-1]) * math.pi / self._reach
            beyond = np.exp(self._log_phi(np.ldexp(last, np.arange(60))))
            self._left_out = 2 / math.pi * math.log(2) * float(beyond.sum())
            start = int(numbers[-1][-1]) + 1
        self._numbers, self._phi = np.concatenate(numbers), np.exp(np.concatenate(logs))

    def within(self, h: float) -> ProbabilityBounds:
        """Bounds of P(|X| ≤ h)."""
        if len(self.sizes) < 2:
            inside = 1 - math.exp(-h / self.sizes[0]) if len(self.sizes) else 1.0
            return ProbabilityBounds(inside, inside)
        if h >= self._reach:
            return ProbabilityBounds(1 - _WRAPPED, 1.0)
        waves = self._phi * np.sin(self._numbers * (math.pi * h / self._reach)) / self._numbers
        value = h / self._reach + 2 / math.pi * float(waves.sum())
        off = self._left_out + 1e-12
        return ProbabilityBounds.clipped(value - off - _WRAPPED, value + off)

    def half_width(self, confidence: float) -> float:
        """The h with P(|X| ≤ h) = confidence."""
        if len(self.sizes) < 2:
            return -math.log(1 - confidence) * float(self.sizes.sum())

        def missing(h: float) -> float:
            return self.within(h).lower - confidence

        return float(brentq(missing, 0.0, self._reach, rtol=1e-12))

    def _log_phi(self, points: FloatArray) -> FloatArray:
        total = np.zeros(len(points))
        step = max(1, _CHUNK // len(points))
        for start in range(0, len(self.sizes), step):
            total -= np.log1p((self.sizes[start : start + step, None] * points) ** 2).sum(axis=0)
        return total


def monte_carlo(
    coefficients: FloatArray, scales: FloatArray, samples: int, generator: np.random.Generator
) -> FloatArray:
    """u, of odd length: u[c + i] is the share of ``samples`` of Σ A_k L_k that round to i, c the
    middle (BAYES Algorithm 1). Time O(m · samples)."""
    sizes = np.abs(coefficients) * scales
    values = np.zeros(samples)
    step = max(1, _CHUNK // max(1, samples))
    for start in range(0, len(sizes), step):
        part = sizes[start : start + step]
        values += part @ generator.laplace(size=(len(part), samples))
    rounded = np.rint(values).astype(np.int64)
    reach = int(np.abs(rounded).max())
    counts = np.bincount(rounded + reach, minlength=2 * reach + 1)
    result: FloatArray = counts / samples
    return result


def expected_error(mass: FloatArray, samples: int) -> float:
    """A bound of E Σ_i (u_i − E u_i)², |u|/(m_s − 1) · max u (1 − max u) (BAYES Corollary 4.9)."""
    top = float(mass.max())
    return len(mass) / (samples - 1) * top * (1 - top)


def probability_calculation(
    coefficients: FloatArray, scales: FloatArray, lost: float = 0.01
) -> FloatArray:
    """u, of odd length: u[c + i] is about P(i − ½ < Σ A_k L_k ≤ i + ½), c the middle.

    Term k is kept on |v|_k = 2⌈|A_k| b_k ln(m/γ)⌉ + 1 bins, γ = ``lost`` (BAYES Algorithm 2 and
    the example after it, which has the 2 that the printed algorithm drops); the shortest vectors
    are convolved first. Each law is cut into unit bins around the integers before it is convolved,
    so beside the mass that is lost, at most γ, the result has the errors of that rounding, which
    the paper does not count: a term wider than a bin gains the variance of its bins, about 1/12,
    and one far narrower is rounded to 0 and lost.
    """
    sizes = np.abs(coefficients) * scales
    sizes = sizes[sizes > 0]
    order = itertools.count()
    heap = [(len(v), next(order), v) for v in (_binned(s, len(sizes), lost) for s in sizes)]
    heapq.heapify(heap)
    while len(heap) > 1:
        (short, _, u), (_, _, v) = heapq.heappop(heap), heapq.heappop(heap)
        w = np.convolve(u, v) if short < _DIRECT else np.maximum(0.0, fftconvolve(u, v))
        heapq.heappush(heap, (len(w), next(order), w))
    return heap[0][2] if heap else np.ones(1)


def _binned(size: float, terms: int, lost: float) -> FloatArray:
    """P(i − ½ < L ≤ i + ½) of Laplace noise of this scale, |i| ≤ ⌈size ln(m/γ)⌉."""
    reach = math.ceil(size * math.log(terms / lost))
    edges = np.arange(1, 2 * reach + 2, 2) / 2
    tails = 0.5 * np.exp(-edges / size)  # P(L > i + ½), i = 0 … reach
    right = tails[:-1] - tails[1:]
    return np.concatenate([right[::-1], [1 - 2 * tails[0]], right])
