"""Independent noises of known laws, many at a time.

Two laws on the integers, both symmetric about zero, by their scale: b for the discrete Laplace,
with a = e^{−1/b}; σ for the discrete Gaussian, whose probabilities are proportional to e^{−k²/2σ²}.
A scale of 0 is no noise at all.

A noise with next to no scale is 0 but for a chance of about 2e^{−1/b}, or 2e^{−1/2σ²},
and its variance is less than any float. It counts as the noise of the scale at which these are
e^{−64}: a wider one, so that intervals are not narrower.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from tallyveil.errors import InvalidParameterValue

__all__ = ["FloatArray", "Law", "Noises", "discrete_laplace_variance"]

FloatArray = npt.NDArray[np.float64]


class Law(IntEnum):
    DISCRETE_LAPLACE = 0
    DISCRETE_GAUSSIAN = 1


_LEAST: Final = np.array([1 / 64, 1 / math.sqrt(128)])  # by law


@dataclass(frozen=True, eq=False)
class Noises:
    """Independent noises: ``laws[k]`` (a `Law`) with ``scales[k]``, b or σ, the least at least.

    Raises InvalidParameterValue unless every scale is finite and not negative.
    """

    laws: npt.NDArray[np.int8]
    scales: FloatArray

    def __post_init__(self) -> None:
        if self.laws.shape != self.scales.shape or self.scales.ndim != 1:
            raise InvalidParameterValue("each noise has one law and one scale")
        if not ((self.laws == Law.DISCRETE_LAPLACE) | (self.laws == Law.DISCRETE_GAUSSIAN)).all():
            raise InvalidParameterValue("a noise has one of the laws of tallyveil.inference.Law")
        if not ((self.scales >= 0) & (self.scales < math.inf)).all():
            raise InvalidParameterValue("a noise scale is a finite number from 0")
        if ((self.scales > 0) & (self.scales < _LEAST.max())).any():
            wider = np.where(self.scales > 0, np.maximum(self.scales, _LEAST[self.laws]), 0.0)
            object.__setattr__(self, "scales", wider)
        self.laws.setflags(write=False)
        self.scales.setflags(write=False)

    @classmethod
    def of(cls, law: Law, scales: Sequence[float] | FloatArray | float) -> Noises:
        """Noises of one law."""
        values = np.atleast_1d(np.array(scales, dtype=np.float64))
        return cls(np.full(values.shape, law, dtype=np.int8), values)

    @classmethod
    def concatenated(cls, parts: Sequence[Noises]) -> Noises:
        if not parts:
            return cls.of(Law.DISCRETE_LAPLACE, [])
        return cls(
            np.concatenate([p.laws for p in parts]), np.concatenate([p.scales for p in parts])
        )

    def __len__(self) -> int:
        return len(self.scales)

    @cached_property
    def variances(self) -> FloatArray:
        """Var N_k: 2a/(1−a)²; of the discrete Gaussian its sum where σ < 4, else σ², from which it
        then differs by less than 1e-100."""
        laws, scales = self.laws, self.scales
        result = scales**2
        laplace = laws == Law.DISCRETE_LAPLACE
        result[laplace] = discrete_laplace_variance(scales[laplace])
        for k in np.flatnonzero((laws == Law.DISCRETE_GAUSSIAN) & (scales < 4) & (scales > 0)):
            steps = np.arange(1, 200, dtype=np.float64)
            weights = 2 * np.exp(-0.5 * (steps / scales[k]) ** 2)
            result[k] = (steps**2 * weights).sum() / (1 + weights.sum())
        return result

    def take(self, which: npt.NDArray[np.intp]) -> Noises:
        return Noises(self.laws[which], self.scales[which])


def discrete_laplace_variance(scales: FloatArray) -> FloatArray:
    """2a/(1−a)², coded so that nothing cancels; 0 for the scale 0."""
    with np.errstate(divide="ignore"):
        u = 1 / scales
    result: FloatArray = (np.sqrt(2 * np.exp(-u)) / np.expm1(-u)) ** 2
    return result
