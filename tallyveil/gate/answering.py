"""Answers a planned statement: decides its counts, and runs the rest of it over the noisy rows."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from tallyveil.deadline import Phase, doing
from tallyveil.gate.deciding.cost_messages import charge_explained
from tallyveil.gate.growth.publishing import Version
from tallyveil.gate.interface import ColumnType, Notice, Receive, Take
from tallyveil.gate.noise_effects import noise_effects
from tallyveil.gate.notices import notice
from tallyveil.gate.planning import Planner
from tallyveil.gate.quotient_intervals import QuotientIntervals
from tallyveil.gate.rows import empty_tables, forward, noisy_tables, projected
from tallyveil.gate.suppression import suppressed
from tallyveil.rewriter import Plan, Query

__all__ = ["Answering", "OuterInputs"]


@dataclass(frozen=True)
class OuterInputs:
    """What the outer statement needs, and the notices that go with its rows. ``take`` takes these,
    if known already."""

    plan: Plan
    tables: dict[str, pa.Table]
    notices: tuple[Notice, ...]
    take: Take | None


@dataclass(eq=False)
class Answering:
    """Answers one session's plans; used by one thread at a time. ``introduced`` are the tables
    about which the session was told what holds for all answers, and ``told`` has the versions."""

    planner: Planner
    introduced: frozenset[str] = frozenset()
    told: dict[str, Version] = field(default_factory=dict)

    def release(self, plan: Plan, query: Query, begin: Receive, after: ExitStack) -> OuterInputs:
        """Return all that the statement over the noisy rows needs. This is where budget is spent.

        ``begin``, which may refuse its columns, is called before that. Errors that pass ``after``
        from then on report what was charged.
        """
        tables = empty_tables(plan) if not plan.private else {}
        notices: tuple[Notice, ...] = ()
        take = begin(self.planner.columns(plan)) if plan.private else None
        if plan.noisy:
            with doing(Phase.ANSWERING):
                tables, notices = self._answered(plan, query, after)
            after.enter_context(doing(Phase.ROWS))
        return OuterInputs(plan, tables | self.planner.relations(plan), notices, take)

    def _answered(
        self, plan: Plan, query: Query, after: ExitStack
    ) -> tuple[dict[str, pa.Table], tuple[Notice, ...]]:
        """The noisy rows, and the notices about them."""
        gate, settings = self.planner.gate, self.planner.settings
        request = self.planner.request(plan, query)
        answered = self.planner.answer(request)
        back = self.planner.back
        after.enter_context(charge_explained(request, answered.quote))
        confidence, nonnegative = request.target.confidence, request.nonnegative
        over_looks = partial(back.over_all_looks, request, answered)
        looks = over_looks(confidence) if settings.all_looks else None
        quotients = QuotientIntervals(
            plan,
            answered,
            back,
            confidence,
            over_looks if settings.all_looks else None,
            nonnegative,
        )
        tables = noisy_tables(plan, answered, confidence, looks, quotients, nonnegative=nonnegative)
        small: tuple[Notice, ...] = ()
        if settings.minimum_count:
            tables, small = suppressed(plan, tables, settings.minimum_count)
        if not (plan.private and settings.notices):
            return tables, ()
        own = notice(request, answered, gate.budgets, looks, quotients)
        effects = noise_effects(plan, tables, self.planner.cursor)
        introduced, absent = self._introductions(plan)
        return tables, (*absent, own, *small, *effects, *introduced)

    def _introductions(self, plan: Plan) -> tuple[list[Notice], list[Notice]]:
        """What to say with the session's first answer about a table: that not all rows of a unit
        are counted, and what is guaranteed where it has invariants, or has the records of one that
        does; and with the first answer from a version, which days are counted. Then, that a version
        was never published, which comes before how to buy what it lacks."""
        gate, said, absent = self.planner.gate, list[Notice](), list[Notice]()
        tables = dict.fromkeys([*plan.workloads, *plan.histograms])
        for table in (name for name in tables if name not in self.introduced):
            capped, guarantee = gate.policy.tables[table].capped, gate.guarantees[table]
            if capped is not None:
                said.append(Notice(f"{table}: {capped}"))
            if guarantee.agreeing:
                sentence = guarantee.sentence(gate.budgets.balance(table))
                said.append(Notice(f"{table}: {sentence}"))
            if capped is not None or guarantee.agreeing:
                self.introduced = self.introduced.union((table,))
        for table, version in self.planner.edition.versions.items():
            if table in tables and self.told.get(table) != version:
                (said if version.published else absent).append(Notice(f"{table}: {version.words}"))
                self.told[table] = version
        return said, absent

    def rows(self, released: OuterInputs, begin: Receive) -> tuple[tuple[ColumnType, ...], int]:
        """Run the statement over the noisy rows: its columns, and how many rows were forwarded."""
        plan = released.plan
        if plan.projection is not None:
            columns = self.planner.columns(plan)
            found = projected(plan.projection, released.tables[plan.noisy[0].name])
            return columns, forward(found, released.take or begin(columns))
        with self.planner.cursor.tables(released.tables):
            columns = self.planner.present_columns(plan)
            take, kinds = released.take or begin(columns), [column.type for column in columns]
            return columns, self.planner.cursor.values(plan.sql, kinds, take)
