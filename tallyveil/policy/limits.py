"""How much the ledger records of a table: the limits, and the checks of their keys."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tallyveil.policy.checks import exact_number, wrong

__all__ = ["Limits", "least_cost", "megabytes", "recorded_rows"]


@dataclass(frozen=True)
class Limits:
    """How much the ledger records of a table, so that no analyst can make it unusable.

    A statement that is charged costs at least ``least_cost`` of the budget; if that is None, a
    millionth of it, but no more than 0.0001 of its unit (`least`). All that is recorded
    has at most so many ``rows`` and ``megabytes``, and what one analyst asked for at most
    ``analyst_rows`` and ``analyst_megabytes`` of them.
    """

    least_cost: Fraction | None = None
    rows: int = 4_000_000
    megabytes: int = 512
    analyst_rows: int = 2_000_000
    analyst_megabytes: int = 256

    def __post_init__(self) -> None:
        if self.least_cost is not None and not 0 <= self.least_cost <= 1:
            raise ValueError("a least cost is a share of the budget")
        amounts = (self.rows, self.megabytes, self.analyst_rows, self.analyst_megabytes)
        if not min(amounts) >= 1:
            raise ValueError("at least one row and one megabyte are recorded")

    def least(self, budget: Fraction) -> Fraction:
        """The least cost of a statement, in the unit of the ``budget``."""
        if self.least_cost is None:
            return min(budget / 10**6, Fraction(1, 10**4))
        return self.least_cost * budget


def least_cost(value: Any) -> Fraction:
    exact = exact_number(value)
    if exact is None or not 0 <= exact <= Fraction(1, 10):
        raise wrong("expected a share of the budget from 0 (no least cost) to 0.1, such as 1e-6")
    return exact


def recorded_rows(value: Any) -> int:
    return _whole(value, 10**9, "rows")


def megabytes(value: Any) -> int:
    return _whole(value, 10**6, "megabytes")


def _whole(value: Any, most: int, unit: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise wrong(f"expected a whole number of {unit} from 1 to {most:,}")
    return value
