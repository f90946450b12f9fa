"""The half-width of a sum of independent discrete Laplace noises, by inversion.

Each noise of scale b has a = e^{−1/b}, variance v = 2a/(1−a)² and the characteristic function
(MATH §4)

    (1−a)² / (1 − 2a cos t + a²) = 1 / (1 + 2v sin²(t/2)),

and φ, that of the sum S, is their product: positive, even, and falling on [0, π]. On the circle
of N points the law of S is known exactly up to what wraps around it:

    P(|S| ≤ h)  ≥  (1/N) Σ_k φ(2πk/N) D_h(2πk/N)  −  P(|S| ≥ N − h),

with D_h(t) = Σ_{|n|≤h} e^{int} = sin((h+½)t) / sin(t/2).

N is chosen by Chernoff's bound, so that the last term is negligible; the sum breaks off where φ is
small, and what is left out is bounded. Everything is taken off the probability, so that an
interval is never too narrow, and by less than one part in 10⁵ of the miss δ too wide.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference.discrete_laplace import half_width, variance

__all__ = ["half_width_of_sum"]

_Floats = npt.NDArray[np.float64]

_ROUNDING: Final = 1e-10
_LEAST_MISS: Final = 1e-6  # below it floating point is too coarse, and Chernoff's bound is used
_POINTS: Final = 1_000_000


def half_width_of_sum(scales: Sequence[float], confidence: float | Fraction) -> int:
    """An h with P(|Σ K_i| ≤ h) ≥ confidence, the least one as far as floating point can tell.

    Raises InvalidParameterValue unless all scales are 0 ≤ b < ∞ and 0 < confidence < 1.
    """
    for scale in scales:
        if not 0 <= scale < math.inf:
            raise InvalidParameterValue(f"a noise scale is a finite number from 0, not {scale}")
    noisy = sorted(scale for scale in scales if scale > 0)
    if len(noisy) < 2:
        return half_width(noisy[0] if noisy else 0.0, confidence)
    counts = Counter(noisy)
    return _half_width(tuple(counts.items()), confidence)


@lru_cache(maxsize=4096)
def _half_width(counts: tuple[tuple[float, int], ...], confidence: float | Fraction) -> int:
    if not 0 < confidence < 1:
        raise InvalidParameterValue(
            f"a confidence lies strictly between 0 and 1, not {confidence}",
            hint="Write 0.95 for 95 percent.",
        )
    scales = dict(counts)
    miss = float(1 - Fraction(str(confidence))) * (1 - 1e-12)
    by_bound = _tail_end(scales, miss)
    if miss < _LEAST_MISS:
        return by_bound
    neglected = miss * 1e-6
    reach = _tail_end(scales, neglected)
    points, phi, left_out = _spectrum(scales, 2 * reach + 2, neglected)
    off = neglected + left_out + _ROUNDING
    low, high = -1, by_bound
    while high - low > 1:
        middle = (low + high) // 2
        if _mass(middle, points, phi, 2 * reach + 2) - off >= 1 - miss:
            high = middle
        else:
            low = middle
    return high


def _tail_end(scales: Mapping[float, int], miss: float) -> int:
    """An h with P(|S| > h) ≤ miss, by Chernoff: 2 e^{−λx} E e^{λS} for the best of many λ.

    E e^{λK} = (1−a)² / ((1 − a e^λ)(1 − a e^{−λ})) for 0 < λ < 1/b, coded without cancellation.
    """
    widest = max(scales)
    share = 1 - np.geomspace(1e-6, 1 - 1e-6, 4000)
    rates = np.concatenate([share / widest, np.geomspace(1e-9, 1, 1000)[:-1] / widest])
    logs = np.zeros_like(rates)
    for scale, count in scales.items():
        u = 1 / scale
        logs += count * (
            2 * np.log(-np.expm1(-u)) - np.log(-np.expm1(rates - u)) - np.log(-np.expm1(-rates - u))
        )
    return math.ceil(float(np.min((math.log(2 / miss) + logs) / rates)) * (1 + 1e-9))


def _spectrum(
    scales: Mapping[float, int], size: int, neglected: float
) -> tuple[_Floats, _Floats, float]:
    """Points t_k = 2πk/N on (0, π], φ there, and a bound of what the points left out amount to.

    |D_h(t)| ≤ 1/sin(t/2) ≤ π/t, and φ(t)/t falls, so that beyond T the sum is at most
    ∫_T^π φ(t)/t · 2 dt ≤ 2 ln 2 · Σ_j φ(2^j T).
    """
    number = size // 2
    if number > 64:
        # The least power of two of points beyond which what is left out is negligible.
        wanted = 64
        while wanted < number and wanted < _POINTS and _beyond(scales, wanted, size) > neglected:
            wanted *= 2
        number = min(number, wanted)
    points = 2 * np.pi * np.arange(1, number + 1, dtype=np.float64) / size
    left_out = _beyond(scales, number, size) if number < size // 2 else 0.0
    return points, _phi(scales, points), left_out


def _beyond(scales: Mapping[float, int], number: int, size: int) -> float:
    start = 2 * math.pi * number / size
    if start >= math.pi:
        return 0.0
    steps = start * 2.0 ** np.arange(math.ceil(math.log2(math.pi / start)) + 1)
    return float(2 * math.log(2) * _phi(scales, np.minimum(steps, np.pi)).sum())


def _phi(scales: Mapping[float, int], points: _Floats) -> _Floats:
    logs = np.zeros_like(points)
    for scale, count in scales.items():
        logs -= count * np.log1p(2 * variance(scale) * np.sin(points / 2) ** 2)
    result: _Floats = np.exp(logs)
    return result


def _mass(h: int, points: _Floats, phi: _Floats, size: int) -> float:
    """(1/N) Σ_k φ D_h over the circle; the point π counts once, the others stand for −t too."""
    kernel = np.sin((h + 0.5) * points) / np.sin(points / 2)
    terms = 2 * phi * kernel
    if len(points) == size // 2:
        terms[-1] /= 2
    return float((2 * h + 1 + terms.sum()) / size)
