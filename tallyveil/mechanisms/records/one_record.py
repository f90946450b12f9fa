"""The interface of mechanisms for one record, by which sanitised copies are made."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Self

from tallyveil.arrays import IntArray
from tallyveil.mechanisms.noise.exact_draws import RandomWords

__all__ = ["ByDraws", "OneRecord", "Response"]


class Response(NamedTuple):
    """k-ary randomised response to the ``axis``-th column of a value, or, for None, to the whole
    value: the probabilities that it is kept, and of each other value."""

    axis: int | None
    kept: float
    changed: float


class OneRecord(ABC):
    """A mechanism for one value: ε-DP under replacement of the value by any other.

    ``name`` is its permanent name in copies, ``errors`` the unit of its error, and ``diameter`` the
    largest distance of two values. The audit proves the law for values of the shapes ``audited``,
    and tests draws of the last.
    """

    name: str
    errors: str
    cells: int
    epsilon: Fraction
    diameter: int
    audited: ClassVar[Sequence[tuple[int, ...]]]

    @classmethod
    @abstractmethod
    def of(cls, shape: Sequence[int], epsilon: Fraction) -> Self:
        """Return the mechanism for a value of columns with ``shape`` cells.

        Raises ValueError if it cannot perturb such a value.
        """

    @property
    def values(self) -> int:
        """The number of distinct values; any two are at least a step apart."""
        return self.cells

    @property
    @abstractmethod
    def expected_error(self) -> float:
        """At least the largest expected distance of output and value (METRIC eq. 13)."""

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of the law, for other programs that read a copy.

        ``change`` · 2⁻⁶⁴ is the probability of each other value; ``scale`` of noise is in steps.
        For a set, values within ``radius`` have the probability kept/draws each, and all others
        change/draws each.
        """

    @property
    def noise(self) -> Mapping[str, float]:
        """For a law that adds noise: its scale, and the probabilities that the NULL flag is kept or
        changed. Empty for others."""
        return {}

    def responses(self) -> Sequence[Response]:
        """The randomised responses by which counts can be debiased."""
        return []

    @abstractmethod
    def perturb(self, codes: IntArray) -> IntArray:
        """Perturb each code independently. The time taken depends only on how many there are."""


class ByDraws(OneRecord):
    """One whole number, uniform on 0 … ``draws`` − 1, determines the output for a value. All draws
    with one output follow each other, so that the audit can count them."""

    draws: int

    @abstractmethod
    def outcome(self, codes: IntArray, draws: RandomWords) -> IntArray:
        """Return the output for each code and its draw."""
