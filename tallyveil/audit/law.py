"""Does what was drawn follow the law it is said to follow, and is it around zero?"""

from __future__ import annotations

import math
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.stats import binom, chi2

from tallyveil.audit.evidence import IntArray
from tallyveil.inference import NoiseLaw

__all__ = ["Chances", "FloatArray", "chances_of", "drift", "surprise"]

FloatArray: TypeAlias = npt.NDArray[np.float64]
# P(K = k) for k = lowest, lowest + 1, …; what is left of 1 lies anywhere else.
Chances: TypeAlias = tuple[int, FloatArray]

# Pearson's statistic is near its limit law where every bin expects this many draws or more.
_LEAST_EXPECTED: Final = 50


def chances_of(law: NoiseLaw, draws: int) -> Chances:
    """P(K = k) within the reach that ``draws`` draws leave about once, from the law itself.

    P(K = k) = (1/N) Σ_j φ(2πj/N) cos(2πjk/N) is the law wrapped around N integers; N is so large
    that what comes around is lost in float64.
    """
    reach = law.half_width(1 - 1 / draws)
    period = 1 << max(8, math.ceil(math.log2(16 * (reach + 1))))
    wrapped = np.fft.irfft(law.phi(np.linspace(0, np.pi, period // 2 + 1)), period)
    side = np.maximum(0.0, wrapped[: reach + 1])
    return -reach, np.concatenate([side[:0:-1], side])


def surprise(drawn: IntArray, law: Chances) -> float:
    """The chance that draws of the claimed law look as odd as ``drawn``.

    Two tests share the chance (Bonferroni): Pearson's χ², with integers side by side in one bin
    until each bin expects 50 draws, and the exact binomial chance of as many draws beyond the
    integers that the law lists.
    """
    lowest, chances = law
    listed = (drawn >= lowest) & (drawn < lowest + len(chances))
    inside = drawn[listed] - lowest
    # Beyond a sum of float64 chances, less than this cannot be told from nothing.
    beyond = max(1e-12, 1.0 - float(chances.sum()))
    far = float(binom.sf(len(drawn) - len(inside) - 1, len(drawn), beyond))
    edges = _bins(len(drawn) * chances)
    expected = len(drawn) * np.add.reduceat(chances, edges)
    seen = np.add.reduceat(np.bincount(inside, minlength=len(chances)), edges)
    if len(expected) == 1:
        return min(1.0, 2 * far)
    statistic = float(((seen - expected) ** 2 / expected).sum())
    return min(1.0, 2 * far, 2 * float(chi2.sf(statistic, len(expected) - 1)))


def drift(noise: IntArray, law: NoiseLaw) -> float:
    """At least the chance that independent noise of ``law`` has a mean so far from 0.

    Chernoff: P(|Σ K| ≥ s) ≤ 2 min_λ exp(m ln E e^{λK} − λs) for m draws, by symmetry; any λ will
    do, and some are tried.
    """
    total = abs(int(noise.sum()))
    widest = min(law.widest_rate, 10 / math.sqrt(law.variance) if law.variance > 0 else 1.0)
    rates = widest * np.logspace(-6, 0, 600, endpoint=False)
    least = float((len(noise) * law.log_moment(rates) - rates * total).min())
    return min(1.0, 2 * math.exp(min(0.0, least)))


def _bins(expected: FloatArray) -> IntArray:
    """Where bins begin, such that each expects `_LEAST_EXPECTED` draws, the last one too."""
    starts, filled = [0], 0.0
    for place, weight in enumerate(expected.tolist()):
        if filled >= _LEAST_EXPECTED:
            starts.append(place)
            filled = 0.0
        filled += weight
    if filled < _LEAST_EXPECTED and len(starts) > 1:
        starts.pop()
    return np.array(starts, dtype=np.int64)
