"""Limits of what the ledger records for a table, and the checks of their keys."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

from tallyveil.policy.declaration import Declaration
from tallyveil.policy.value_checks import LeastCost, whole_of

__all__ = ["Limits"]

_Rows = Annotated[int, whole_of("rows", 10**9)]
_Megabytes = Annotated[int, whole_of("megabytes", 10**6)]


class Limits(Declaration):
    """Limits of what the ledger records for a table, so that no analyst can make it unusable.

    A statement that is charged costs at least the share ``least_cost`` of the budget; if that is
    None, a millionth of it, but no more than 0.0001 of its unit (`least`). The ledger records at
    most ``rows`` and ``megabytes`` for the table, and at most ``analyst_rows`` and
    ``analyst_megabytes`` of them for one analyst's statements.
    """

    least_cost: LeastCost | None = None
    rows: _Rows = 4_000_000
    megabytes: _Megabytes = 512
    analyst_rows: _Rows = 2_000_000
    analyst_megabytes: _Megabytes = 256

    def least(self, budget: Fraction) -> Fraction:
        """Return the least cost of a statement, in the unit of the ``budget``."""
        if self.least_cost is None:
            return min(budget / 10**6, Fraction(1, 10**4))
        return self.least_cost * budget
