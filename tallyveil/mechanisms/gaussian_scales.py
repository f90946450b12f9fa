"""The σ of Gaussian noise for one (ε, δ)-differentially private release, by four rules.

A ledger of ρ needs none of them: it charges Δ²/(2σ²) and tells (ε, δ) for everything together. They
are for a single release, and for reproducing papers. Δ is the L2 sensitivity.

- ``analytic``: for the continuous Gaussian, exactly as much as is needed (Balle & Wang 2018,
  "Improving the Gaussian Mechanism for Differential Privacy", Theorem 8):
  Φ(Δ/2σ − εσ/Δ) − e^ε Φ(−Δ/2σ − εσ/Δ) ≤ δ.
- ``discrete``: for one integer answer with discrete Gaussian noise, by the exact sum over its tail
  (Canonne, Kamath & Steinke 2020, Theorem 7), Δ an integer:
  P(K > εσ²/Δ − Δ/2) − e^ε P(K > εσ²/Δ + Δ/2) ≤ δ.
- ``zcdp``: for any answers and either noise, by way of ρ: σ = Δ/√(2ρ), ρ = `rho_for` (ε, δ).
- ``subspace``: σ = c Δ, c = (1 + √(1 + ln(1/δ)))/ε (SUBSPACE Lemma 13). For a large ε or a very
  small δ that is less than (ε, δ) takes, the lemma notwithstanding: at ε = 1 from δ = 10⁻¹² on, at
  δ = 10⁻⁶ from ε = 5 on. There it is refused.

At ε = 1, δ = 1e-6, Δ = 1 they give 4.22468, 4.23078, 4.53088 and 4.84909.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final, Literal, TypeAlias

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.units import positive
from tallyveil.mechanisms.zcdp import rho_for

__all__ = ["Calibration", "discrete_delta", "gaussian_scale"]

Calibration: TypeAlias = Literal["analytic", "discrete", "zcdp", "subspace"]

# Relative; far more than the rounding of the functions the rules are made of.
_MARGIN: Final = 1e-9
_REACH: Final = 40
_WIDEST: Final = 100_000.0  # more terms than this are not summed


def gaussian_scale(
    epsilon: Fraction | float | str,
    delta: Fraction | float | str,
    sensitivity: Fraction | float | str = 1,
    calibration: Calibration = "analytic",
) -> float:
    """σ by one of the rules, rounded up. "discrete" gives one that is verified to suffice; as δ
    does not fall everywhere with the σ of integer noise, a lesser one may do too.

    Raises InvalidParameterValue unless ε, δ and Δ are positive and finite and δ < 1, for an
    unknown rule, where "discrete" has a Δ that is no integer or a sum that is too long, and where
    the σ of "subspace" does not suffice.
    """
    e, d = float(positive(epsilon, "epsilon")), float(positive(delta, "delta"))
    reach = positive(sensitivity, "the sensitivity")
    if not 0 < d < 1 or not 0 < e < math.inf:
        raise InvalidParameterValue("epsilon is positive and finite, and delta between 0 and 1")
    match calibration:
        case "analytic":
            unit = _root(lambda s: _analytic_delta(e, s), d)
        case "discrete":
            if reach.denominator != 1:
                raise InvalidParameterValue("the sensitivity of integers is a whole number")
            step = int(reach)
            unit = _root(lambda s: discrete_delta(e, s * step, step), d)
        case "zcdp":
            unit = math.sqrt(1 / (2 * float(rho_for(epsilon, delta)))) * (1 + _MARGIN)
        case "subspace":
            unit = (1 + math.sqrt(1 - math.log(d))) / e * (1 + _MARGIN)
            if not _analytic_delta(e, unit) <= d:
                raise InvalidParameterValue(
                    f"the constant of Lemma 13 does not suffice at epsilon {e:g}, delta {d:g}",
                    hint='Use the calibration "analytic" or "zcdp".',
                )
        case _:
            raise InvalidParameterValue(
                f'there is no calibration "{calibration}"',
                hint="Known: analytic, discrete, zcdp, subspace.",
            )
    return unit * float(reach)


def _analytic_delta(epsilon: float, scale: float) -> float:
    """Of the continuous Gaussian with Δ = 1, rounded up."""
    first = log_ndtr(1 / (2 * scale) - epsilon * scale)
    second = epsilon + log_ndtr(-1 / (2 * scale) - epsilon * scale)
    return float(np.exp(first) * -np.expm1(min(0.0, second - first))) * (1 + _MARGIN)


def discrete_delta(epsilon: float, scale: float, sensitivity: int) -> float:
    """The least δ of one integer answer with discrete Gaussian noise, rounded up: the hockey-stick
    divergence Σ_k max(0, P(k) − e^ε P(k − Δ)), summed where it is positive.
    """
    if not scale <= _WIDEST:
        raise InvalidParameterValue(
            "sigma is too large to sum the discrete Gaussian's tail",
            hint='Use the calibration "analytic" or "zcdp".',
        )
    # P(k) > e^ε P(k + Δ) holds for k > εσ²/Δ − Δ/2.
    start = math.floor(epsilon * scale**2 / sensitivity - sensitivity / 2) + 1
    reach = math.ceil(_REACH * scale) + sensitivity
    near = np.arange(-reach, reach + 1, dtype=np.float64)
    whole = np.exp(-((near / scale) ** 2) / 2).sum()
    k = np.arange(max(start, -reach), max(start, 0) + reach + 1, dtype=np.float64)
    first = np.exp(-((k / scale) ** 2) / 2)
    second = np.exp(epsilon - (((k + sensitivity) / scale) ** 2) / 2)
    return float(np.maximum(0, first - second).sum() / whole) * (1 + _MARGIN)


def _root(delta_of: Callable[[float], float], delta: float) -> float:
    """A σ at which δ(σ) ≤ δ: the least for a falling δ(σ), to within `_MARGIN`."""
    low = high = 1.0
    while delta_of(high) > delta:
        high *= 2
    while delta_of(low) <= delta:
        low /= 2
        if low < 2.0**-30:
            return low * 2
    root = float(brentq(lambda s: delta_of(s) - delta, low, high, xtol=1e-15, rtol=1e-14))
    step = 1e-12
    while delta_of(root) > delta:
        root *= 1 + step
        step *= 2
    return root * (1 + _MARGIN)
