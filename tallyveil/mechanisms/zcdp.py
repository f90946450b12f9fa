"""Conversion of ρ and δ to ε and back, as tightly as is known (MATH §2), and of (ε, δ) to a pure ε.

ρ-zCDP implies (ε, δ)-DP for every order a > 1 (Canonne, Kamath & Steinke 2020, Proposition 12) with

    δ = exp((a−1)(aρ − ε)) / (a−1) · (1 − 1/a)^a,

hence also for the best a. Solved for ε and for ρ:

    ε = aρ + t(a),   ρ = (ε − t(a)) / a,   t(a) = (ln(1/δ) − ln(a−1) + a ln(1 − 1/a)) / (a−1).

The best a is searched in floating point; the result is then computed for that a in decimals and
rounded to the private side. So it is valid for any a that the search finds; the search only decides
how tight it is.

A mechanism that is ε′-DP (pure) with ε′ = ε − ln(1−δ) is (ε, δ)-DP: for any event

    P = (1−δ)P + δP ≤ (1−δ) e^{ε′} P′ + δ = e^ε P′ + δ.

METRIC Ex. 5 is no more than this: its Laplace noise of scale b = diam(D)/(ε − ln(1−δ)) is that of a
mechanism which is ε′-DP. Its Ex. 6, too, with p = (1−δ)/(m + e^ε), is randomised response at
ln((e^ε + mδ)/(1−δ)). So a ledger need not track these δs: it charges ε′, and composes it as pure ε
with everything else.

In a budget (ε_B, δ_B) that is kept in ρ one could charge ε²/2 instead of ε′²/2, and subtract δ from
δ_B. That would take more from the budget than it saves: for ε_B from 0.1 to 10 and δ_B from
10⁻⁹ to 0.1 the ρ of (ε_B, δ_B − δ) is less than that of (ε_B, δ_B) by more than (ε′² − ε²)/2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from tallyveil.arrays import FloatArray
from tallyveil.mechanisms.units import CONTEXT, below_one, decimal, positive, rounded_up

__all__ = ["epsilon_of", "pure_epsilon", "rho_for"]


_MARGIN: Final = Decimal("1e-60")
# After three rounds the values at neighbouring points differ by more than their rounding errors, so
# that the best is the same on every processor; the result is within 10⁻⁹ of the best order's.
_NEAREST, _FARTHEST, _POINTS, _ROUNDS = 1e-9, 1e15, 257, 3


def epsilon_of(rho: Fraction | float | str, delta: Fraction | float | str) -> float:
    """Return the least ε such that ρ-zCDP implies (ε, δ)-DP by the formula above, rounded up.

    0 for ρ = 0.

    Raises InvalidParameterValue unless 0 ≤ ρ < ∞ and 0 < δ < 1.
    """
    exact_delta = below_one(delta, "delta")
    exact_rho = Fraction(0) if rho == 0 else positive(rho, "rho")
    if exact_rho == 0:
        return 0.0
    return _epsilon_of(exact_rho, exact_delta)


@lru_cache(maxsize=4096)
def _epsilon_of(rho: Fraction, delta: Fraction) -> float:
    r = float(rho)
    order = _search(lambda a1: -((1 + a1) * r + _t(a1, delta)))
    with localcontext(CONTEXT):
        a = 1 + Decimal(order)
        exact = a * decimal(rho) + _exact_t(Decimal(order), delta)
        return rounded_up(Fraction(max(Decimal(0), exact) * (1 + _MARGIN)))


@lru_cache(maxsize=256)
def rho_for(epsilon: Fraction | float | str, delta: Fraction | float | str) -> Fraction:
    """Return the largest ρ whose ε at δ is at most ``epsilon``, rounded down.

    Raises InvalidParameterValue unless 0 < ε < ∞ and 0 < δ < 1.
    """
    exact_epsilon, exact_delta = positive(epsilon, "epsilon"), below_one(delta, "delta")
    e = float(exact_epsilon)
    order = _search(lambda a1: (e - _t(a1, exact_delta)) / (1 + a1))
    with localcontext(CONTEXT):
        a = 1 + Decimal(order)
        exact = (decimal(exact_epsilon) - _exact_t(Decimal(order), exact_delta)) / a
        return Fraction(max(Decimal(0), exact) * (1 - _MARGIN))


def _t(a1: FloatArray, delta: Fraction) -> FloatArray:
    log = math.log(delta.denominator) - math.log(delta.numerator)
    result: FloatArray = (log - np.log(a1) + (1 + a1) * -np.log1p(1 / a1)) / a1
    return result


def _exact_t(a1: Decimal, delta: Fraction) -> Decimal:
    a = 1 + a1
    return (-decimal(delta).ln() - a1.ln() + a * (a1.ln() - a.ln())) / a1


def _search(objective: Callable[[FloatArray], FloatArray]) -> float:
    """Return the a − 1 of the largest value, by refining a grid around its best point."""
    low, high = math.log(_NEAREST), math.log(_FARTHEST)
    best = low
    for _ in range(_ROUNDS):
        points = np.linspace(low, high, _POINTS)
        best = float(points[int(np.argmax(objective(np.exp(points))))])
        step = (high - low) / (_POINTS - 1)
        low, high = best - step, best + step
    return math.exp(best)


def pure_epsilon(epsilon: Fraction | str, delta: Fraction | str) -> Fraction:
    """Return ε − ln(1−δ), rounded down, but no less than ε.

    Raises InvalidParameterValue unless 0 < ε < ∞ and 0 < δ < 1.
    """
    exact, rest = positive(epsilon, "epsilon"), 1 - below_one(delta, "delta")
    with localcontext(CONTEXT):
        gained = -decimal(rest).ln() - _MARGIN
    return exact + max(Fraction(0), Fraction(gained))
