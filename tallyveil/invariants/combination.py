"""The certificate that a row follows from declared rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

__all__ = ["ExactCombination", "Rational", "ratio"]

Rational: TypeAlias = int | Fraction


@dataclass(frozen=True, slots=True)
class ExactCombination:
    """w = Σ ``factors[i]`` · (declared row ``places[i]``), with rational factors."""

    places: tuple[int, ...]
    factors: tuple[Rational, ...]

    def of(self, values: Sequence[int]) -> int:
        """wx from the values Cx of the declared rows: an integer, as w and x are.

        Raises ValueError if it is not an integer, since then no x has these values.
        """
        total: Rational = 0
        for place, factor in zip(self.places, self.factors, strict=True):
            total += factor * values[place]
        if int(total) != total:
            raise ValueError("the values contradict each other")
        return int(total)

    def renumbered(self, numbers: Sequence[int]) -> ExactCombination:
        """The combination with declared rows ``numbers[place]`` in place of ``place``."""
        return ExactCombination(tuple(numbers[place] for place in self.places), self.factors)


def ratio(numerator: int, denominator: int) -> Rational:
    """The ratio, as an int if it is whole."""
    whole, rest = divmod(numerator, denominator)
    return Fraction(numerator, denominator) if rest else whole
