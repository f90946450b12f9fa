"""How much the ledger records of a table: the limits, and the checks of their keys."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, PlainValidator

from tallyveil.policy.checks import Declaration, exact_number, wrong

__all__ = ["Limits"]

_ROWS: Final = "a whole number of rows"
_MEGABYTES: Final = "a whole number of megabytes"


def _least_cost(value: Any) -> Fraction:
    exact = exact_number(value)
    if exact is None or not 0 <= exact <= Fraction(1, 10):
        raise wrong("expected a share of the budget from 0 (no least cost) to 0.1, such as 1e-6")
    return exact


def _rows(value: Any) -> int:
    return _whole(value, 10**9, "rows")


def _megabytes(value: Any) -> int:
    return _whole(value, 10**6, "megabytes")


def _whole(value: Any, most: int, unit: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise wrong(f"expected a whole number of {unit} from 1 to {most:,}")
    return value


class Limits(Declaration):
    """How much the ledger records of a table, so that no analyst can make it unusable.

    A statement that is charged costs at least ``least_cost`` of the budget; if that is None, a
    millionth of it, but no more than 0.0001 of its unit (`least`). All that is recorded
    has at most so many ``rows`` and ``megabytes``, and what one analyst asked for at most
    ``analyst_rows`` and ``analyst_megabytes`` of them.
    """

    least_cost: Annotated[Fraction, PlainValidator(_least_cost)] | None = Field(
        default=None, description="a share of the budget such as 1e-6"
    )
    rows: Annotated[int, BeforeValidator(_rows)] = Field(default=4_000_000, description=_ROWS)
    megabytes: Annotated[int, BeforeValidator(_megabytes)] = Field(
        default=512, description=_MEGABYTES
    )
    analyst_rows: Annotated[int, BeforeValidator(_rows)] = Field(
        default=2_000_000, description=_ROWS
    )
    analyst_megabytes: Annotated[int, BeforeValidator(_megabytes)] = Field(
        default=256, description=_MEGABYTES
    )

    def least(self, budget: Fraction) -> Fraction:
        """The least cost of a statement, in the unit of the ``budget``."""
        if self.least_cost is None:
            return min(budget / 10**6, Fraction(1, 10**4))
        return self.least_cost * budget
