"""What mechanisms have in common for values on a grid of whole steps, and NULL.

Whether a value is NULL goes through a randomised response of ε/2; noise around the value, or around
the middle of the grid for NULL, has the rest.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.noise.calibrate import MAX_SCALE
from tallyveil.mechanisms.records.one_record import OneRecord
from tallyveil.mechanisms.records.randomised_response import RandomisedResponse
from tallyveil.mechanisms.units import positive, rounded_up

__all__ = ["OnGrid", "scale_above"]


class OnGrid(OneRecord):
    """Of ``size`` cells the last is NULL. ``scale`` is b in steps of the grid, 0 where it has one
    cell; ``flag`` is the law of NULL."""

    errors = "steps"

    def __init__(self, size: int, epsilon: Fraction) -> None:
        self.epsilon = positive(epsilon, "epsilon")
        self.diameter = max(1, size - 2)
        self.middle = (size - 2) // 2
        self.scale = self._scale(size - 2 - self.middle)
        self.flag = RandomisedResponse(2, self.epsilon / 2)

    @abstractmethod
    def _scale(self, farthest: int) -> float:
        """For so many steps from the middle to the farther end."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"scale": self.scale.hex(), "change": str(self.flag.change)}

    @property
    def noise(self) -> Mapping[str, float]:
        (flag,) = self.flag.responses()
        return {"kept": flag.kept, "changed": flag.changed, "scale": self.scale}


def scale_above(exact: Fraction) -> float:
    """The least float that is no less. Raises InvalidParameterValue above `MAX_SCALE`."""
    if not exact <= Fraction(MAX_SCALE):
        raise InvalidParameterValue("epsilon is too small: the noise would not fit 64-bit integers")
    return rounded_up(exact)
