"""Half-widths and probabilities of a sum of independent integer noises of any laws, by inversion.

φ, the characteristic function of the sum S, is the product of its noises', and like theirs
positive, even, and falling on [0, π]. On the circle of N points the law of S is known exactly up
to what wraps around it:

    P(|S| ≤ h)  ≥  (1/N) Σ_k φ(2πk/N) D_h(2πk/N)  −  P(|S| ≥ N − h),

with D_h(t) = Σ_{|n|≤h} e^{int} = sin((h+½)t) / sin(t/2).

N is chosen by Chernoff's bound, so that the last term is negligible; the sum breaks off where φ is
small, and what is left out is bounded. Everything is taken off the probability, so that an
interval is never too narrow, and by less than one part in 10⁵ of the miss δ too wide. What wraps
around only adds to the sum, so that with what is left out it is a bound from above as well.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from tallyveil.inference.discrete_laplace import DiscreteLaplaceLaw
from tallyveil.inference.laws import Floats, NoiseLaw, miss_of
from tallyveil.inference.spectrum import Bounds

__all__ = ["between", "half_width_of_sum"]

_ROUNDING: Final = 1e-10
_LEAST_MISS: Final = 1e-6  # below it floating point is too coarse, and Chernoff's bound is used
_POINTS: Final = 1_000_000
_NEGLECTED: Final = 1e-10  # of a probability, for each of the ways to be inexact


def half_width_of_sum(laws: Sequence[NoiseLaw], confidence: float | Fraction) -> int:
    """An h with P(|Σ K_i| ≤ h) ≥ confidence, the least one as far as floating point can tell.

    Raises InvalidParameterValue unless 0 < confidence < 1.
    """
    miss_of(confidence)
    noisy = [law for law in laws if law.scale > 0]
    if not noisy:
        return 0
    if len(noisy) == 1:
        return noisy[0].half_width(confidence)
    return _half_width(_counted(noisy), confidence)


def _counted(laws: Sequence[NoiseLaw]) -> tuple[tuple[NoiseLaw, int], ...]:
    """How many there are of each that is noise, in an order of their own."""
    counts = Counter(law for law in laws if law.scale > 0)
    return tuple(sorted(counts.items(), key=lambda item: (type(item[0]).__name__, item[0].scale)))


@lru_cache(maxsize=4096)
def _half_width(counts: tuple[tuple[NoiseLaw, int], ...], confidence: float | Fraction) -> int:
    laws = dict(counts)
    miss = miss_of(confidence) * (1 - 1e-12)
    by_bound = _tail_end(laws, miss)
    if miss < _LEAST_MISS:
        return by_bound
    neglected = miss * 1e-6
    reach = _tail_end(laws, neglected)
    points, phi, left_out = _spectrum(laws, 2 * reach + 2, neglected)
    off = neglected + left_out + _ROUNDING
    low, high = -1, by_bound
    while high - low > 1:
        middle = (low + high) // 2
        if _mass(middle, points, phi, 2 * reach + 2) - off >= 1 - miss:
            high = middle
        else:
            low = middle
    return high


def between(laws: Sequence[NoiseLaw], low: float, high: float) -> Bounds:
    """Bounds of P(low ≤ Σ K_i ≤ high), for integers low ≤ high or infinities.

    S is symmetric, so that P(S ≤ x) = (1 + P(|S| ≤ x))/2 for x ≥ 0 and (1 − P(|S| ≤ −x − 1))/2
    for x < 0. Where no noise is narrower than the others by orders, the bounds are within 10⁻⁹.
    """
    counts = _counted(laws)
    below, above = _up_to(counts, high), _up_to(counts, low - 1)
    return Bounds.clipped(below.lower - above.upper, below.upper - above.lower)


def _up_to(counts: tuple[tuple[NoiseLaw, int], ...], x: float) -> Bounds:
    """Bounds of P(S ≤ x)."""
    if x in (-math.inf, math.inf):
        return Bounds(float(x > 0), float(x > 0))
    inside = _within(counts, int(x if x >= 0 else -x - 1))
    if x >= 0:
        return Bounds((1 + inside.lower) / 2, (1 + inside.upper) / 2)
    return Bounds((1 - inside.upper) / 2, (1 - inside.lower) / 2)


@lru_cache(maxsize=16384)
def _within(counts: tuple[tuple[NoiseLaw, int], ...], h: int) -> Bounds:
    """Bounds of P(|S| ≤ h), h ≥ 0."""
    if not counts:
        return Bounds(1.0, 1.0)
    (law, number), *others = counts
    if number == 1 and not others and isinstance(law, DiscreteLaplaceLaw):
        miss = law.tail(h)
        return Bounds.clipped(1 - miss - 1e-15, 1 - miss + 1e-15)
    size, points, phi, left_out = _circle(counts)
    if 2 * h + 2 >= size:
        return Bounds(1 - _NEGLECTED, 1.0)
    mass = _mass(h, points, phi, size)
    off = left_out + _ROUNDING
    return Bounds.clipped(mass - off - _NEGLECTED, mass + off)


@lru_cache(maxsize=8)
def _circle(counts: tuple[tuple[NoiseLaw, int], ...]) -> tuple[int, Floats, Floats, float]:
    """N, the points, φ there, and what is left out, for probabilities to within 10⁻¹⁰."""
    laws = dict(counts)
    size = 2 * _tail_end(laws, _NEGLECTED) + 2
    return size, *_spectrum(laws, size, _NEGLECTED)


def _tail_end(laws: Mapping[NoiseLaw, int], miss: float) -> int:
    """An h with P(|S| > h) ≤ miss, by Chernoff: 2 e^{−λx} E e^{λS} for the best of many λ."""
    spread = math.sqrt(sum(count * law.variance for law, count in laws.items()))
    widest = min(law.widest_rate for law in laws)
    rates = np.geomspace(1e-6, 1e3, 2000) / max(spread, 1e-3)
    if widest < math.inf:
        share = 1 - np.geomspace(1e-6, 1 - 1e-6, 4000)
        near = np.concatenate([share * widest, np.geomspace(1e-9, 1, 1000)[:-1] * widest])
        rates = np.concatenate([near, rates[rates < widest * (1 - 1e-9)]])
    logs = np.zeros_like(rates)
    for law, count in laws.items():
        logs += count * law.log_moment(rates)
    return math.ceil(float(np.min((math.log(2 / miss) + logs) / rates)) * (1 + 1e-9))


def _spectrum(
    laws: Mapping[NoiseLaw, int], size: int, neglected: float
) -> tuple[Floats, Floats, float]:
    """Points t_k = 2πk/N on (0, π], φ there, and a bound of what the points left out amount to.

    |D_h(t)| ≤ 1/sin(t/2) ≤ π/t, and φ(t)/t falls, so that beyond T the sum is at most
    ∫_T^π φ(t)/t · 2 dt ≤ 2 ln 2 · Σ_j φ(2^j T).
    """
    number = size // 2
    if number > 64:
        # The least power of two of points beyond which what is left out is negligible.
        wanted = 64
        while wanted < number and wanted < _POINTS and _beyond(laws, wanted, size) > neglected:
            wanted *= 2
        number = min(number, wanted)
    points = 2 * np.pi * np.arange(1, number + 1, dtype=np.float64) / size
    left_out = _beyond(laws, number, size) if number < size // 2 else 0.0
    return points, _phi(laws, points), left_out


def _beyond(laws: Mapping[NoiseLaw, int], number: int, size: int) -> float:
    start = 2 * math.pi * number / size
    if start >= math.pi:
        return 0.0
    steps = start * 2.0 ** np.arange(math.ceil(math.log2(math.pi / start)) + 1)
    return float(2 * math.log(2) * _phi(laws, np.minimum(steps, np.pi)).sum())


def _phi(laws: Mapping[NoiseLaw, int], points: Floats) -> Floats:
    result = np.ones_like(points)
    for law, count in laws.items():
        result *= law.phi(points) ** count
    return result


def _mass(h: int, points: Floats, phi: Floats, size: int) -> float:
    """(1/N) Σ_k φ D_h over the circle; the point π counts once, the others stand for −t too."""
    kernel = np.sin((h + 0.5) * points) / np.sin(points / 2)
    terms = 2 * phi * kernel
    if len(points) == size // 2:
        terms[-1] /= 2
    return float((2 * h + 1 + terms.sum()) / size)
