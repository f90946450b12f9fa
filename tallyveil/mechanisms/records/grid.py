"""The base of mechanisms for values on a grid of whole steps, and NULL.

A value is a number at each of one or more times. A randomised response of ε/2 perturbs whether it
is NULL. Noise around the value, or around the middle of the grid for NULL, costs the other half,
and is clamped to the ends of the grid, which is post-processing.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from tallyveil.arrays import IntArray
from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.noise.calibrate import MAX_SCALE
from tallyveil.mechanisms.records.one_record import OneRecord
from tallyveil.mechanisms.records.record_response import DRAWS, RandomisedResponse
from tallyveil.mechanisms.units import positive, rounded_up

__all__ = ["OnGrid", "scale_above"]


class OnGrid(OneRecord):
    """Perturbs codes 0 … cells − 1, the C-order index into ``times`` axes of ``size`` cells: the
    grid and, last, NULL. The output is NULL at all times or at none; a value that is NULL at one
    time counts as NULL at all.

    ``scale`` is b in steps of the grid, 0 if the grid has one cell; ``flag`` perturbs whether the
    value is NULL. ``room`` is the most that inexact drawing adds to the logarithm of a ratio.
    """

    errors = "steps"
    room = Fraction(0)

    def __init__(self, times: int, size: int, epsilon: Fraction) -> None:
        self.epsilon = positive(epsilon, "epsilon")
        self.times, self.size, self.cells = times, size, math.prod([size] * times)
        self.diameter = max(1, size - 2)
        self.middle = (size - 2) // 2
        self.scale = self._scale(size - 2 - self.middle)
        self.flag = RandomisedResponse(2, self.epsilon / 2)

    @abstractmethod
    def _scale(self, farthest: int) -> float:
        """Return b, given the steps from the middle to the farther end."""

    @abstractmethod
    def _noise(self, count: int) -> IntArray:
        """Draw noise for ``count`` values, a row for each time."""

    @abstractmethod
    def _error(self) -> float:
        """Return at least the largest E|y − x| in steps, for clamped noisy values."""

    @property
    def values(self) -> int:
        """The number of values: all on the grid, and NULL."""
        return math.prod([self.size - 1] * self.times) + 1

    @property
    def expected_error(self) -> float:
        """At least the largest E|y − x| in steps over all x; NULL is ``diameter`` from the rest."""
        flip = self.flag.change / DRAWS
        return (1 - flip) * (self._error() if self.scale else 0.0) + flip * self.diameter

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"scale": self.scale.hex(), "change": str(self.flag.change)}

    @property
    def noise(self) -> Mapping[str, float]:
        (flag,) = self.flag.responses()
        return {"kept": flag.kept, "changed": flag.changed, "scale": self.scale}

    def perturb(self, codes: IntArray) -> IntArray:
        """As declared. Every record draws both a flag and noise, whatever its value."""
        null, shape = self.size - 1, (self.size,) * self.times
        values = np.array(np.unravel_index(codes, shape), dtype=np.int64)
        missing = (values == null).any(axis=0)
        flags = self.flag.perturb(missing.astype(np.int64))
        values = np.where(missing, self.middle, values)
        if self.scale != 0:
            values = np.clip(values + self._noise(len(codes)), 0, null - 1)
        values = np.where(flags == 1, null, values)
        perturbed: IntArray = np.ravel_multi_index(tuple(values), shape).astype(np.int64)
        return perturbed


def scale_above(exact: Fraction) -> float:
    """Return the least float ≥ ``exact``. Raises InvalidParameterValue above `MAX_SCALE`."""
    if not exact <= Fraction(MAX_SCALE):
        raise InvalidParameterValue("epsilon is too small: the noise would not fit 64-bit integers")
    return rounded_up(exact)
