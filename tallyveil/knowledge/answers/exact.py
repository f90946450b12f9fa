"""Rows that are exact: zero, or proven in integers to follow from the published counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias
from weakref import WeakKeyDictionary

from tallyveil.invariants import Span
from tallyveil.knowledge.answers.answer import Known
from tallyveil.knowledge.answers.many import Alike
from tallyveil.knowledge.answers.released_answer import Released
from tallyveil.knowledge.found import Found
from tallyveil.workload.workload import Column

__all__ = ["ExactRows"]

_Answers: TypeAlias = tuple[Released | None, ...]


class ExactRows:
    """The exact rows of one table. ``values`` has one value for each row of ``span``, which is None
    if nothing is published. Threads may share it.

    Answers are cached for as long as their column object lives. A row without a coefficient is 0,
    whatever is published.
    """

    def __init__(self, span: Span | None = None, values: Sequence[int] = ()) -> None:
        self.span = span
        self.values = tuple(values)
        self._known: WeakKeyDictionary[Column, _Answers] = WeakKeyDictionary()

    def may_answer(self, columns: Sequence[Column]) -> bool:
        """Whether any row of the columns may be exact."""
        return self.span is not None or any(len(column.zeros) for column in columns)

    def answers(self, column: Column) -> _Answers:
        """The exact answer of each row, None for a row that is not exact."""
        found = self._known.get(column)
        if found is None:
            found = self._known[column] = self._answers(column)
        return found

    def _answers(self, column: Column) -> _Answers:
        found: list[Released | None] = [None] * column.height
        if self.span is not None:
            combinations = self.span.combinations(column)
            found = [None if one is None else Released(one.of(self.values)) for one in combinations]
        for row in column.zeros.tolist():
            found[row] = Released(0)
        return tuple(found)

    def knows_all(self, columns: Sequence[Column]) -> bool:
        return all(None not in self.answers(column) for column in columns)

    def put(self, found: Found) -> Found:
        """Return ``found`` with exact answers in place of what else is known."""
        rows = list[Sequence[Known | None]]()
        for column, own in zip(found.columns, found.rows, strict=True):
            answers = self.answers(column)
            exact = {n: answer.value for n, answer in enumerate(answers) if answer is not None}
            if isinstance(own, Alike) and exact:
                rows.append(own.among(range(len(own)), exact))
            else:
                pairs = zip(answers, own, strict=True)
                rows.append(tuple([a or b for a, b in pairs]) if exact else own)
        return replace(found, rows=tuple(rows))
