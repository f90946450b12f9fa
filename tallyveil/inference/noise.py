"""Independent noises of known laws, many at a time.

A noise with next to no scale is 0 but for a chance of about 2e^{−1/b}, or 2e^{−1/2σ²}, and its
variance is less than any float. It counts as the noise of the scale at which these are e^{−64}: a
wider one, so that intervals are not narrower.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference.laws import LAWS, NoiseLaw

__all__ = ["FloatArray", "Noises"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Noises:
    """Independent noises: ``laws[k]`` (a law's number) with ``scales[k]``, its least at least.

    Raises InvalidParameterValue unless every scale is finite and not negative.
    """

    laws: npt.NDArray[np.int8]
    scales: FloatArray

    def __post_init__(self) -> None:
        if self.laws.shape != self.scales.shape or self.scales.ndim != 1:
            raise InvalidParameterValue("each noise has one law and one scale")
        if not ((self.laws >= 0) & (self.laws < len(LAWS))).all():
            raise InvalidParameterValue("a noise has the number of a law")
        if not ((self.scales >= 0) & (self.scales < math.inf)).all():
            raise InvalidParameterValue("a noise scale is a finite number from 0")
        least = np.array([law.least for law in LAWS])
        if ((self.scales > 0) & (self.scales < least.max())).any():
            wider = np.where(self.scales > 0, np.maximum(self.scales, least[self.laws]), 0.0)
            object.__setattr__(self, "scales", wider)
        self.laws.setflags(write=False)
        self.scales.setflags(write=False)

    @classmethod
    def of(cls, law: type[NoiseLaw], scales: Sequence[float] | FloatArray | float) -> Noises:
        """Noises of one law."""
        values = np.atleast_1d(np.array(scales, dtype=np.float64))
        return cls(np.full(values.shape, law.number, dtype=np.int8), values)

    @classmethod
    def concatenated(cls, parts: Sequence[Noises]) -> Noises:
        if not parts:
            return cls(np.zeros(0, dtype=np.int8), np.zeros(0))
        return cls(
            np.concatenate([p.laws for p in parts]), np.concatenate([p.scales for p in parts])
        )

    def __len__(self) -> int:
        return len(self.scales)

    @cached_property
    def variances(self) -> FloatArray:
        """Var N_k."""
        result = np.zeros(len(self.scales))
        for law in LAWS:
            own = self.laws == law.number
            if own.any():
                result[own] = law.variances(self.scales[own])
        return result

    def take(self, which: npt.NDArray[np.intp]) -> Noises:
        return Noises(self.laws[which], self.scales[which])
