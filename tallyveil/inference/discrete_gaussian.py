"""What one discrete Gaussian observation says about the truth (MATH §3).

K has P(K = k) = e^{−k²/2σ²} / N, N = Σ_k e^{−k²/2σ²}, with σ > 0 the scale in lattice units
(Canonne, Kamath & Steinke 2020, Definition 1). Its variance is at most σ².

Tails are summed term by term while σ ≤ 4096. Beyond, N ≥ σ√(2π) and, the density being convex
from σ on, each term is at most the integral over the unit interval around it:

    P(|K| > h) ≤ erfc((h + ½) / (σ√2)),   with h instead of h + ½ where h + ½ < σ.

That is too large by less than one lattice step in 4096. Everything is rounded to the honest side.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfc, erfcinv

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference.confidence import check_scale, miss_of

__all__ = ["half_width", "normaliser", "scale_for_half_width", "tail", "variance"]

_SUMMED: Final = 4096.0
_REACH: Final = 40  # e^{−40²/2} is less than the smallest float
_MARGIN: Final = 1e-12  # relative, far more than the rounding of sums and of erfc


def variance(scale: float) -> float:
    """Σ k² e^{−k²/2σ²} / N; 0 for the exact scale 0.

    From σ = 4 on it is σ² to within the rounding: the difference is less than e^{−2π²σ²} · 4π²σ⁴.
    """
    check_scale(scale)
    if scale == 0:
        return 0.0
    if scale >= 4:
        return scale * scale
    k = np.arange(1, math.ceil(_REACH * scale) + 2, dtype=np.float64)
    return float(2 * (k * k * np.exp(-((k / scale) ** 2) / 2)).sum() / normaliser(scale))


def tail(half: int, scale: float) -> float:
    """P(|K| > half), rounded up; 0 for the exact scale 0."""
    check_scale(scale)
    if half < 0:
        return 1.0
    if scale == 0:
        return 0.0
    if scale <= _SUMMED:
        k = np.arange(half + 1, half + 2 + math.ceil(_REACH * scale), dtype=np.float64)
        value = 2 * float(np.exp(-((k / scale) ** 2) / 2).sum()) / normaliser(scale)
    else:
        start = half + 0.5 if half + 0.5 >= scale else float(half)
        value = float(erfc(start / (scale * math.sqrt(2))))
    return min(1.0, math.nextafter(value * (1 + _MARGIN), math.inf))


@lru_cache(maxsize=4096)
def half_width(scale: float, confidence: float | Fraction) -> int:
    """The least integer h with P(|K| ≤ h) ≥ confidence, as far as `tail` can tell.

    Raises InvalidParameterValue unless 0 ≤ scale < ∞ and 0 < confidence < 1.
    """
    check_scale(scale)
    miss = miss_of(confidence)
    if scale == 0:
        return 0
    half = max(0, math.floor(scale * math.sqrt(2) * float(erfcinv(miss))) - 1)
    while half > 0 and tail(half, scale) <= miss:
        half -= 1 + (half >> 40)
    while tail(half, scale) > miss:
        half += 1 + (half >> 40)
    return half


@lru_cache(maxsize=4096)
def scale_for_half_width(half: int, confidence: float | Fraction) -> float:
    """The largest σ with P(|K| ≤ half) ≥ confidence, rounded down by less than one part in 10¹⁰.

    P(|K| > half) rises with σ, so this is the root of one increasing function.

    Raises InvalidParameterValue unless half ≥ 0 and 0 < confidence < 1.
    """
    if not 0 <= half < 2**53:
        raise InvalidParameterValue(f"a half-width is an integer from 0 to 2^53, not {half}")
    miss = miss_of(confidence)
    low = high = (half + 0.5) / (math.sqrt(2) * float(erfcinv(miss)))
    while tail(half, low) > miss:
        low /= 2
    while tail(half, high) <= miss:
        high *= 2
    root = brentq(lambda s: math.log(tail(half, s) / miss), low, high, xtol=low * 1e-12)
    scale = float(root)
    while tail(half, scale) > miss:
        scale *= 1 - 1e-12
    return scale


def normaliser(scale: float) -> float:
    """N, by its terms or, for σ ≥ 1, by Poisson's summation σ√(2π) Σ_m e^{−2π²σ²m²}."""
    if scale >= 1:
        m = np.arange(1, 4, dtype=np.float64)
        theta = 1 + 2 * float(np.exp(-2 * (math.pi * scale * m) ** 2).sum())
        return scale * math.sqrt(2 * math.pi) * theta
    k = np.arange(1, _REACH + 2, dtype=np.float64)
    return 1 + 2 * float(np.exp(-((k / scale) ** 2) / 2).sum())
