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
    """w = Σ ``factors[i]`` · (declared row ``places[i]``), in integers and fractions of them."""

    places: tuple[int, ...]
    factors: tuple[Rational, ...]

    def of(self, values: Sequence[int]) -> int:
        """wx, from the values Cx of the declared rows: a whole number, as w and x are.

        Raises ValueError if it is none, so that the values are those of no x.
        """
        total: Rational = 0
        for place, factor in zip(self.places, self.factors, strict=True):
            total += factor * values[place]
        if int(total) != total:
            raise ValueError("the values contradict each other")
        return int(total)

    def renumbered(self, numbers: Sequence[int]) -> ExactCombination:
        """Of the declared rows ``numbers[place]`` instead."""
        return ExactCombination(tuple(numbers[place] for place in self.places), self.factors)


def ratio(numerator: int, denominator: int) -> Rational:
    """An integer where it is one."""
    whole, rest = divmod(numerator, denominator)
    return Fraction(numerator, denominator) if rest else whole
