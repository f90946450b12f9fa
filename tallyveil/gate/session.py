"""One analyst's session of the gate: settings, statements, answers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tallyveil import deadline
from tallyveil.accountant import Quote, TableQuote, is_plan
from tallyveil.blas import one_thread
from tallyveil.deadline import Deadline
from tallyveil.errors import (
    AnswerNeeded,
    FeatureNotSupported,
    InvalidParameterValue,
    StatementError,
    positions_from,
)
from tallyveil.gate.answering import Answering
from tallyveil.gate.boards import Board, boards
from tallyveil.gate.commands import described_columns, parse_piece, shown_columns
from tallyveil.gate.deciding.outcome import Answered, Forecast
from tallyveil.gate.deciding.request import Request
from tallyveil.gate.explaining import as_rows, explanation, plan_columns
from tallyveil.gate.interface import (
    Aside,
    Notice,
    Parameters,
    Receive,
    Result,
    Statement,
    StatementDescription,
    nothing_aside,
)
from tallyveil.gate.notices import warnings
from tallyveil.gate.planning import Planner
from tallyveil.gate.posterior import RowPosterior, posteriors
from tallyveil.gate.quotient_intervals import QuotientIntervals
from tallyveil.gate.relations.shown import Shown
from tallyveil.gate.session_commands import SessionCommands
from tallyveil.gate.settings import Settings
from tallyveil.gate.shared import Shared
from tallyveil.gate.staging import Given, Stage, Staging, announced
from tallyveil.rewriter import Dialect, Plan, Query, by_number, first_named, split

__all__ = ["GateSession"]


class GateSession:
    """A face of the gate calls it from one thread at a time. Each call may block on SQL, DuckDB or
    the ledger, so the wire calls it off the event loop.

    Only `execute` of a query can spend, and only in `Decision.answer`; `parse`, `describe` and
    EXPLAIN never do.
    """

    def __init__(self, gate: Shared, user: str, database: str, dialect: Dialect) -> None:
        self._gate = gate
        self._cursor = gate.database.cursor()
        self.settings = Settings(gate.policy.defaults, user, gate.server_version)
        self._planner = Planner(
            gate, self._cursor, self.settings, user, database, dialect, gate.editions.now
        )
        self._answering = Answering(self._planner)
        self._staging = Staging(self._answering)
        self._commands = SessionCommands(self.settings, self.relations)

    # What a face of the gate calls

    def connected(self, pid: int) -> None:
        """Set the number of the connection, by which its statements can be cancelled."""
        self._planner.pid = pid

    def parse(self, sql: str, aside: Aside = nothing_aside) -> tuple[Statement, ...]:
        """Split and parse. Statements that ``aside`` takes are not parsed: their kind is
        ``catalog``. Raises SQLSyntaxError (42601) with the position in ``sql``.
        """
        statements = []
        with self.limited():
            for piece in split(sql, self._planner.dialect):
                deadline.check()
                with positions_from(piece.offset):
                    statements.append(parse_piece(piece, self._planner.dialect, aside))
            deadline.check()
        return tuple(statements)

    def describe(
        self, statement: Statement, parameter_types: Sequence[str | None] = ()
    ) -> StatementDescription:
        """The types of the parameters (inferred where None) and of the result, free of charge."""
        if statement.kind == "show":
            return StatementDescription((), shown_columns(statement))
        if statement.kind == "describe":
            return StatementDescription((), described_columns(statement))
        if statement.kind == "declare" and statement.inner is not None:
            return replace(self.describe(statement.inner, parameter_types), columns=None)
        if statement.kind not in ("select", "explain"):
            return StatementDescription((), None)
        query = _query(statement)
        with self.limited(), _placed(query):
            types = self._planner.types(query, parameter_types)
            if statement.kind == "explain":
                return StatementDescription(types, plan_columns(statement.target))
            nothing = (None,) * len(types)
            columns = self._planner.columns(self._stages(query, (nothing, types))[-1].plan)
            deadline.check()
            return StatementDescription(types, columns)

    def execute(
        self,
        statement: Statement,
        parameters: Sequence[Any] = (),
        *,
        parameter_types: Sequence[str | None] = (),
        receive: Receive | None = None,
    ) -> Result:
        """Run a statement, with parameters of the types that `describe` returned.

        If ``receive`` is given, the rows of a query go to it and not to `Result.rows`. A
        StatementError that it raises ends the query.

        Every TallyveilError raised before a charge leaves budget and settings as they were.
        """
        given = parameters, parameter_types
        with self.limited():
            deadline.check()
            match statement.kind:
                case "select":
                    result = self._select(_query(statement), given, receive)
                case "explain":
                    result = self._explain(statement, given)
                case _:
                    result = self._commands.run(statement)
        if not result.notices:
            return result
        return replace(result, notices=self.settings.wanted(result.notices))

    def by_number(self, sql: str, parameters: Parameters) -> tuple[str, Sequence[Any]]:
        """The statement with its parameters numbered, if their values are given by name."""
        if isinstance(parameters, Mapping):
            return by_number(sql, parameters, self._planner.dialect)
        if isinstance(parameters, str | bytes) or not isinstance(parameters, Iterable):
            raise InvalidParameterValue(
                f"parameters are given as {type(parameters).__name__}",
                hint="Give a list of values, such as [30], or a mapping of names to values.",
            )
        return sql, tuple(parameters)

    def explain(self, statement: Statement) -> tuple[list[str], list[TableQuote]]:
        """The lines of EXPLAIN for a query, and what it would cost. For the shell."""
        with self.limited():
            lines, _, _, quotes = self._explained(_query(statement), ((), ()))
        return lines, [one for quote in quotes for one in (*quote.shares, *quote.tables)]

    def request(self, statement: Statement) -> Request:
        """What a query asks of the decision, with the settings as they are. For the shell.

        Raises FeatureNotSupported if it has to be asked in several steps."""
        query = _query(statement)
        with self.limited(), _placed(query):
            first, *others = self._stages(query, ((), ()))
            if others:
                raise FeatureNotSupported(
                    "a statement whose conditions compare with answers is not bought with others",
                    hint="Leave it out of the file, and ask it by itself.",
                )
            return self._planner.request(first.plan, query)

    def charged(self) -> list[str]:
        """The texts of the statements that were ever charged, oldest first. For the shell."""
        every = self._gate.budgets.history()
        return list(dict.fromkeys(one.sql for one in every if not is_plan(one.analyst)))

    def forecast(self, request: Request) -> Forecast:
        """What a request would cost now. Free."""
        with self.limited():
            return self._planner.back.forecast(request)

    def boards(self, requests: Sequence[Request]) -> list[Board]:
        """By table, what the requests ask of it together. Raises what `boards` raises."""
        with self.limited():
            return boards(requests, self._planner.edition.decision.limits)

    def buy(self, request: Request) -> Quote | None:
        """Answer a request, so that its rows are known: what was charged, if anything was. Raises
        what `Decision.answer` raises."""
        with self.limited():
            return self._planner.answer(request).quote

    def query(self, sql: str, parameters: Parameters = ()) -> tuple[pa.Table | None, Result]:
        """Execute one statement; the rows of a query as an Arrow table. For the in-process face."""
        sql, parameters = self.by_number(sql, parameters)
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
        with self.limited(), _placed(query), ExitStack() as after:
            query, plan, notices = self._planned(query, (parameters, ()), after)
            if query.assigns:
                self._assign()
            released = self._answering.release(plan, query, lambda _: len, after)
            with self._cursor.tables(released.tables):
                table = self._cursor.arrow(plan.sql)
        wanted = self.settings.wanted((*notices, *released.notices))
        return table, Result(None, (), f"SELECT {table.num_rows}", wanted)

    def posteriors(self, sql: str) -> list[RowPosterior]:
        """The posteriors of one query's answers, given history. Never buys, whatever the settings.

        Raises FeatureNotSupported for anything but one query about protected tables.
        """
        statements = [one for one in self.parse(sql) if one.kind != "empty"]
        if [one.kind for one in statements] != ["select"]:
            raise FeatureNotSupported("expected one SELECT", hint="Send queries one by one.")
        query = _query(statements[0])
        with self.limited(), _placed(query):
            plan = self._planner.plan(query, (), shares=False)
            if not plan.private:
                raise FeatureNotSupported(
                    "the query asks about no protected table, and its answer is exact", position=1
                )
            request = replace(self._planner.request(plan, query), source="history")
            return posteriors(plan, self._planner.answer(request))

    def standing(self) -> tuple[Hashable, Hashable] | None:
        """What a repeatable result depends on besides the statement: the user, the settings, and
        how far the ledger has come. None if that cannot be known. Does not wait."""
        position = self._gate.budgets.position()
        if position is None:
            return None
        planner, told = self._planner, self._answering.told
        sent = (self._answering.introduced, *told.items())
        own = planner.user, planner.database, planner.dialect, sent, *self.settings.values()
        versions = self._gate.editions.now.versions.items()
        return (*own, *versions), position

    def relations(self) -> tuple[Shown, ...]:
        """The relations that can be queried."""
        with self.limited():
            return self._planner.viewer().relations()

    def set(self, name: str, value: str) -> None:
        self.settings.set(name, value)

    def interrupt(self) -> None:
        self._cursor.interrupt()

    def close(self) -> None:
        self._cursor.close()

    @contextmanager
    def limited(self, cancelled: Callable[[], bool] = lambda: False) -> Iterator[Deadline]:
        """Inside, one deadline for all that the entering thread does for the session. Until
        something is charged, ``cancelled`` is polled from any thread; if True, QueryCanceled.

        Linear algebra has one thread meanwhile: to start and stop others around each solve takes
        as long as all else (`blas`).
        """
        self._cursor.use_time_zone(self.settings.time_zone)
        limit = self._cursor.limited(self.settings.statement_timeout, cancelled)
        with one_thread(), limit as held:
            editions = self._gate.editions
            editions.follow()
            self._planner.edition = editions.at(self.settings.as_of)
            self._planner.compared = False
            yield held

    # Queries

    def _select(self, query: Query, given: Given, receive: Receive | None) -> Result:
        rows: list[tuple[Any, ...]] = []
        begin = receive or (lambda _: rows.extend)
        with _placed(query), ExitStack() as after:
            last, plan, notices = self._planned(query, given, after)
            if last.assigns:
                self._assign()
            released = self._answering.release(plan, last, begin, after)
            columns, count = self._answering.rows(released, begin)
        notices = (*notices, *released.notices)
        repeatable = last is query and self._repeatable(query, plan)
        return Result(columns, rows, f"SELECT {count}", notices, repeatable)

    def _assign(self) -> None:
        """Apply what set_config sets in the query that was planned last. Outside a block, what is
        local ends with the statement."""
        self.settings.restore(self._planner.assigned)
        if not self.settings.in_block:
            self.settings.end()

    def _planned(
        self, query: Query, given: Given, after: ExitStack
    ) -> tuple[Query, Plan, tuple[Notice, ...]]:
        """The query and its plan. Where its conditions need other answers, these are bought first,
        and stand in it as constants."""
        notices: tuple[Notice, ...] = ()
        try:
            plan = self._planner.best(query, *given)
        except AnswerNeeded:
            last, notices = self._staging.answered(query, given, after)
            query, plan = last.query, last.plan
        return query, plan, (*notices, *warnings(plan, query.offset))

    def _stages(self, query: Query, given: Given) -> list[Stage]:
        """What is bought one after the other, with examples of the answers: free of charge."""
        try:
            return [Stage(query, self._planner.best(query, *given), None)]
        except AnswerNeeded:
            return self._staging.rehearsed(query, given)

    def _repeatable(self, query: Query, plan: Plan) -> bool:
        """Whether nothing but the settings and the ledger can change the result."""
        return not (plan.relations or self.settings.all_looks or query.time or query.of_session)

    def _explain(self, statement: Statement, given: Given) -> Result:
        lines, plan, notices, _ = self._explained(_query(statement), given)
        rows = as_rows(lines, plan, statement.target)
        return Result(plan_columns(statement.target), rows, "EXPLAIN", notices)

    def _explained(
        self, query: Query, given: Given
    ) -> tuple[list[str], Plan, tuple[Notice, ...], list[Quote]]:
        gate, lines, back = self._gate, list[str](), self._planner.back
        notices, quotes = list[Notice](), list[Quote]()
        with _placed(query):
            stages = self._stages(query, given)
            for stage in stages:
                plan, request = stage.plan, self._planner.request(stage.plan, stage.query)
                forecast = back.forecast(request)
                lines += announced(stages, stage)
                known = Answered(forecast.found, forecast.noise, None, summed=forecast.summed)
                quotients = QuotientIntervals(plan, known, back, request.target.confidence)
                about = plan, request, forecast, gate.budgets, gate.accounts, quotients
                lines += explanation(*about, self._planner.edition.versions)
                notices += warnings(plan, stage.query.offset)
                quotes += [] if forecast.quote is None else [forecast.quote]
            return lines, plan, tuple(notices), quotes


def _query(statement: Statement) -> Query:
    if statement.query is None:
        raise ValueError(f"{statement.kind} is no query")
    return statement.query


@contextmanager
def _placed(query: Query) -> Iterator[None]:
    """As `positions_from` the query's start, also for errors of DuckDB that name their object."""
    with positions_from(query.offset):
        try:
            yield
        except StatementError as error:
            if error.position is None and error.about is not None:
                error.position = first_named(error.about, query)
            raise


def _as_arrow(result: Result) -> pa.Table | None:
    if result.columns is None:
        return None
    texts = ([row[n] for row in result.rows] for n in range(len(result.columns)))
    arrays = [pa.array(each, pa.string()) for each in texts]
    return pa.table(arrays, [column.name for column in result.columns])
