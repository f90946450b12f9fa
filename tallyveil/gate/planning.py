"""A session's plans: typed, cached by all they depend on, described. Planning spends nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tallyveil import deadline
from tallyveil.accountant import VersionAdvanced
from tallyveil.cache import exact_key
from tallyveil.errors import TallyveilError, UndefinedFunction, VersionReplaced
from tallyveil.gate.back import Back
from tallyveil.gate.deciding.outcome import Answered
from tallyveil.gate.deciding.request import Request, request_of
from tallyveil.gate.growth.editions import Edition
from tallyveil.gate.interface import ColumnType
from tallyveil.gate.relations.relations import Viewer, relation_tables
from tallyveil.gate.rows import empty_tables
from tallyveil.gate.settings import Settings
from tallyveil.gate.shared import Shared
from tallyveil.rewriter import (
    Dialect,
    Plan,
    PublicCursor,
    Query,
    local_now,
    read_query,
    split,
    types_of,
)
from tallyveil.truth import truth

__all__ = ["Planner"]


@dataclass(eq=False)
class Planner:
    """Plans one session's queries; used by one thread at a time. Sessions share the plans.
    ``edition`` is that of the present statement. ``pid`` is the number of the session's connection,
    ``assigned`` the settings that the last plan of a query that assigns some leads to.
    ``compared`` says that the statement has been given an answer to compare with, which holds in
    its edition alone."""

    gate: Shared
    cursor: PublicCursor
    settings: Settings
    user: str
    database: str
    dialect: Dialect
    edition: Edition
    pid: int = 0
    assigned: object = None
    compared: bool = False

    @property
    def back(self) -> Back:
        """What answers: that of the present statement's edition."""
        return self.edition.decision

    def request(self, plan: Plan, query: Query) -> Request:
        """What the query asks of the decision."""
        return self.back.allowed(request_of(plan, self.settings, query.sql, self.user))

    def answer(self, request: Request) -> Answered:
        """The answer, of what is served by then: rows may be replaced meanwhile. Raises what
        `Decision.answer` raises but for that, what `Editions.advanced` does, and VersionReplaced
        if the statement has compared with an answer about the version before."""
        while True:
            try:
                return self.back.answer(self.back.allowed(request))
            except VersionAdvanced as advanced:
                if self.compared:
                    raise VersionReplaced(
                        f"another version of table {advanced.table} was published while the"
                        " statement was answered",
                        hint="Send it again: its subqueries are then answered of that version too.",
                    ) from None
                about = self.edition, advanced.table, self.settings.as_of
                self.edition = self.gate.editions.advanced(*about)

    def types(self, query: Query, declared: Sequence[str | None]) -> tuple[str, ...]:
        """The types of the query's parameters: declared, or inferred from their context."""
        if not query.parameters:
            return ()
        key = ("types", self.dialect, query.sql, tuple(declared))
        types: tuple[str, ...] = self.edition.plans.get(
            key, lambda: self.edition.rewriter.parameter_types(query.sql, self.dialect, declared)
        )
        return types

    def plan(
        self,
        query: Query,
        values: Sequence[Any] = (),
        declared: Sequence[str | None] = (),
        *,
        shares: bool | None = None,
    ) -> Plan:
        """Plan for parameters of these values, of the types ``declared`` or else of the values.

        ``shares``: whether answers may be summed up from finer ones; None: as the settings say.
        """
        types = self.types(query, declared or types_of(values))
        shares = self.settings.shares if shares is None else shares
        now = local_now(self.settings.time_zone)

        def make() -> Plan:
            alone = query.shape is None or query.time or query.of_session
            return self.edition.rewriter.plan(
                query.sql,
                self.dialect,
                self.cursor,
                types=types,
                values=tuple(values),
                session=self._session_function,
                share=shares,
                extremes=self.settings.extremes,
                now=now,
                shape=None if alone else query.shape,
            )

        key: tuple[Any, ...] = (
            self.dialect,
            query.sql,
            types,
            exact_key(values),
            self._session_key(query),
            shares,
            self.settings.extremes,
        )
        if query.assigns:
            before = self.settings.snapshot()
            try:
                return make()
            finally:
                self.assigned = self.settings.snapshot()
                self.settings.restore(before)
        match query.time:
            case "instant":
                return make()  # no other statement is asked at this instant
            case "day":
                key = (*key, now.date())
        plan: Plan = self.edition.plans.get(key, make)
        return plan

    def best(self, query: Query, values: Sequence[Any], declared: Sequence[str | None]) -> Plan:
        """The plan to answer. With history alone, grouping sets are planned apart unless only their
        sums are known: history does not search for sums of too many rows."""
        plan = self.plan(query, values, declared)
        deadline.check()
        if plan.summed and self.request(plan, query).source == "history":
            apart = self.plan(query, values, declared, shares=False)
            plan = plan if self._knows(plan, query) and not self._knows(apart, query) else apart
        return plan

    def _knows(self, plan: Plan, query: Query) -> bool:
        """Whether history knows every row."""
        return self.back.knows(self.request(plan, query))

    def _session_key(self, query: Query) -> tuple[Any, ...]:
        """The parts of the session that the query's plan depends on."""
        if query.of_session:
            return (self.user, self.database, *self.settings.all().items())
        return (self.settings.time_zone,)

    def relations(self, plan: Plan) -> dict[str, pa.Table]:
        """The relations of schema dp that the plan reads, as they are now."""
        return relation_tables(plan.relations, self.viewer())

    def viewer(self) -> Viewer:
        return Viewer(self.gate, self.settings, self.user, self.database, self._described_query)

    def _described_query(self, sql: str) -> tuple[ColumnType, ...]:
        """The columns of a query; none if it is refused."""
        try:
            return self.columns(self.plan(read_query(split(sql, self.dialect)[0], self.dialect)))
        except TallyveilError:
            return ()

    def columns(self, plan: Plan) -> tuple[ColumnType, ...]:
        """The columns of the outer statement, before its tables exist."""

        def describe() -> tuple[ColumnType, ...]:
            with self.cursor.tables(empty_tables(plan) | self.relations(plan)):
                return self._described(plan)

        return self._cached(plan, describe)

    def present_columns(self, plan: Plan) -> tuple[ColumnType, ...]:
        """The columns of the outer statement, whose tables the cursor has."""
        return self._cached(plan, lambda: self._described(plan))

    def _cached(
        self, plan: Plan, describe: Callable[[], tuple[ColumnType, ...]]
    ) -> tuple[ColumnType, ...]:
        if plan.projection is not None:
            return tuple(ColumnType(item.name, item.type) for item in plan.projection.items)
        types = tuple((t.keys.schema, tuple(t.types.values())) for t in plan.noisy)
        key = exact_key(("outer", self.dialect, plan.sql, types))
        columns: tuple[ColumnType, ...] = self.edition.descriptions.get(key, describe)
        if not plan.names:
            return columns
        return tuple(
            ColumnType(column.name, "NAME") if number in plan.names else column
            for number, column in enumerate(columns)
        )

    def _described(self, plan: Plan) -> tuple[ColumnType, ...]:
        """The columns as DuckDB binds them."""
        return tuple(ColumnType(name, kind) for name, kind in self.cursor.describe(plan.sql))

    def _session_function(self, name: str, arguments: list[str | None]) -> Any:
        """Raises UndefinedFunction, and what `Settings` raises."""
        if name in ("current_setting", "set_config"):
            return self._setting(name, *arguments)
        match name:
            case "version":
                return f"PostgreSQL {self.settings.show('server_version')} (tallyveil)"
            case "current_schema":
                return "public"
            case "current_database" | "current_catalog":
                return self.database
            case "current_user" | "session_user" | "current_role" | "user":
                return self.user
            case "pg_backend_pid":
                return self.pid
            case "pg_is_in_recovery":
                return False
            case "pg_advisory_unlock_all":
                return None
        raise UndefinedFunction(f"function {name} is not answered")

    def _setting(self, function: str, name: str | None, *others: str | None) -> str | None:
        """The value of current_setting or set_config, which sets a setting, by NULL to its default.
        They are NULL for the name NULL, with which a statement is described."""
        if name is None:
            return None
        if function == "set_config":
            value, local = others
            self.settings.set(name, value, local=truth(local or "") is True)
        elif others == ("true",):
            return self.settings.all().get(name.lower())
        return self.settings.show(name)
