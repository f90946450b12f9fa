"""Discrete Laplace noise: P(K = k) = (1−a)/(1+a) · a^|k|, a = e^{−1/b} (MATH §3).

Pure ε: a step of one on the lattice multiplies probabilities by at most e^{1/b}, so a cell pays
Σ_i |C_ij| / b_c under add/remove (BAYES eq. 71) and a pair Σ_i |C_ij − C_ik| / b_c under replace.
Noise is drawn around 0 by OpenDP's exact sampler over the system's cryptographic source and added
in Python's integers, so nothing rounds or saturates depending on the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import opendp.prelude as dp

from tallyveil import inference
from tallyveil.boundary import Receipt, TrueAnswer, open_answer
from tallyveil.errors import ReceiptError
from tallyveil.mechanisms import calibrate
from tallyveil.mechanisms.loss import Loss
from tallyveil.mechanisms.relation import Relation
from tallyveil.rewriter.workload import Workload

__all__ = ["DiscreteLaplace", "integer_noise"]

dp.enable_features("contrib")


class DiscreteLaplace:
    """The default family. Its methods are those of `Mechanism`."""

    name = "laplace"

    def scales_for(
        self, workload: Workload, epsilon: Fraction | float | str, relation: Relation
    ) -> tuple[float, ...]:
        return calibrate.scales_for(workload, epsilon, relation)

    def loss(self, workload: Workload, scales: Sequence[float], relation: Relation) -> Loss:
        return calibrate.scale_loss(workload, scales, relation)

    def variance(self, scale: float) -> float:
        """2a/(1−a)²."""
        return inference.variance(scale)

    def half_width(self, scale: float, confidence: float | Fraction) -> int:
        return inference.half_width(scale, confidence)

    def half_width_of_sum(self, scales: Sequence[float], confidence: float | Fraction) -> int:
        return inference.half_width_of_sum(scales, confidence)

    def scale_for_half_width(self, half: int, confidence: float | Fraction) -> float:
        return min(calibrate.MAX_SCALE, inference.scale_for_half_width(half, confidence))

    def release(self, answer: TrueAnswer, receipt: Receipt) -> tuple[tuple[int, ...], ...]:
        """Open ``answer`` and add noise of ``receipt.scales``; a column of scale 0 stays exact.

        Raises ReceiptError unless the receipt is unused and paid for this answer, and
        InvalidParameterValue for a scale the sampler does not take.
        """
        samplers = [_sampler(scale) if scale != 0 else None for scale in receipt.scales]
        exact = open_answer(answer, receipt)
        return tuple(
            column if sampler is None else _add(column, sampler([0] * len(column)))
            for column, sampler in zip(exact, samplers, strict=True)
        )


def integer_noise(scale: float, count: int) -> Sequence[int]:
    """``count`` independent draws."""
    noise: Sequence[int] = _sampler(scale)([0] * count)
    return noise


def _add(column: Sequence[int], noise: Sequence[int]) -> tuple[int, ...]:
    return tuple(value + k for value, k in zip(column, noise, strict=True))


@lru_cache(maxsize=256)
def _sampler(scale: float) -> Any:
    """OpenDP's measurement on integer vectors under the L1 distance, after a cross-check."""
    loss = calibrate.inverse_scale(scale)
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    measurement: Any = dp.m.make_laplace(*space, scale=scale)
    # OpenDP states its loss as a float rounded up: some units in the last place above 1/b.
    if not Fraction(measurement.map(1)) <= loss * (1 + Fraction(1, 2**48)):
        raise ReceiptError("the noise sampler is less private than what was charged")
    return measurement
