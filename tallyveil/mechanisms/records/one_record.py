"""What a mechanism for one record has to say for itself; sanitised copies are made of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Self

from tallyveil.arrays import IntArray

__all__ = ["OneRecord", "Response"]


class Response(NamedTuple):
    """k-ary randomised response to the ``axis``-th column of a value, or to it as a whole: the
    probabilities of its own value, and of each other one."""

    axis: int | None
    kept: float
    changed: float


class OneRecord(ABC):
    """A mechanism for one value: ε-DP under replacement of the value by any other.

    ``name`` is what copies call it, for good, and ``errors`` what its error is measured in;
    ``diameter`` is the largest distance of two values.
    """

    name: str
    errors: str
    cells: int
    epsilon: Fraction
    diameter: int

    @classmethod
    @abstractmethod
    def of(cls, shape: Sequence[int], epsilon: Fraction) -> Self:
        """The law for a value of several columns of so many cells. Raises ValueError where it is
        for no such value."""

    @property
    def values(self) -> int:
        """How many values are told apart, a step of distance from each other at least."""
        return self.cells

    @property
    @abstractmethod
    def expected_error(self) -> float:
        """At least the largest expected distance of output and value (METRIC eq. 13)."""

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, Any]:
        """The numbers the law consists of, for readers of a copy in other programs.

        Probabilities are change · 2⁻⁶⁴ for each other value; a scale of noise is in steps. Of a
        set they are kept/draws for each value within the radius, and change/draws for each other
        one.
        """

    @property
    def noise(self) -> Mapping[str, float]:
        """Of a law that adds noise its scale, and the probabilities that whether it is NULL is
        kept or changed."""
        return {}

    def responses(self) -> Sequence[Response]:
        """Where counts can be debiased."""
        return []

    @abstractmethod
    def perturb(self, codes: IntArray) -> IntArray:
        """Independent draws, one for each code; the time taken depends on their number only."""
