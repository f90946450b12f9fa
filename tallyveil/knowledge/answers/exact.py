"""Rows that are exact: zero, or proven in integers to follow from the published counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from tallyveil.invariants import Span
from tallyveil.knowledge.answers.answers import Answers
from tallyveil.knowledge.found import Found
from tallyveil.workload.workload import Column

__all__ = ["ExactRows"]


class ExactRows:
    """The exact rows of one table. ``values`` has one value for each row of ``span``, which is None
    if nothing is published. Threads may share it.

    Answers are cached for as long as their column object lives. A row without a coefficient is 0,
    whatever is published.
    """

    def __init__(self, span: Span | None = None, values: Sequence[int] = ()) -> None:
        self.span = span
        self.values = tuple(values)
        self._known: WeakKeyDictionary[Column, Answers] = WeakKeyDictionary()

    def may_answer(self, columns: Sequence[Column]) -> bool:
        """Whether any row of the columns may be exact."""
        return self.span is not None or any(len(column.zeros) for column in columns)

    def answers(self, column: Column) -> Answers:
        """The exact answers; a row that is not exact is not known."""
        found = self._known.get(column)
        if found is None:
            found = self._known[column] = self._answers(column)
        return found

    def _answers(self, column: Column) -> Answers:
        found = dict.fromkeys(column.zeros.tolist(), 0)
        for row, one in enumerate(() if self.span is None else self.span.combinations(column)):
            if one is not None:
                found.setdefault(row, one.of(self.values))
        return Answers.exact(found, column.height)

    def knows_all(self, columns: Sequence[Column]) -> bool:
        return all(self.answers(column).whole for column in columns)

    def put(self, found: Found) -> Found:
        """Return ``found`` with exact answers in place of what else is known."""
        rows = []
        for column, own in zip(found.columns, found.rows, strict=True):
            exact = self.answers(column)
            rows.append(own.where(exact.known, exact))
        return replace(found, rows=tuple(rows))
