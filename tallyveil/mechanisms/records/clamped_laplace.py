"""Discrete Laplace noise on a bounded range of whole steps, cut off at its ends (METRIC Ex. 5).

The values lie on a grid 0 … n of n + 1 cells, so diam(D) = n steps, and NULL has a cell of its own.
For a value x on the grid the noisy value is x + K with P(K = k) = (1−a)/(1+a) · a^|k|,
a = e^{−1/b}, moved to the nearer end if it falls outside; moving is post-processing. By the
triangle inequality P(y|x) ≤ e^{|x−x′|/b} P(y|x′).

NULL is perturbed too. A randomised response of ε/2 perturbs whether the value is NULL; if the
outcome is "no", the output is the noisy value, or for NULL the noisy middle of the grid. With h
the largest distance of the middle from an end and b = 2h/ε,

- two numbers: e^{n/b} ≤ e^ε, as n ≤ 2h;
- a number and NULL, output a number: e^{ε/2} · e^{h/b} = e^ε;
- a number and NULL, output NULL: e^{ε/2}.

So the output is ε-DP under replacement. Supporting NULL adds no noise to numbers, except that n is
rounded up to 2h.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from tallyveil.arrays import IntArray
from tallyveil.mechanisms.noise.laplace import DiscreteLaplace
from tallyveil.mechanisms.records.grid import OnGrid, scale_above

__all__ = ["ClampedLaplace"]


class ClampedLaplace(OnGrid):
    """Perturbs one value on a grid of whole steps, or NULL, with clamped discrete Laplace noise.

    Raises InvalidParameterValue for an ε that is not positive and finite, or too small for noise
    of 64 bits.
    """

    name = "laplace"
    audited = ((2,), (3,), (4,), (12,), (7,))

    def __init__(self, cells: int, epsilon: Fraction) -> None:
        if not cells >= 2:
            raise ValueError("a grid and its NULL have two cells at least")
        super().__init__(1, cells, epsilon)

    def _scale(self, farthest: int) -> float:
        return scale_above(2 * farthest / self.epsilon)

    @classmethod
    def of(cls, shape: Sequence[int], epsilon: Fraction) -> ClampedLaplace:
        return cls(math.prod(shape), epsilon)

    @property
    def noise(self) -> Mapping[str, float]:
        return {**super().noise, "end_shift": self.end_shift}

    @property
    def end_shift(self) -> float:
        """a/(1−a): for unbiased sums, a value at an end counts as lying this far beyond it.

        E[f(X)|x] = x for f(y) = y inside, f(0) = −a/(1−a) and f(n) = n + a/(1−a), whatever x is:
        Σ_{k≥0} k a^k (1−a) = a/(1−a) is how far beyond an end the noise lies once it is there.
        """
        return 0.0 if self.scale == 0 else 1 / math.expm1(1 / self.scale)

    def _error(self) -> float:
        """E|y − x| = a (2 − a^x − a^{n−x}) / (1 − a²) is largest in the middle (METRIC eq. 13)."""
        n, x = self.cells - 2, self.middle
        inside = -math.expm1(-x / self.scale) - math.expm1(-(n - x) / self.scale)
        return math.exp(-1 / self.scale) * inside / -math.expm1(-2 / self.scale)

    def _noise(self, count: int) -> IntArray:
        noise = np.clip(DiscreteLaplace().draw(self.scale, count), -self.cells, self.cells)
        return noise.astype(np.int64)[None]
