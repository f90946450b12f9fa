"""The discrete Laplace law, and intervals for the truth from one observation (MATH §3, §4).

K has P(K = k) = (1−a)/(1+a) · a^|k|, a = e^{−1/b}, with b > 0 the scale in lattice units. Hence

    P(|K| > h) = 2 a^{h+1} / (1 + a),        Var K = 2a / (1−a)²,

and y ± h is both the symmetric confidence interval and, under a flat prior on the integers, the
narrowest symmetric credible interval of the truth (BAYES Algorithm 3 for one observation).

The solutions are computed in 50-digit decimal arithmetic, whose exp and ln are correctly
rounded, and then moved to the safe side by a relative 1e-40, far more than the rounding error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from functools import cache, lru_cache
from typing import ClassVar, Final

import numpy as np

from tallyveil.arrays import FloatArray
from tallyveil.inference.laws.noise_law import NoiseLaw
from tallyveil.inference.laws.waves import sines

__all__ = ["DiscreteLaplaceLaw"]

_CONTEXT = Context(prec=50, Emin=-(10**15), Emax=10**15)
_MARGIN = Decimal("1e-40")
_TWO = Decimal(2)
_PRODUCT: Final = 700.0  # about the logarithm of the largest float
_KEPT: Final = 256  # scales whose variances are cached


def _rounded_down(miss: Fraction) -> Decimal:
    """The decimal in the context's precision, rounded down."""
    return Decimal(miss.numerator) / Decimal(miss.denominator) * (1 - _MARGIN)


@dataclass(frozen=True)
class DiscreteLaplaceLaw(NoiseLaw):
    """P(K = k) = (1−a)/(1+a) · a^|k|, a = e^{−1/b}, b the scale."""

    name: ClassVar[str] = "discrete_laplace"
    least: ClassVar[float] = 1 / 64
    heavy: ClassVar[bool] = True
    series_from: ClassVar[float] = 0.0

    @property
    def epsilon_of_step(self) -> Fraction:
        """1/b."""
        return 1 / Fraction(self.scale)

    @property
    def rho_of_step(self) -> Fraction:
        """ε²/2 = 1/(2b²), as for every ε-DP mechanism (Bun & Steinke 2016, Proposition 1.4)."""
        return self.epsilon_of_step**2 / 2

    def least_half(self, miss: Fraction) -> int:
        """h + 1 ≥ b · (ln 2 − ln(1+a) − ln δ), δ = miss."""
        with localcontext(_CONTEXT):
            b = Decimal(self.scale)
            a = (-1 / b).exp()
            bound = b * (_TWO.ln() - (1 + a).ln() - _rounded_down(miss).ln())
            least = (bound * (1 + _MARGIN)).to_integral_value(ROUND_CEILING)
        return max(0, int(least) - 1)

    def _tail(self, half: int) -> float:
        with localcontext(_CONTEXT):
            b = Decimal(self.scale)
            exact = _TWO * (-(half + 1) / b).exp() / (1 + (-1 / b).exp()) * (1 + _MARGIN)
        return min(1.0, math.nextafter(float(exact), math.inf))

    def log_mass(self, steps: FloatArray) -> FloatArray:
        """ln (1−a)/(1+a) − |k|/b, where (1−a)/(1+a) = tanh(1/2b)."""
        result: FloatArray = math.log(math.tanh(0.5 / self.scale)) - np.abs(steps) / self.scale
        return result

    @classmethod
    def widest(cls, half: int, miss: Fraction) -> float:
        """u = 1/b is the root of the convex, increasing F(u) = (h+1)u + ln(1+e^{−u}) − ln(2/δ).

        F(ln(2/δ)/(h+1)) > 0, so Newton's steps from there descend to the root without
        overshooting.
        """
        with localcontext(_CONTEXT):
            level = (_TWO / _rounded_down(miss)).ln()
            u = step = level / (half + 1)
            while step > u * _MARGIN:
                e = (-u).exp()
                step = ((half + 1) * u + (1 + e).ln() - level) / ((half + 1) - e / (1 + e))
                u -= step
            scale = float(1 / u * (1 - _MARGIN))
        while cls(scale).least_half(miss) > half:
            scale = math.nextafter(scale, 0.0)
        return scale

    @classmethod
    def variances(cls, scales: FloatArray) -> FloatArray:
        """2a/(1−a)², within a few units in the last place, coded as (√(2a) / (1−a))² with
        1−a = −expm1(−1/b): nothing cancels for large b. 0 for the scale 0."""
        found = _variances if scales.size <= _KEPT else _variances.__wrapped__
        return found(scales.tobytes()).reshape(scales.shape)

    @classmethod
    def log_moments(
        cls, a: FloatArray, scales: FloatArray, times: FloatArray, rates: FloatArray
    ) -> FloatArray:
        """E e^{sK} = (1−a)² / ((1 − a e^s)(1 − a e^{−s})), which is 1 / (1 − 2v sinh²(s/2)) with
        s = λ A and v the variance."""
        spread = 2 * cls.variances(scales)
        excess = spread[:, None] * np.sinh(a[:, None] / 2 * rates) ** 2
        result: FloatArray = -times @ np.log1p(-excess)
        return result

    @classmethod
    def log_phis(
        cls, a: FloatArray, scales: FloatArray, times: FloatArray, points: FloatArray
    ) -> FloatArray:
        """φ(t) = (1−a)² / (1 − 2a cos t + a²) = 1 / (1 + 2v sin²(t/2)) (MATH §4)."""
        excess, spread = sines(a / 2, points), 2 * cls.variances(scales)
        np.square(excess, out=excess)
        excess *= spread[:, None]
        if (times == 1).all() and float(np.log1p(spread).sum()) < _PRODUCT:
            excess += 1  # so that one logarithm is enough
            product: FloatArray = np.multiply.reduce(excess, axis=0)
            return np.negative(np.log(product, out=product), out=product)
        result: FloatArray = -times @ np.log1p(excess, out=excess)
        return result

    @classmethod
    def log_phi_bounds(cls, scales: FloatArray, angles: FloatArray) -> FloatArray:
        """φ falls from 0 to π and has the period 2π: from s to 2π − s it is at most φ(s)."""
        result: FloatArray = -np.log1p(2 * cls.variances(scales) * np.sin(angles / 2) ** 2)
        return result

    @classmethod
    def cumulants(
        cls, a: FloatArray, scales: FloatArray, order: int
    ) -> tuple[FloatArray, FloatArray]:
        """c_r = (2/(2r)!) Σ_n α^n n^{2r−1} = (2/(2r)!) Σ_k E(2r−1, k) α^{k+1} / (1−α)^{2r}, with
        α = e^{−1/b} and the Eulerian numbers E."""
        alpha = np.exp(-1 / scales)
        eulerian = _eulerian_factors(order)
        powers = np.multiply.accumulate(
            np.broadcast_to(alpha, (eulerian.shape[1], len(alpha))), axis=0
        )
        factors: FloatArray = eulerian @ powers
        return a / -np.expm1(-1 / scales), factors


@lru_cache(maxsize=256)  # cumulants of the same scales are needed again and again
def _variances(scales: bytes) -> FloatArray:
    with np.errstate(divide="ignore", over="ignore"):
        u = 1 / np.frombuffer(scales)
    result: FloatArray = (np.sqrt(2 * np.exp(-u)) / np.expm1(-u)) ** 2
    result.setflags(write=False)
    return result


@cache
def _eulerian_factors(order: int) -> FloatArray:
    """For each r (rows) the factors of α^1, α^2, … in c_r (1−α)^{2r}, all at most 1."""
    result = np.zeros((order, 2 * order - 1))
    for r in range(1, order + 1):
        for k, count in enumerate(_eulerian(2 * r - 1)):
            result[r - 1, k] = 2 * count / math.factorial(2 * r)
    return result


def _eulerian(n: int) -> list[int]:
    """E(n, 0), …, E(n, n−1), by E(n, k) = (k+1) E(n−1, k) + (n−k) E(n−1, k−1)."""
    row = [1]
    for size in range(2, n + 1):
        row = [
            (k + 1) * (row[k] if k < size - 1 else 0) + (size - k) * (row[k - 1] if k else 0)
            for k in range(size)
        ]
    return row
