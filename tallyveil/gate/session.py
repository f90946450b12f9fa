"""One analyst's conversation with the gate: settings, statements, answers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from tallyveil import deadline
from tallyveil.cache import exact_key
from tallyveil.deadline import Deadline
from tallyveil.errors import (
    FeatureNotSupported,
    StatementError,
    UndefinedFunction,
)
from tallyveil.gate.charged import charge_explained
from tallyveil.gate.commands import apply, parse_piece
from tallyveil.gate.interface import (
    Change,
    ColumnType,
    Description,
    Notice,
    Receive,
    Result,
    Statement,
)
from tallyveil.gate.notices import explanation, notice, warnings
from tallyveil.gate.posterior import RowPosterior, posteriors
from tallyveil.gate.relations import Viewer, relation_tables
from tallyveil.gate.request import Request
from tallyveil.gate.rows import empty_tables, noisy_tables, projected
from tallyveil.gate.settings import SERVER_VERSION, Settings
from tallyveil.gate.shared import Shared
from tallyveil.rewriter import Dialect, Plan, Query, local_now, split

__all__ = ["GateSession"]

_PORTION: Final = 2_048  # rows that are handed on at a time

_EXPLAIN_COLUMNS: Final = (ColumnType("QUERY PLAN", "VARCHAR"),)


class GateSession:
    """Implements `tallyveil.gate.interface.Session`; used by one thread at a time.

    Only `execute` of a query can spend, and only in `Decision.answer`.
    """

    def __init__(self, gate: Shared, user: str, database: str, dialect: Dialect) -> None:
        self._gate = gate
        self._user = user
        self._database = database
        self._dialect: Dialect = dialect
        self._cursor = gate.database.cursor()
        self.settings = Settings(gate.policy.defaults, user)

    # What a face of the gate calls

    def parse(self, sql: str) -> tuple[Statement, ...]:
        statements = []
        with self._limited():
            for piece in split(sql, self._dialect):
                deadline.check()
                with _positions_from(piece.offset):
                    statements.append(parse_piece(piece, self._dialect))
            deadline.check()
        return tuple(statements)

    def describe(
        self, statement: Statement, parameter_types: Sequence[str | None] = ()
    ) -> Description:
        if statement.kind == "show":
            return Description((), (ColumnType(str(statement.target), "VARCHAR"),))
        if statement.kind not in ("select", "explain"):
            return Description((), None)
        query = _query(statement)
        with self._limited(), _positions_from(query.offset):
            types = self._types(query, parameter_types)
            if statement.kind == "explain":
                return Description(types, _EXPLAIN_COLUMNS)
            nothing = (None,) * len(types)
            plan = self._plan(query, types, nothing)
            columns = self._columns(plan, lambda: self._describe(plan))
            deadline.check()
            return Description(types, columns)

    def execute(
        self,
        statement: Statement,
        parameters: Sequence[Any] = (),
        *,
        cancelled: Callable[[], bool] = lambda: False,
        parameter_types: Sequence[str | None] = (),
        receive: Receive | None = None,
    ) -> Result:
        with self._limited(cancelled):
            deadline.check()
            result = self._run(statement, parameters, parameter_types, receive)
        if not result.notices:
            return result
        return replace(result, notices=tuple(n for n in result.notices if self.hears(n)))

    def _run(
        self,
        statement: Statement,
        parameters: Sequence[Any],
        parameter_types: Sequence[str | None],
        receive: Receive | None,
    ) -> Result:
        change = statement.change or Change({})
        match statement.kind:
            case "select":
                return self._select(statement, parameters, parameter_types, receive)
            case "explain":
                return self._explain(statement, parameters, parameter_types)
            case "set":
                return Result(None, (), statement.tag, apply(change, self.settings))
            case "show":
                return self._show(statement)
            case "begin":
                self.settings.begin(change.block or {})
            case "commit" | "rollback":
                self.settings.end()
        return Result(None, (), statement.tag)

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> tuple[pa.Table | None, Result]:
        """Execute one statement; rows of a query as an Arrow table. For the in-process face."""
        statements = self.parse(sql)
        if len(statements) != 1:
            raise FeatureNotSupported(
                f"expected one statement, found {len(statements)}", hint="Send them one by one."
            )
        statement = statements[0]
        if statement.kind != "select":
            result = self.execute(statement, parameters)
            return _as_arrow(result), result
        query = _query(statement)
        with self._limited(), _positions_from(query.offset), ExitStack() as after:
            released, notices = self._release(query, parameters, (), lambda columns: None, after)
            with self._cursor.tables(released.tables):
                table = self._cursor.arrow(released.plan.sql)
        heard = tuple(n for n in notices if self.hears(n))
        return table, Result(None, (), f"SELECT {table.num_rows}", heard)

    def posteriors(self, sql: str) -> list[RowPosterior]:
        """What history says of the answers to one query; nothing is bought, whatever is set.

        Raises FeatureNotSupported for anything but one query about protected tables.
        """
        statements = [one for one in self.parse(sql) if one.kind != "empty"]
        if [one.kind for one in statements] != ["select"]:
            raise FeatureNotSupported("expected one SELECT", hint="Send queries one by one.")
        query = _query(statements[0])
        with self._limited(), _positions_from(query.offset):
            plan = self._plan(query, self._types(query, ()), (), shares=False)
            if not plan.private:
                raise FeatureNotSupported(
                    "the query asks about no protected table, and its answer is exact", position=1
                )
            request = replace(self._request(plan, query.sql), source="history")
            return posteriors(plan, self._gate.decision.answer(request))

    def set(self, name: str, value: str) -> None:
        self.settings.set(name, value)

    def show(self, name: str) -> str:
        return self.settings.show(name)

    def standing(self) -> tuple[Hashable, Hashable] | None:
        position = self._gate.accountant.position()
        if position is None:
            return None
        return (self._user, self._database, self._dialect, *self.settings.values()), position

    def reportable(self) -> dict[str, str]:
        return {**self.settings.reportable(), "session_authorization": self._user}

    def hears(self, said: Notice) -> bool:
        return self.settings.hears(said.severity)

    def interrupt(self) -> None:
        self._cursor.interrupt()

    def close(self) -> None:
        self._cursor.close()

    def _limited(
        self, cancelled: Callable[[], bool] = lambda: False
    ) -> AbstractContextManager[Deadline]:
        """One deadline for all that one call of the session does."""
        self._cursor.use_time_zone(self.settings.time_zone)
        return self._cursor.limited(self.settings.statement_timeout, cancelled)

    # Queries

    def _types(self, query: Query, declared: Sequence[str | None]) -> tuple[str, ...]:
        if not query.parameters:
            return ()
        key = ("types", self._dialect, query.sql, tuple(declared))
        types: tuple[str, ...] = self._gate.plans.get(
            key, lambda: self._gate.rewriter.parameter_types(query.sql, self._dialect, declared)
        )
        return types

    def _key(
        self, query: Query, types: Sequence[str], values: Sequence[Any], shares: bool | None = None
    ) -> tuple[Any, ...]:
        session: tuple[Any, ...] = (self.settings.time_zone,)
        if query.of_session:
            settings = tuple(self.settings.all().items())
            session = (self._user, self._database, *settings)
        shares = self.settings.shares if shares is None else shares
        return (self._dialect, query.sql, tuple(types), exact_key(values), session, shares)

    def _plan(
        self, query: Query, types: Sequence[str], values: Sequence[Any], shares: bool | None = None
    ) -> Plan:
        """``shares``: whether answers may be summed up from finer ones; None: by the settings."""
        rewriter, now = self._gate.rewriter, local_now(self.settings.time_zone)

        def make() -> Plan:
            return rewriter.plan(
                query.sql,
                self._dialect,
                self._cursor,
                types=types,
                values=values,
                session=self._session_function,
                share=self.settings.shares if shares is None else shares,
                now=now,
            )

        key = self._key(query, types, values, shares)
        match query.time:
            case "instant":
                return make()  # nobody else asks at this moment
            case "day":
                key = (*key, now.date())
        plan: Plan = self._gate.plans.get(key, make)
        return plan

    def _describe(self, plan: Plan) -> tuple[ColumnType, ...]:
        tables = empty_tables(plan) | self._relations(plan)
        with self._cursor.tables(tables):
            return self._described(plan.sql)

    def _described(self, sql: str) -> tuple[ColumnType, ...]:
        """The columns of a query whose tables are there."""
        return tuple(ColumnType(n, t) for n, t in self._cursor.describe(sql))

    def _relations(self, plan: Plan) -> dict[str, pa.Table]:
        gate = self._gate
        return relation_tables(
            plan.relations,
            Viewer(gate.policy, gate.accountant, self.settings, self._user),
            gate.copies,
        )

    def _request(self, plan: Plan, sql: str) -> Request:
        settings = self.settings
        workloads = {t: w for t, w in plan.workloads.items() if w.columns}
        additive = frozenset(o.table for t in plan.noisy for o in t.outputs if o.sums is not None)
        if settings.all_looks:
            if settings.ranged:
                raise _needs_added_noise(settings.mechanism)
            additive = frozenset(workloads)
        return Request(
            workloads,
            settings.target,
            settings.source,
            settings.mechanism,
            sql,
            self._user,
            additive,
        )

    def _release(
        self,
        query: Query,
        parameters: Sequence[Any],
        parameter_types: Sequence[str | None],
        see: Callable[[tuple[ColumnType, ...]], object],
        after: ExitStack,
    ) -> tuple[_Released, tuple[Notice, ...]]:
        """Everything the statement over the noisy rows needs. This is where budget is spent.

        ``see`` is called with the result's columns before that, and may refuse them. Errors that
        pass ``after`` from then on say what was charged.
        """
        declared = parameter_types or tuple(map(_python_type, parameters))
        types = self._types(query, declared)
        plan = self._plan(query, types, tuple(parameters))
        deadline.check()
        tables = empty_tables(plan) if not plan.private else {}
        notices = warnings(plan, query.offset)
        if plan.private:
            see(self._columns(plan, lambda: self._describe(plan)))
        if plan.noisy:
            request = self._request(plan, query.sql)
            answered = self._gate.decision.answer(request)
            after.enter_context(charge_explained(request, answered.quote))
            confidence, nonnegative = request.target.confidence, self.settings.nonnegative
            looks = (
                self._gate.decision.over_all_looks(request, answered)
                if self.settings.all_looks
                else None
            )
            tables = noisy_tables(plan, answered, confidence, looks, nonnegative=nonnegative)
            if plan.private and self.settings.notices:
                notices = (*notices, notice(request, answered, self._gate.accountant, looks))
        return _Released(plan, tables | self._relations(plan)), notices

    def _columns(
        self, plan: Plan, describe: Callable[[], tuple[ColumnType, ...]]
    ) -> tuple[ColumnType, ...]:
        """The columns of the outer statement, as DuckDB binds it."""
        if plan.projection is not None:
            return tuple(ColumnType(name, kind) for name, _, kind in plan.projection.items)
        types = tuple((t.keys.schema, tuple(o.type for o in t.outputs)) for t in plan.noisy)
        key = exact_key(("outer", self._dialect, plan.sql, types))
        columns: tuple[ColumnType, ...] = self._gate.descriptions.get(key, describe)
        return columns

    def _select(
        self,
        statement: Statement,
        parameters: Sequence[Any],
        parameter_types: Sequence[str | None],
        receive: Receive | None,
    ) -> Result:
        query = _query(statement)
        rows: list[tuple[Any, ...]] = []
        takers: list[Callable[[list[tuple[Any, ...]]], object]] = []

        def begin(columns: tuple[ColumnType, ...]) -> None:
            takers.append(rows.extend if receive is None else receive(columns))

        with _positions_from(query.offset), ExitStack() as after:
            released, notices = self._release(query, parameters, parameter_types, begin, after)
            plan = released.plan
            columns, count = self._answer(released, begin, takers)
        repeatable = self._repeatable(query, plan)
        return Result(columns, rows, f"SELECT {count}", notices, repeatable)

    def _answer(
        self,
        released: _Released,
        begin: Callable[[tuple[ColumnType, ...]], None],
        takers: Sequence[Callable[[list[tuple[Any, ...]]], object]],
    ) -> tuple[tuple[ColumnType, ...], int]:
        """The statement over the noisy rows: its columns, and how many rows were handed on."""
        plan = released.plan
        if plan.projection is not None:
            columns = self._columns(plan, tuple)
            if not takers:
                begin(columns)
            found = projected(plan.projection, released.tables[plan.noisy[0].name])
            return columns, _portioned(found, takers[0])
        with self._cursor.tables(released.tables):
            columns = self._columns(plan, lambda: self._described(plan.sql))
            if not takers:
                begin(columns)
            kinds = [column.type for column in columns]
            return columns, self._cursor.values(plan.sql, kinds, takers[0])

    def _repeatable(self, query: Query, plan: Plan) -> bool:
        """Whether nothing but the settings and the ledger can change the result."""
        return not (plan.relations or self.settings.all_looks or query.time or query.of_session)

    def _explain(
        self,
        statement: Statement,
        parameters: Sequence[Any],
        parameter_types: Sequence[str | None],
    ) -> Result:
        query = _query(statement)
        gate = self._gate
        with _positions_from(query.offset):
            types = self._types(query, parameter_types or tuple(map(_python_type, parameters)))
            plan = self._plan(query, types, tuple(parameters))
            request = self._request(plan, query.sql)
            forecast = gate.decision.forecast(request)
            lines = explanation(plan, request, forecast, gate.accountant, gate.accounts)
        rows = [(line,) for line in lines]
        return Result(_EXPLAIN_COLUMNS, rows, "EXPLAIN", warnings(plan, query.offset))

    # The session's own statements

    def _show(self, statement: Statement) -> Result:
        name = str(statement.target)
        if name == "all":
            columns = (ColumnType("name", "VARCHAR"), ColumnType("setting", "VARCHAR"))
            rows: list[tuple[Any, ...]] = list(self.settings.all().items())
            return Result(columns, rows, "SHOW")
        return Result((ColumnType(name, "VARCHAR"),), [(self.settings.show(name),)], "SHOW")

    def _session_function(self, name: str, arguments: list[str]) -> Any:
        match name:
            case "version":
                return f"PostgreSQL {SERVER_VERSION} (tallyveil)"
            case "current_schema":
                return "public"
            case "current_database" | "current_catalog":
                return self._database
            case "current_user" | "session_user" | "current_role" | "user":
                return self._user
            case "pg_is_in_recovery":
                return False
            case "pg_advisory_unlock_all":
                return None
            case "current_setting" if arguments:
                return self.settings.show(arguments[0])
            case "set_config" if len(arguments) >= 2:
                raise FeatureNotSupported(
                    "set_config is not answered", hint=f"SET {arguments[0]} = …"
                )
        raise UndefinedFunction(f"function {name} is not answered")


def _query(statement: Statement) -> Query:
    if statement.query is None:
        raise ValueError(f"{statement.kind} is no query")
    return statement.query


def _needs_added_noise(mechanism: str) -> FeatureNotSupported:
    return FeatureNotSupported(
        f"dp.coverage = always needs noise that is added, and dp.mechanism is {mechanism}",
        hint="SET dp.coverage = once, or SET dp.mechanism = auto.",
    )


def _portioned(rows: list[tuple[Any, ...]], take: Callable[[list[tuple[Any, ...]]], object]) -> int:
    """Hand the rows on so that between two portions the statement can be stopped."""
    for start in range(0, len(rows), _PORTION):
        deadline.check()
        take(rows[start : start + _PORTION])
    return len(rows)


@dataclass(frozen=True)
class _Released:
    """What the public DuckDB needs for the outer statement."""

    plan: Plan
    tables: dict[str, pa.Table]


@contextmanager
def _positions_from(offset: int) -> Iterator[None]:
    """Errors' positions count from the whole text, of which the statement is a part."""
    try:
        yield
    except StatementError as error:
        if error.position is not None:
            error.position += offset
        raise


# Types that one list may hold, the widest first.
_WIDER: Final = (("DOUBLE", "HUGEINT", "BIGINT"), ("TIMESTAMP", "DATE"))


def _python_type(value: Any) -> str | None:
    """The type of a parameter that was declared by nobody but its value."""
    match value:
        case bool():
            return "BOOLEAN"
        case int():
            return "BIGINT" if -(2**63) <= value < 2**63 else "HUGEINT"
        case float() | Decimal():
            return "DOUBLE"
        case dt.datetime():
            return "TIMESTAMP" if value.tzinfo is None else "TIMESTAMP WITH TIME ZONE"
        case dt.date():
            return "DATE"
        case list() | tuple():
            kinds = {_python_type(one) for one in value if one is not None}
            wide = [kind for one in _WIDER if kinds <= set(one) for kind in one if kind in kinds]
            element = wide[0] if wide else kinds.pop() if len(kinds) == 1 else None
            return f"{element}[]" if element else None
    return None


def _as_arrow(result: Result) -> pa.Table | None:
    if result.columns is None:
        return None
    names = [column.name for column in result.columns]
    return pa.table(
        {name: pa.array([row[i] for row in result.rows]) for i, name in enumerate(names)}
    )
