"""Linear combinations of independent noises.

For a combination X = Σ A_k N_k of independent noises, with real coefficients, this file has

    K(λ)     = ln E e^{λX}, finite for |λ| below `WeightedNoise.limit`  (discrete Gaussian: the
               bound ½A²σ²λ², Canonne, Kamath, Steinke 2020, Lemma 9),
    ln φ(t)  = ln E e^{itX}, where every factor of φ is positive:

        discrete Laplace    −ln(1 + 2v sin²(A t/2)),  v = 2a/(1−a)²           (MATH §4)
        discrete Gaussian   ln of Σ_j e^{−σ²(A t+2πj)²/2} / Σ_j e^{−σ²(2πj)²/2}

and a bound of P(|X| > x), Chernoff's 2 min_λ e^{K(λ) − λx}.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference.cumulants import cumulant_terms
from tallyveil.inference.noise import FloatArray, Law, Noises, discrete_laplace_variance

__all__ = ["WeightedNoise", "sum_bound"]

_SMALL_SIGMA: Final = 1.0
_DEAD: Final = -41.0  # φ < 2e-18 counts as 0; `inversion` allows for it
_DUST: Final = 1e-12
_CHUNK: Final = 8192
_FACTORS: Final = 16  # as many as this do not overflow when multiplied
_SERIES_FROM: Final = 24  # fewer terms are evaluated one by one
_LIKE_GAUSSIAN: Final = 2.0  # σ from which the series cannot tell discrete Gaussian from Gaussian

# NumPy compares with plain integers several times faster than with members of an enumeration.
_LAPLACE, _GAUSSIAN = map(int, Law)


@dataclass(frozen=True, eq=False)
class WeightedNoise:
    """X = Σ A_k N_k with ``coefficients`` A; without the terms that are zero.

    Equal terms stay apart. Terms are sorted by |A_k| × scale, the largest first. Terms of less
    than 1e-12 of the largest, such as rounding errors leave, are left out, and ``slack`` bounds
    |Σ A_k N_k| over them but for a probability of 1e-20.
    """

    coefficients: FloatArray
    noises: Noises
    slack: float = 0.0

    @classmethod
    def of(cls, coefficients: FloatArray, noises: Noises) -> WeightedNoise:
        """Raises InvalidParameterValue unless there is one finite coefficient for each noise."""
        a = np.abs(np.asarray(coefficients, dtype=np.float64))
        if a.shape != noises.scales.shape or not np.isfinite(a).all():
            raise InvalidParameterValue("each noise has one finite coefficient")
        sizes = a * noises.scales
        order = np.argsort(-sizes, kind="stable")
        largest = float(sizes[order[0]]) if len(order) else 0.0
        number = np.count_nonzero(sizes > _DUST * largest)
        slack = sum_bound(sizes[order[number:]], 1e-20)
        return cls(a[order[:number]], noises.take(order[:number]), slack)

    @cached_property
    def sizes(self) -> FloatArray:
        """|A_k| times the scale, descending."""
        return self.coefficients * self.noises.scales

    @cached_property
    def variance(self) -> float:
        """Σ A_k² Var N_k."""
        return float((self.coefficients**2 * self.noises.variances).sum())

    @cached_property
    def heavy(self) -> FloatArray:
        """The sizes of the terms with exponential tails, descending."""
        sizes: FloatArray = self.sizes[self.noises.laws == _LAPLACE]
        return sizes

    @property
    def limit(self) -> float:
        """K(λ) is finite for |λ| < limit = 1/max |A_k| b_k."""
        return 1 / float(self.heavy[0]) if len(self.heavy) else math.inf

    def cumulant_generating(self, rates: FloatArray) -> FloatArray:
        """K(λ) (a bound of it with discrete Gaussian terms) at rates 0 ≤ λ < limit, within a
        relative 1e-12. Terms far below their limit are summed up by their cumulants."""
        split = self._small_from(float(rates.max()))
        laws, scales = self.noises.laws[:split], self.noises.scales[:split]
        laplace, gaussian = laws == _LAPLACE, self.sizes[:split][laws == _GAUSSIAN]
        total: FloatArray = 0.5 * rates**2 * (gaussian @ gaussian)
        if laplace.any():
            # (1 − a e^s)(1 − a e^{−s}) / (1−a)² = 1 − 2v sinh²(s/2), s = λ A
            spread = 2 * discrete_laplace_variance(scales[laplace])
            halves = self.coefficients[:split][laplace, None] / 2
            total -= _log_product(1 - spread[:, None] * np.sinh(halves * rates) ** 2)
        if split < len(self.sizes):
            total += self._series(split, rates, 1.0)
        return total

    def reach(self, miss: float) -> float:
        """An x with P(|X| > x) ≤ miss, by Chernoff: min_λ (ln(2/miss) + K(λ)) / λ."""
        if not len(self.sizes):
            return 0.0
        level = math.log(2 / miss)
        rates = self._rates(math.sqrt(2 * level / self._spread))
        bounds = (level + self.cumulant_generating(rates)) / rates
        return float(bounds.min()) * (1 + 1e-9)

    def tail(self, x: float) -> float:
        """At least P(X ≥ x), x > 0, by Chernoff: min_λ e^{K(λ) − λx}; and no more than 1/2."""
        if not len(self.sizes):
            return 0.0
        rates = self._rates(x / self._spread)
        exponents = self.cumulant_generating(rates) - rates * x * (1 - 1e-9)
        return min(0.5, math.exp(min(0.0, float(exponents.min()))) * (1 + 1e-9))

    @property
    def _spread(self) -> float:
        """The variance, but with σ² for that of a discrete Gaussian, where it is larger."""
        proxies = np.where(self.noises.laws == _GAUSSIAN, self.noises.scales**2, 0.0)
        return float((self.coefficients**2 * np.maximum(self.noises.variances, proxies)).sum())

    def _rates(self, normal: float) -> FloatArray:
        """Some λ to try for Chernoff's bound: about what it is for a normal law, and near the
        limit if that is beyond."""
        rates = normal * np.array([0.55, 0.7, 0.85, 1.0, 1.15])
        if rates[-1] > 0.5 * self.limit:  # elsewhere K is nearly that of a normal law
            near = 1 - np.geomspace(1e-3, 0.9, 16)
            rates = np.concatenate([rates[rates < 0.999 * self.limit], near * self.limit])
        return rates

    def log_phi(self, points: FloatArray) -> FloatArray:
        """ln φ(t) at ascending t ≥ 0, −∞ where φ < 2e-18; otherwise within 1e-12.

        The terms for which t is small are summed up by their cumulants, the others one by one.
        """
        split = max(self._small_from(float(points[-1])), self._last_unlike_gaussian)
        total = np.zeros(len(points))
        if split < len(self.sizes):
            total += self._series(split, points, -1.0)
        alive = np.flatnonzero(total > _DEAD)
        start = 0
        while start < split and len(alive):
            stop = min(start + max(4, _CHUNK // len(alive)), split)
            total[alive] += self._log_phi_of(slice(start, stop), points[alive])
            alive = alive[total[alive] > _DEAD]
            start = stop
        return np.where(total > _DEAD, total, -np.inf)

    def dead_between(self, first: float, last: float) -> bool:
        """Whether φ(t) < 2e-18 for all t from ``first`` to ``last`` follows from φ(first).

        That of a noise falls from 0 to π and has the period 2π, so it is at most φ(s) from s to
        2π − s. Of the discrete Gaussian it is at most 2.01 e^{−σ²s²/2}: of its sum's other terms
        one is at most as large as the first.
        """
        laws = self.noises.laws
        within = self.coefficients * (first + last) <= 2 * math.pi
        laplace = (laws == _LAPLACE) & within
        spread = 2 * self.noises.variances[laplace]
        halves = self.coefficients[laplace] / 2
        total = -float(np.log1p(spread * np.sin(halves * first) ** 2).sum())
        widths = (self.sizes[(laws == _GAUSSIAN) & within] * first) ** 2
        total += float(np.minimum(0.0, 0.7 - 0.5 * widths).sum())
        return total < _DEAD

    def _small_from(self, last: float) -> int:
        """The first term of those whose size is below 1/(5 ``last``)."""
        if len(self.sizes) < _SERIES_FROM or not last > 0:
            return len(self.sizes)
        return int(np.searchsorted(-self.sizes, -1 / (5 * last)))

    @cached_property
    def _last_unlike_gaussian(self) -> int:
        laws, scales = self.noises.laws, self.noises.scales
        found = np.flatnonzero((laws == _GAUSSIAN) & (scales < _LIKE_GAUSSIAN))
        return int(found[-1]) + 1 if len(found) else 0

    @cached_property
    def _cumulants(self) -> tuple[float, FloatArray]:
        laplace = self.noises.laws == _LAPLACE
        return cumulant_terms(self.coefficients, self.noises.scales, laplace)

    def _series(self, start: int, points: FloatArray, sign: float) -> FloatArray:
        """Σ_r c_r (±t²)^r, r ≤ 10, of the terms from ``start`` on, for ln φ and K: with τ = 4t
        below their limits, what it leaves out is at most 4^{−22} K(τ), as cumulants are positive.
        """
        unit, terms = self._cumulants
        squares = np.broadcast_to(sign * (points * unit) ** 2, (len(terms), len(points)))
        result: FloatArray = terms[:, start:].sum(axis=1) @ np.multiply.accumulate(squares, axis=0)
        return result

    def _log_phi_of(self, chunk: slice, points: FloatArray) -> FloatArray:
        laws, scales = self.noises.laws[chunk], self.noises.scales[chunk]
        a, laplace = self.coefficients[chunk], laws == _LAPLACE
        total: FloatArray = np.zeros(len(points))
        if laplace.any():
            spread = 2 * self.noises.variances[chunk][laplace]
            sines = np.sin(a[laplace, None] / 2 * points)
            total -= _log_product(1 + spread[:, None] * sines**2)
        for k in np.flatnonzero(laws == _GAUSSIAN):
            total += _log_theta(a[k] * points, scales[k])
        return total


def sum_bound(sizes: FloatArray, miss: float) -> float:
    """An x with P(|Σ A_k N_k| > x) ≤ miss for noises of any laws with these sizes d_k ≥ 0.

    Chernoff's bound (ln(2/miss) + K(λ)) / λ. Both laws have K(λ) ≤ −ln(1 − d²λ²), as sinh(x)/x
    rises, and that is at most 2 d²λ² while d²λ² ≤ ½.
    """
    squares = float(sizes @ sizes)
    if squares == 0:
        return 0.0
    level = math.log(2 / miss)
    rate = min(math.sqrt(level / (2 * squares)), math.sqrt(0.5) / float(sizes.max()))
    return (level / rate + 2 * rate * squares) * (1 + 1e-12)


def _log_product(factors: FloatArray) -> FloatArray:
    """Σ_k ln factors[k], with few logarithms."""
    starts = np.arange(0, len(factors), _FACTORS)
    result: FloatArray = np.log(np.multiply.reduceat(factors, starts, axis=0)).sum(axis=0)
    return result


def _log_theta(points: FloatArray, sigma: float) -> FloatArray:
    """ln φ of the discrete Gaussian, by whichever of its two sums is the shorter."""
    if sigma < _SMALL_SIGMA:
        steps = np.arange(1, 12, dtype=np.float64)
        weights = 2 * np.exp(-0.5 * (steps / sigma) ** 2)
        values = (1 + np.cos(np.outer(points, steps)) @ weights) / (1 + weights.sum())
        result: FloatArray = np.log(np.maximum(values, 1e-300))
        return result
    near = np.remainder(points + math.pi, 2 * math.pi) - math.pi
    shifts = 2 * math.pi * np.arange(-2, 3)
    exponents = -0.5 * (sigma * (near[:, None] + shifts)) ** 2
    largest: FloatArray = exponents[:, 2]
    sums = np.exp(exponents - largest[:, None]).sum(axis=1)
    total = np.exp(-0.5 * (sigma * shifts) ** 2).sum()
    ratio: FloatArray = largest + (np.log(sums) - math.log(total))
    return ratio
