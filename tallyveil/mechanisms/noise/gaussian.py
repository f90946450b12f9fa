"""Discrete Gaussian noise: P(K = k) ∝ e^{−k²/2σ²} on the integers (MATH §3).

It is zCDP: a step of d on one output is d²/(2σ²)-zCDP (Canonne, Kamath & Steinke 2020, Theorem 4),
so a cell pays Σ_i C_ij² / (2σ_c²) under add/remove and a pair Σ_i (C_ij − C_ik)² / (2σ_c²) under
replace. For no finite ε it is ε-differentially private: far out, probabilities of neighbours
differ by any factor.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import opendp.prelude as dp

from tallyveil.errors import ReceiptError
from tallyveil.inference import DiscreteGaussianLaw, discrete_gaussian
from tallyveil.mechanisms.noise import calibrate
from tallyveil.mechanisms.noise.additive import AdditiveNoise, Sampler
from tallyveil.mechanisms.protocol import Needs

__all__ = ["DiscreteGaussian"]

dp.enable_features("contrib")


class DiscreteGaussian(AdditiveNoise):
    """For budgets of ρ, or of ε with a δ. A scale is σ."""

    name = "gaussian"
    needs = Needs(delta=True)
    guarantee = (
        "discrete Gaussian noise of scale sigma: a record that moves an answer by d costs "
        "rho = d^2 / (2 sigma^2) of zero-concentrated differential privacy"
    )

    def law(self, scale: float) -> DiscreteGaussianLaw:
        return DiscreteGaussianLaw(scale)

    def scale_for_half_width(self, half: int, confidence: float | Fraction) -> float:
        return min(calibrate.MAX_SCALE, discrete_gaussian.scale_for_half_width(half, confidence))

    def sampler(self, scale: float) -> Sampler:
        return _sampler(scale)


@lru_cache(maxsize=256)
def _sampler(scale: float) -> Sampler:
    """OpenDP's measurement on integer vectors under the L2 distance, after a cross-check."""
    loss = calibrate.rate(scale, "rho")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    measurement: Any = dp.m.make_gaussian(*space, scale=scale)
    # OpenDP states its loss as a float rounded up: some units in the last place above 1/(2σ²).
    if not Fraction(measurement.map(1.0)) <= loss * (1 + Fraction(1, 2**48)):
        raise ReceiptError("the noise sampler is less private than what was charged")
    sampler: Sampler = measurement
    return sampler
