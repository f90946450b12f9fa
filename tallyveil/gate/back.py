"""What the front of the gate, which reads SQL and makes results, asks of its back, which knows
counts, history and budgets.

All arguments and results are values: columns, answers with the laws of their errors, costs, texts.
None holds a count without noise, a receipt, a cube, or the place of a source or of the ledger, and
all survive being pickled for another process. What an edition serves is named by `AsOf`, its
handle: each edition has a back of its own. What is spent, and on what, is `BudgetReports`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

from tallyveil.gate.deciding.outcome import Answered, Forecast, LookIntervals
from tallyveil.gate.deciding.request import Request
from tallyveil.knowledge import Answers, Estimate
from tallyveil.rewriter import Column

__all__ = ["Back"]


class Back(Protocol):
    """Of one edition; `Decision` is the one in this process. Threads may share it."""

    def allowed(self, request: Request) -> Request:
        """The request as it may be carried out here: of the past nothing is bought."""
        ...

    def answer(self, request: Request) -> Answered:
        """Answer from history where it suffices; buy and record the rest."""
        ...

    def knows(self, request: Request) -> bool:
        """Whether history determines every row."""
        ...

    def forecast(self, request: Request) -> Forecast:
        """What `answer` would do now. Free; it changes nothing."""
        ...

    def over_all_looks(
        self, request: Request, answered: Answered, confidence: Fraction
    ) -> LookIntervals:
        """The intervals of the answers over all looks."""
        ...

    def with_noises(self, table: str, column: Column, rows: Answers) -> list[Estimate | None]:
        """What was reported about a column's rows, with its noises."""
        ...
