"""What every kind of answer says of itself, in units of the row's lattice."""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tallyveil.knowledge.aim import Aim
from tallyveil.knowledge.estimate import Estimate

if TYPE_CHECKING:
    from tallyveil.knowledge.answer import Released

__all__ = ["Interval", "Known"]


class Interval(NamedTuple):
    """An answer and the ends of its interval, in lattice units."""

    value: int
    low: int
    high: int


class Known(Protocol):
    """An answer of one row, or the sum of several rows' answers."""

    @property
    def additive(self) -> bool:
        """Whether it adds up with others, and can take part in estimates."""
        ...

    @property
    def by(self) -> str | None:
        """The mechanism with a public range that it is from, if it is."""
        ...

    @property
    def exact(self) -> bool: ...

    @property
    def value(self) -> float:
        """Before it is rounded to a step of the lattice."""
        ...

    @property
    def law(self) -> Hashable:
        """Equal for answers whose errors have one law, while both are held."""
        ...

    @property
    def rounded(self) -> int:
        """What is reported."""
        ...

    def reporting(self, value: int) -> Known:
        """The same, with another value reported. Its interval holds that too."""
        ...

    @property
    def variance(self) -> float: ...

    @property
    def deviation(self) -> float:
        """σ of the error; about the value, where that is not its mean."""
        ...

    def half_width(self, confidence: Fraction) -> float:
        """How far the farther end of the interval is."""
        ...

    def interval(self, confidence: Fraction) -> Interval: ...

    def probability(self, low: int | None, high: int | None) -> float:
        """A lower bound of P(low ≤ truth ≤ high), within 10⁻⁹; None for no bound."""
        ...

    def quantile(self, probability: float) -> float:
        """A value that the truth is at most with this probability, or a little more.

        Raises InvalidParameterValue unless 0 < probability < 1.
        """
        ...

    @property
    def limits(self) -> tuple[int, int] | None:
        """Between which numbers the truth is for certain, if that is known."""
        ...

    @property
    def parts(self) -> tuple[Released, tuple[Estimate, ...]]:
        """What it is the sum of. Raises TypeError if it does not add up."""
        ...

    def suffices(self, aim: Aim) -> bool:
        """Whether it is as good as what is asked for."""
        ...
