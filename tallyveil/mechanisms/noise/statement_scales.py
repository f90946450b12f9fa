"""Gaussian scales for one statement that is to be (ε, δ)-differentially private by itself.

Three rules give the σ_c of every column c, in steps of its integer lattice:

- ``zcdp``: the scales that cost ρ = `rho_for` (ε, δ).
- ``analytic``: σ_c² = s_c² + τ². The s_c are scales at which the *continuous* Gaussian is
  (ε − ξ, δ(1 − ξ))-DP by Balle & Wang 2018, Theorem 8: they make a move cost at most 1/(2u²) in
  ρ, where u is what the theorem needs for a move of 1. With N rows in all,

      ξ = min(ε, 1)/1000,   τ² = ln(10 N / ξ) / (2π²),

  which discrete noise needs in addition. If ``zcdp`` needs less noise in total, its scales.
- ``subspace``: s_c = c Δ₂ instead of the theorem's, c = (1 + √(1 + ln(1/δ)))/ε (SUBSPACE
  Lemma 13), and no less than ``analytic`` for any column.

Why τ² is enough. Let Y be N(0, s²), and Z an integer drawn with P(z) ∝ e^{−(z−Y)²/2τ²}. With
G(y) = Σ_z e^{−(z−y)²/2τ²}, P(Z = z) is the integral of φ_s(y) e^{−(z−y)²/2τ²} / G(y). By Poisson's
summation G(y) = τ√(2π) (1 + 2 Σ_{k≥1} e^{−2π²τ²k²} cos 2πky), within 1 ± η of τ√(2π), where
η ≤ 2.1 e^{−2π²τ²}; without G the integral is that of N(0, s² + τ²). So Z's probabilities and those
of discrete Gaussian noise of σ² = s² + τ² differ by factors of at most e^κ,
κ = ln((1+η)/(1−η)) ≤ 5 e^{−2π²τ²} (as in Peikert 2010, "An Efficient and Parallel Gaussian Sampler
for Lattices"). Z shifts along with Y by whole numbers and depends on the truth only through Y: it
is as private as Y. A unit moves at most N rows, and the other rows have the same noise on both
sides; passing from the noise that is drawn to Z and back adds at most 2Nκ ≤ ξ to ε and multiplies δ
by at most e^{Nκ} ≤ 1/(1 − ξ).

A ledger charges the ρ of these scales, as it does for any others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, get_args

import numpy as np
from scipy.special import log_ndtr

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference.roots import root_between
from tallyveil.mechanisms.adjacency import Adjacency
from tallyveil.mechanisms.noise import calibrate
from tallyveil.mechanisms.units import below_one, positive
from tallyveil.mechanisms.zcdp import rho_for
from tallyveil.workload.workload import Workload

__all__ = [
    "CALIBRATIONS", "StatementCalibration", "analytic_scale", "lemma_13_scale", "statement_scales",
]  # fmt: skip

StatementCalibration: TypeAlias = Literal["zcdp", "analytic", "subspace"]

CALIBRATIONS: Final = MappingProxyType(
    {
        "zcdp": "by way of rho",
        "analytic": "by Balle and Wang's theorem, for integers",
        "subspace": "by the constant of Subspace Differential Privacy, Lemma 13",
    }
)

_SLACK: Final = Fraction(1, 1000)
# Relative; far more than the rounding of the functions that the rules use.
_MARGIN: Final = 1e-9
_BITS: Final = 30  # of what logarithms and normal probabilities give, which is rounded up to these


def statement_scales(
    workload: Workload,
    epsilon: Fraction | float | str,
    delta: Fraction | float | str,
    relation: Adjacency,
    calibration: StatementCalibration,
    like: Sequence[float] | None = None,
) -> tuple[float, ...]:
    """Return one σ per column, rounded up, at which the statement is (ε, δ)-DP under ``relation``.

    Columns that no record can move get 0.0. If ``like`` is given, the rules' ratios of the scales
    (of the s_c, for the latter two) are those of ``like`` instead.

    Raises InvalidParameterValue unless ε and δ are positive and finite and δ < 1, for an unknown
    rule, if the noise would not fit 64-bit integers, and if Lemma 13's constant is too small for
    (ε, δ).
    """
    if calibration not in get_args(StatementCalibration):
        raise InvalidParameterValue(
            f'there is no calibration "{calibration}"', hint=f"Known: {', '.join(CALIBRATIONS)}."
        )
    by_rho = calibrate.scales_for(workload, rho_for(epsilon, delta), relation, "rho", like)
    if calibration == "zcdp":
        return by_rho
    exact, probability = positive(epsilon, "epsilon"), positive(delta, "delta")
    slack = min(exact, Fraction(1)) * _SLACK
    unit = analytic_scale(exact - slack, probability * (1 - slack))
    rows = sum(column.height for column in workload.columns)
    # τ², increased to cover the logarithm's rounding.
    rounding = _up(math.log(10 * max(rows, 1) / float(slack)) / (2 * math.pi**2))
    smooth = tuple(_root_of_sum(s, rounding) for s in _at(unit, workload, relation, like))
    analytic = min(by_rho, smooth, key=sum)
    if calibration == "analytic":
        return analytic
    constant = _at(lemma_13_scale(exact, probability), workload, relation, like)
    return tuple(map(max, constant, analytic))


def _at(
    unit: float, workload: Workload, relation: Adjacency, like: Sequence[float] | None
) -> tuple[float, ...]:
    """Return scales such that no unit moves the answers, each divided by its scale, by more than
    1/``unit`` in the L2 norm."""
    return calibrate.scales_for(workload, 1 / (2 * Fraction(unit) ** 2), relation, "rho", like)


def _root_of_sum(scale: float, square: float) -> float:
    """Return √(scale² + square), rounded up; 0.0 for a column without noise."""
    return math.hypot(scale, math.sqrt(square)) * (1 + 1e-15) if scale else 0.0


def analytic_scale(epsilon: Fraction | float | str, delta: Fraction | float | str) -> float:
    """Return the least σ, rounded up, at which one release of L2 sensitivity 1 with continuous
    Gaussian noise is (ε, δ)-private: Φ(1/2σ − εσ) − e^ε Φ(−1/2σ − εσ) ≤ δ (Balle & Wang 2018,
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
    return root_between(lambda s: d - _delta(e, s), low, high, _BITS)[1] * (1 + _MARGIN)


def lemma_13_scale(epsilon: Fraction | float | str, delta: Fraction | float | str) -> float:
    """Return (1 + √(1 + ln(1/δ)))/ε, rounded up (SUBSPACE Lemma 13).

    Raises InvalidParameterValue unless ε and δ are positive and finite and δ < 1, and if the
    constant is too small for (ε, δ), contrary to the lemma: that is so for a large ε or a very
    small δ, at ε = 1 from δ = 10⁻¹² on, at δ = 10⁻⁶ from ε = 5 on.
    """
    e, d = _checked(epsilon, delta)
    scale = _up((1 + math.sqrt(1 - math.log(d))) / e)
    if not _delta(e, scale) <= d:
        raise InvalidParameterValue(
            f"the constant of Lemma 13 is too small at epsilon {e:g}, delta {d:g}",
            hint='Use the calibration "analytic" or "zcdp".',
        )
    return scale


def _up(value: float) -> float:
    """The value increased by more than its rounding error, alike on every processor."""
    mantissa, exponent = math.frexp(value * (1 + _MARGIN))
    return math.ldexp(math.ceil(math.ldexp(mantissa, _BITS)), exponent - _BITS)


def _checked(epsilon: Fraction | float | str, delta: Fraction | float | str) -> tuple[float, float]:
    e, d = float(positive(epsilon, "epsilon")), float(below_one(delta, "delta"))
    if not 0 < d < 1 or not 0 < e < math.inf:
        raise InvalidParameterValue("epsilon must be positive and finite, delta between 0 and 1")
    return e, d


def _delta(epsilon: float, scale: float) -> float:
    """Return the least δ of the continuous Gaussian, rounded up."""
    first = log_ndtr(1 / (2 * scale) - epsilon * scale)
    second = epsilon + log_ndtr(-1 / (2 * scale) - epsilon * scale)
    return float(np.exp(first) * -np.expm1(min(0.0, second - first))) * (1 + _MARGIN)
