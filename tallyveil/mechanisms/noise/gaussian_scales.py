"""The σ of continuous Gaussian noise at which one release of L2 sensitivity 1 is (ε, δ)-private.

A ledger of ρ needs neither rule: it charges 1/(2σ²) and converts everything together to (ε, δ).
They are for single statements; at ε = 1, δ = 1e-6 they give 4.22468 and 4.84909.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np
from scipy.special import log_ndtr

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference.roots import root_between
from tallyveil.mechanisms.units import positive

__all__ = ["analytic_scale", "lemma_13_scale"]

# Relative; far more than the rounding of the functions the rules are made of.
_MARGIN: Final = 1e-9


def analytic_scale(epsilon: Fraction | float | str, delta: Fraction | float | str) -> float:
    """The least σ, rounded up: Φ(1/2σ − εσ) − e^ε Φ(−1/2σ − εσ) ≤ δ (Balle & Wang 2018,
    "Improving the Gaussian Mechanism for Differential Privacy", Theorem 8).

    Raises InvalidParameterValue unless ε and δ are positive and finite and δ < 1.
    """
    e, d = _checked(epsilon, delta)
    low = high = 1.0
    while _delta(e, high) > d:
        high *= 2
    while _delta(e, low) <= d:
        low /= 2
        if low < 2.0**-30:
            return low * 2
    root = root_between(lambda s: _delta(e, s) - d, low, high, xtol=1e-15)
    step = 1e-12
    while _delta(e, root) > d:
        root *= 1 + step
        step *= 2
    return root * (1 + _MARGIN)


def lemma_13_scale(epsilon: Fraction | float | str, delta: Fraction | float | str) -> float:
    """(1 + √(1 + ln(1/δ)))/ε, rounded up (SUBSPACE Lemma 13).

    Raises InvalidParameterValue unless ε and δ are positive and finite and δ < 1, and where the
    constant is less than (ε, δ) takes, the lemma notwithstanding: for a large ε or a very small δ,
    at ε = 1 from δ = 10⁻¹² on, at δ = 10⁻⁶ from ε = 5 on.
    """
    e, d = _checked(epsilon, delta)
    scale = (1 + math.sqrt(1 - math.log(d))) / e * (1 + _MARGIN)
    if not _delta(e, scale) <= d:
        raise InvalidParameterValue(
            f"the constant of Lemma 13 does not suffice at epsilon {e:g}, delta {d:g}",
            hint='Use the calibration "analytic" or "zcdp".',
        )
    return scale


def _checked(epsilon: Fraction | float | str, delta: Fraction | float | str) -> tuple[float, float]:
    e, d = float(positive(epsilon, "epsilon")), float(positive(delta, "delta"))
    if not 0 < d < 1 or not 0 < e < math.inf:
        raise InvalidParameterValue("epsilon is positive and finite, and delta between 0 and 1")
    return e, d


def _delta(epsilon: float, scale: float) -> float:
    """The least δ of the continuous Gaussian, rounded up."""
    first = log_ndtr(1 / (2 * scale) - epsilon * scale)
    second = epsilon + log_ndtr(-1 / (2 * scale) - epsilon * scale)
    return float(np.exp(first) * -np.expm1(min(0.0, second - first))) * (1 + _MARGIN)
