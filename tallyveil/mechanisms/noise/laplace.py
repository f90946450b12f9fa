"""Discrete Laplace noise: P(K = k) = (1−a)/(1+a) · a^|k|, a = e^{−1/b} (MATH §3).

Pure ε: a step of one on the lattice multiplies probabilities by at most e^{1/b}, so a cell pays
Σ_i |C_ij| / b_c under add/remove (BAYES eq. 71) and a pair Σ_i |C_ij − C_ik| / b_c under replace.
In ρ they pay what `measure` says.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import opendp.prelude as dp

from tallyveil import inference
from tallyveil.errors import ReceiptError
from tallyveil.inference import DiscreteLaplaceLaw
from tallyveil.mechanisms.noise import calibrate
from tallyveil.mechanisms.noise.additive import AdditiveNoise, Sampler

__all__ = ["DiscreteLaplace", "integer_noise"]

dp.enable_features("contrib")


class DiscreteLaplace(AdditiveNoise):
    """The default family. A scale is b."""

    name = "laplace"
    guarantee = (
        "discrete Laplace noise of scale b: a record that moves an answer by d changes the "
        "probability of any outcome by a factor of at most e^(d/b)"
    )

    def law(self, scale: float) -> DiscreteLaplaceLaw:
        return DiscreteLaplaceLaw(scale)

    def scale_for_half_width(self, half: int, confidence: float | Fraction) -> float:
        return min(calibrate.MAX_SCALE, inference.scale_for_half_width(half, confidence))

    def sampler(self, scale: float) -> Sampler:
        return _sampler(scale)


def integer_noise(scale: float, count: int) -> list[int]:
    """``count`` independent draws."""
    return _sampler(scale)([0] * count)


@lru_cache(maxsize=256)
def _sampler(scale: float) -> Sampler:
    """OpenDP's measurement on integer vectors under the L1 distance, after a cross-check."""
    loss = calibrate.rate(scale, "epsilon")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    measurement: Any = dp.m.make_laplace(*space, scale=scale)
    # OpenDP states its loss as a float rounded up: some units in the last place above 1/b.
    if not Fraction(measurement.map(1)) <= loss * (1 + Fraction(1, 2**48)):
        raise ReceiptError("the noise sampler is less private than what was charged")
    sampler: Sampler = measurement
    return sampler
