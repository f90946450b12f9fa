"""Linear combinations of noises, independent except those drawn together (`weighted_draw`).

For a combination X = Σ A_k N_k of independent noises, with real coefficients, this file computes

    K(λ)     = ln E e^{λX}, finite for |λ| below `WeightedNoise.limit`, or a bound of it,
    ln φ(t)  = ln E e^{itX}, where every factor of φ is positive,

and a bound of P(|X| > x), Chernoff's 2 min_λ e^{K(λ) − λx}. For noises drawn together, K is that
of the independent ones that dominate them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tallyveil.alike import run_starts
from tallyveil.arrays import BoolArray, FloatArray
from tallyveil.cache import cached_property
from tallyveil.errors import InvalidParameterValue
from tallyveil.inference.laws.noise_law import LAWS, NoiseLaw
from tallyveil.inference.laws.noises import Noises

if TYPE_CHECKING:
    from tallyveil.inference.conditional.weighted_draw import Weighted

__all__ = ["WeightedNoise", "sum_bound"]

_DEAD: Final = -41.0  # φ < 2e-18
_DUST: Final = 1e-12
_CHUNK: Final = 32768
_SERIES_FROM: Final = 24  # fewer terms are evaluated one by one
_ORDER: Final = 10  # of cumulants
_NEAR: Final = 1 - np.geomspace(1e-3, 0.9, 16)  # shares of the limit

_Terms: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class WeightedNoise:
    """X = Σ A_k N_k with ``coefficients`` A, without the terms that are zero.

    Terms are sorted by |A_k| × scale, the largest first. Equal independent terms are merged, and
    ``times`` counts them. Terms below 1e-12 of the largest, as rounding errors leave, are left out;
    ``slack`` bounds |Σ A_k N_k| over them except with probability 1e-20. ``joint`` are the sums of
    the noises drawn together.
    """

    coefficients: FloatArray
    noises: Noises
    times: FloatArray
    slack: float = 0.0
    joint: tuple[Weighted, ...] = ()

    @classmethod
    def of(cls, coefficients: FloatArray, noises: Noises) -> WeightedNoise:
        """Raises InvalidParameterValue unless there is one finite coefficient for each noise."""
        a = np.abs(np.asarray(coefficients, dtype=np.float64))
        if a.shape != noises.scales.shape or not np.isfinite(a).all():
            raise InvalidParameterValue("each noise has one finite coefficient")
        sizes = a * noises.scales
        order = np.lexsort((noises.laws, noises.scales, -sizes))
        largest = float(sizes[order[0]]) if len(order) else 0.0
        number = np.count_nonzero(sizes > _DUST * largest)
        slack = sum_bound(sizes[order[number:]], 1e-20)
        a, own = a[order[:number]], noises.take(order[:number])
        if noises.together is None:
            return cls._merged(a, own, slack)
        weights = np.asarray(coefficients, dtype=np.float64)
        joint = tuple(one for one in noises.functionals(weights) if len(one.steps))
        slack += sum(one.slack for one in joint)
        return cls(a, own, np.ones(number), slack, joint)

    @classmethod
    def _merged(cls, a: FloatArray, noises: Noises, slack: float = 0.0) -> WeightedNoise:
        """From independent terms in order; equal neighbours are merged."""
        first = run_starts(a, noises.scales, noises.laws)
        times = np.diff(first, append=len(a)).astype(np.float64)
        return cls(a[first], noises.take(first), times, slack)

    @cached_property
    def independent(self) -> WeightedNoise:
        """X without the noises drawn together."""
        together = self.noises.together
        if together is None and not self.joint:
            return self
        own = (
            np.arange(len(self.sizes)) if together is None else np.flatnonzero(together.owners < 0)
        )
        return self._merged(self.coefficients[own], self.noises.take(own))

    @cached_property
    def steps(self) -> FloatArray:
        """X is a sum of whole multiples of these."""
        parts = [self.independent.coefficients, *(one.steps for one in self.joint)]
        return np.concatenate(parts)

    @cached_property
    def scales(self) -> FloatArray:
        """For each step at least the scale of a noise as wide as the sum of its terms."""
        own = self.independent
        scales = own.noises.scales * np.sqrt(own.times)
        return np.concatenate([scales, *(one.scales for one in self.joint)])

    @property
    def work(self) -> int:
        """About the number of operations of φ for each point, without the independent terms."""
        return sum(one.work for one in self.joint)

    def in_units(self, step: float) -> WeightedNoise:
        """X/step, whose coefficients are integers except for rounding errors."""
        own = self.independent
        joint = tuple(one.in_units(step) for one in self.joint)
        return WeightedNoise(np.rint(own.coefficients / step), own.noises, own.times, 0.0, joint)

    @cached_property
    def sizes(self) -> FloatArray:
        """|A_k| times the scale, descending."""
        return self.coefficients * self.noises.scales

    @cached_property
    def variance(self) -> float:
        """Var X: Σ A_k² Var N_k of the independent terms, plus the variance of the others."""
        own = self.independent
        alone = float((own.times * own.coefficients**2 * own.noises.variances).sum())
        return alone + sum(one.variance for one in self.joint)

    def _terms(
        self, chunk: slice | npt.NDArray[np.intp] = slice(None)
    ) -> Iterator[tuple[type[NoiseLaw], _Terms]]:
        """For each law the coefficients, scales and numbers of these terms."""
        laws = self.noises.laws[chunk]
        every = self.coefficients[chunk], self.noises.scales[chunk], self.times[chunk]
        for law in self._laws if len(laws) else ():
            if len(self._laws) == 1:
                yield law, every
                continue
            own = laws == law.number
            if own.any():
                a, scales, times = (each[own] for each in every)
                yield law, (a, scales, times)

    @cached_property
    def _laws(self) -> list[type[NoiseLaw]]:
        own = set(self.noises.laws.tolist())
        return [law for law in LAWS if law.number in own]

    @cached_property
    def limit(self) -> float:
        """K(λ) is finite for |λ| < limit."""
        largest = [(a * scales).max() for law, (a, scales, _) in self._terms() if law.heavy]
        return 1 / float(max(largest)) if largest else math.inf

    def cumulant_generating(self, rates: FloatArray) -> FloatArray:
        """K(λ), or a bound of it with discrete Gaussian terms, at rates 0 ≤ λ < limit, within a
        relative 1e-12. Terms far below their limit are summed by their cumulants."""
        split = self._small_from(float(rates.max()))
        total = np.zeros(len(rates))
        for law, terms in self._terms(slice(split)):
            total += law.log_moments(*terms, rates)
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
        """An upper bound of P(X ≥ x), x > 0, by Chernoff, min_λ e^{K(λ) − λx}; at most 1/2."""
        if not len(self.sizes):
            return 0.0
        rates = self._rates(x / self._spread)
        exponents = self.cumulant_generating(rates) - rates * x * (1 - 1e-9)
        return min(0.5, math.exp(min(0.0, float(exponents.min()))) * (1 + 1e-9))

    @cached_property
    def _spread(self) -> float:
        """An upper bound of the variance."""
        every = self._terms()
        return float(sum(times * a**2 @ law.proxies(scales) for law, (a, scales, times) in every))

    def _rates(self, normal: float) -> FloatArray:
        """The λ to try for Chernoff's bound: near the best one for a normal law, and near the limit
        if that is exceeded."""
        rates = normal * np.array([0.55, 0.7, 0.85, 1.0, 1.15])
        if rates[-1] > 0.5 * self.limit:  # elsewhere K is nearly that of a normal law
            rates = np.concatenate([rates[rates < 0.999 * self.limit], _NEAR * self.limit])
        return rates

    def log_phi(self, points: FloatArray, level: float = _DEAD) -> FloatArray:
        """ln φ(t) at ascending t ≥ 0, −∞ where it is below ``level``. Elsewhere the error is within
        1e-12, of φ or of 1.

        The terms for which t is small are summed by their cumulants, the others one by one.
        """
        own = self.independent
        if own is not self:
            alone = own.log_phi(points, level) if len(own.sizes) else np.zeros(len(points))
            alive = np.flatnonzero(alone > level)
            for one in self.joint:
                alone[alive] += one.log_phi(points[alive])
            return np.where(alone > level, alone, -np.inf)
        split = max(self._small_from(float(points[-1])), self._last_without_series)
        total = np.zeros(len(points))
        if split < len(self.sizes):
            total += self._series(split, points, -1.0)
        start, left = 0, _stretch(total > level)
        while start < split and left.stop:
            stop = min(start + max(4, _CHUNK // (left.stop - left.start)), split)
            for law, terms in self._terms(slice(start, stop)):
                total[left] += law.log_phis(*terms, points[left])
            left = _stretch(total > level)
            start = stop
        return np.where(total > level, total, -np.inf)

    def dead_between(self, first: FloatArray, last: FloatArray, level: float = _DEAD) -> BoolArray:
        """For each i whether ln φ(t) < level for all t from first_i to last_i follows from how far
        A_k t is from the multiples of 2π, where the term's φ is 1.

        A term is used only if A_k t passes none of these; noises drawn together are never used.
        """
        own = self.independent
        if own is not self:
            return own.dead_between(first, last, level)
        total = np.zeros(len(first))
        for law, (a, scales, times) in self._terms():
            start, end = a[:, None] * first, a[:, None] * last
            turn = 2 * math.pi * np.floor(start / (2 * math.pi))
            near = np.minimum(start - turn, turn + 2 * math.pi - end)
            total += times @ law.log_phi_bounds(scales[:, None], np.maximum(near, 0.0))
        dead: BoolArray = total < level
        return dead

    def _small_from(self, last: float) -> int:
        """The first term of those whose size is below 1/(5 ``last``)."""
        if len(self.sizes) < _SERIES_FROM or not last > 0:
            return len(self.sizes)
        return int(np.searchsorted(-self.sizes, -1 / (5 * last)))

    @cached_property
    def _last_without_series(self) -> int:
        least = np.array([law.series_from for law in LAWS])
        found = np.flatnonzero(self.noises.scales < least[self.noises.laws])
        return int(found[-1]) + 1 if len(found) else 0

    @cached_property
    def _cumulants(self) -> tuple[float, FloatArray]:
        """A unit u, and c_r(A_k N_k) u^{−2r} for r = 1 … 10 (rows) and every k (columns)."""
        widths, factors = np.zeros(len(self.sizes)), np.zeros((_ORDER, len(self.sizes)))
        for law, (a, scales, times) in self._terms():
            own = self.noises.laws == law.number
            widths[own], found = law.cumulants(a, scales, _ORDER)
            factors[:, own] = found * times
        unit = float(widths.max())
        squares = np.broadcast_to((widths / unit) ** 2, factors.shape)
        return unit, np.multiply.accumulate(squares, axis=0) * factors

    def _series(self, start: int, points: FloatArray, sign: float) -> FloatArray:
        """Σ_r c_r (±t²)^r, r ≤ 10, of the terms from ``start`` on, for ln φ and K: with τ = 4t
        below their limits, the rest is at most 4^{−22} K(τ), as cumulants are positive.
        """
        unit, terms = self._cumulants
        squares = np.broadcast_to(sign * (points * unit) ** 2, (len(terms), len(points)))
        result: FloatArray = terms[:, start:].sum(axis=1) @ np.multiply.accumulate(squares, axis=0)
        return result


def _stretch(chosen: BoolArray) -> slice:
    """The slice from the first chosen to the last, so that evenly spaced points stay so."""
    some = np.flatnonzero(chosen)
    return slice(int(some[0]), int(some[-1]) + 1) if len(some) else slice(0, 0)


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
