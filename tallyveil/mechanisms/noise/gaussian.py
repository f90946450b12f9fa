"""Discrete Gaussian noise: P(K = k) ∝ e^{−k²/2σ²} on the integers (MATH §3).

It is zCDP: a step of d on one output is d²/(2σ²)-zCDP (Canonne, Kamath & Steinke 2020, Theorem 4),
so a cell pays Σ_i C_ij² / (2σ_c²) under add/remove and a pair Σ_i (C_ij − C_ik)² / (2σ_c²) under
replace. It is ε-differentially private for no finite ε: far out, the probabilities of neighbours
differ by any factor.

Its size is drawn as m = Bq + r, where B is a power of two, r uniform below B, and q = 0, 1, … has
weights e^{−(Bq)²/2σ²}, the largest of its block. (q, r) is accepted with probability
e^{−(m² − (Bq)²)/2σ²}, the probability that a geometric number of rate 1/2σ² is at least
m² − (Bq)². That leaves m with weights e^{−m²/2σ²}. With a random sign, and −0 rejected, the result
has the law above. B is at most σ/32, or 1, so that few draws but −0 are rejected. The number of
rejected draws reveals nothing about the accepted ones.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from tallyveil.inference import DiscreteGaussianLaw
from tallyveil.mechanisms.noise import calibrate
from tallyveil.mechanisms.noise.additive import Additive
from tallyveil.mechanisms.noise.exact_draws import Integers, WeightTable, geometric, random_words

__all__ = ["DiscreteGaussian"]

_BLOCKS = 32  # σ/B is from this to about twice this, unless B is 1
# Squares of fewer bits are computed in 64-bit integers.
_SHORT = 62


class DiscreteGaussian(Additive):
    """Adds discrete Gaussian noise, for budgets of ρ, or of ε with a δ. A scale is σ."""

    name = "gaussian"
    needs_delta = True
    law_type = DiscreteGaussianLaw
    guarantee = (
        "discrete Gaussian noise of scale sigma: a record that moves an answer by d costs "
        "rho = d^2 / (2 sigma^2) of zero-concentrated differential privacy"
    )

    def draw(self, scale: float, count: int) -> Integers:
        return _sizes(scale).draw(count)


class _Sizes:
    """Draws noise of one σ."""

    def __init__(self, scale: float) -> None:
        self._rate = calibrate.rate(scale, "rho")
        self._bits = max(0, (int(scale) // _BLOCKS).bit_length() - 1)
        block = self._rate * 4**self._bits
        self._blocks = WeightTable(block, 2 * block)

    def draw(self, count: int) -> Integers:
        found = self._accepted(count)
        while len(found) < count:
            found = np.concatenate([found, self._accepted(count - len(found))])
        return found

    def _accepted(self, count: int) -> Integers:
        """Make ``count`` draws and return the accepted ones."""
        blocks: Integers = self._blocks.draw(count)
        words = random_words(count)
        rest = (words & np.uint64((1 << self._bits) - 1)).astype(np.int64)
        negative = words >> np.uint64(63) == 1
        if count and int(blocks.max()).bit_length() + 2 * self._bits > _SHORT:
            blocks, rest = blocks.astype(np.object_), rest.astype(np.object_)
        sizes = (blocks << self._bits) + rest
        kept = ~(negative & (sizes == 0))
        if self._bits:
            beyond = (blocks * rest << self._bits + 1) + rest * rest
            kept &= geometric(self._rate, count) >= beyond
        found: Integers = np.where(negative, -sizes, sizes)[kept]
        return found


_sizes: Final = lru_cache(maxsize=256)(_Sizes)
