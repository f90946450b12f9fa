"""A planned statement answered: its counts decided, then the rest of it over their noisy rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from tallyveil.deadline import Phase, doing
from tallyveil.gate.charged import charge_explained
from tallyveil.gate.interface import ColumnType, Notice
from tallyveil.gate.notices import notice
from tallyveil.gate.planning import Planner
from tallyveil.gate.request import request_of
from tallyveil.gate.rows import empty_tables, hand_on, noisy_tables, projected
from tallyveil.gate.settings import Settings
from tallyveil.gate.shared import Shared
from tallyveil.rewriter import Cursor, Plan

__all__ = ["Answering", "Released", "See", "Take"]

See: TypeAlias = Callable[[tuple[ColumnType, ...]], object]
"""Is called with the result's columns, and may refuse them."""

Take: TypeAlias = Callable[[list[tuple[Any, ...]]], object]
"""Is called with the result's rows, some at a time."""


@dataclass(frozen=True)
class Released:
    """What the outer statement needs, and what the analyst is told beside its rows."""

    plan: Plan
    tables: dict[str, pa.Table]
    notices: tuple[Notice, ...] = ()


class Answering:
    """Answers one session's plans; used by one thread at a time. ``guaranteed`` are the tables
    of which it has been told what is guaranteed."""

    def __init__(
        self, gate: Shared, cursor: Cursor, settings: Settings, user: str, planner: Planner
    ) -> None:
        self._gate = gate
        self._cursor = cursor
        self._settings = settings
        self._user = user
        self._planner = planner
        self.guaranteed: frozenset[str] = frozenset()

    def release(self, plan: Plan, sql: str, see: See, after: ExitStack) -> Released:
        """Everything the statement over the noisy rows needs. This is where budget is spent.

        ``see`` is called before that. Errors that pass ``after`` from then on say what was charged.
        """
        tables = empty_tables(plan) if not plan.private else {}
        notices: tuple[Notice, ...] = ()
        if plan.private:
            see(self._planner.columns(plan))
        if plan.noisy:
            with doing(Phase.ANSWERING):
                tables, notices = self._answered(plan, sql, after)
            after.enter_context(doing(Phase.ROWS))
        return Released(plan, tables | self._planner.relations(plan), notices)

    def _answered(
        self, plan: Plan, sql: str, after: ExitStack
    ) -> tuple[dict[str, pa.Table], tuple[Notice, ...]]:
        """The noisy rows, and what is said of them."""
        decision, settings = self._gate.decision, self._settings
        request = request_of(plan, settings, sql, self._user)
        answered = decision.answer(request)
        after.enter_context(charge_explained(request, answered.quote))
        confidence, nonnegative = request.target.confidence, request.nonnegative
        looks = decision.over_all_looks(request, answered) if settings.all_looks else None
        tables = noisy_tables(plan, answered, confidence, looks, nonnegative=nonnegative)
        if not (plan.private and settings.notices):
            return tables, ()
        told = notice(request, answered, self._gate.accountant, looks)
        return tables, (told, *self._guarantees(plan))

    def _guarantees(self, plan: Plan) -> tuple[Notice, ...]:
        """With a session's first answer about each table that has invariants, or the records of one
        that has."""
        every, told = self._gate.guarantees, self.guaranteed
        tables = [t for t in plan.workloads if every[t].agreeing and t not in told]
        self.guaranteed = told.union(tables)
        return tuple(Notice(f"{table}: {every[table].sentence}") for table in tables)

    def rows(
        self, released: Released, begin: See, takers: Sequence[Take]
    ) -> tuple[tuple[ColumnType, ...], int]:
        """The statement over the noisy rows: its columns, and how many rows were handed on.

        ``takers`` is whoever takes the rows, once ``begin`` was called.
        """
        plan = released.plan
        if plan.projection is not None:
            columns = self._planner.columns(plan)
            if not takers:
                begin(columns)
            found = projected(plan.projection, released.tables[plan.noisy[0].name])
            return columns, hand_on(found, takers[0])
        with self._cursor.tables(released.tables):
            columns = self._planner.present_columns(plan)
            if not takers:
                begin(columns)
            kinds = [column.type for column in columns]
            return columns, self._cursor.values(plan.sql, kinds, takers[0])
