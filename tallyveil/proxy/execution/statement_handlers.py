"""How each kind of statement is executed, such as those about prepared statements and cursors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from tallyveil.errors import FeatureNotSupported, SQLSyntaxError, StatementError
from tallyveil.gate.interface import CursorOptions, Move, Notice, Result, Statement, StatementKind
from tallyveil.proxy.execution.declared_cursor import DeclaredCursor
from tallyveil.proxy.execution.executor import Executor
from tallyveil.proxy.execution.named_objects import Portal, PreparedStatement, asks_catalog
from tallyveil.proxy.execution.pending_rows import PendingRows
from tallyveil.proxy.execution.transaction import TRANSACTION_KINDS
from tallyveil.proxy.pgtypes import by_oid, from_duckdb
from tallyveil.proxy.protocol_errors import NoActiveTransaction

__all__ = ["run"]


class Call(NamedTuple):
    """A statement to run, with its parameters, and the object that collects its rows."""

    statement: Statement
    rows: PendingRows
    parameters: Sequence[Any] = ()
    types: Sequence[str] = ()


_Handler = Callable[[Executor, Call], Result]


def run(
    executor: Executor,
    statement: Statement,
    rows: PendingRows,
    parameters: Sequence[Any] = (),
    types: Sequence[str] = (),
) -> Result:
    """Execute a statement. Its rows go to ``rows``, not into the result. If it fails, they are
    dropped."""
    executor.latest = statement.sql
    with ExitStack() as failed:
        failed.callback(rows.drop)
        executor.transaction.check(statement)
        handle = _HANDLERS.get(statement.kind, _ask)
        result = handle(executor, Call(statement, rows, parameters, types))
        if result.columns is not None and rows.fields is None:
            rows.begin(result.columns)
        failed.pop_all()
    return result


def _ask(executor: Executor, call: Call) -> Result:
    statement = call.statement
    return executor.ask(statement.inner or statement, call.rows.begin, call.parameters, call.types)


def _copy(executor: Executor, call: Call) -> Result:
    result = _ask(executor, call)
    return replace(result, tag=result.tag.replace("SELECT", "COPY", 1))


def _prepare(executor: Executor, call: Call) -> Result:
    statement = call.statement
    name = statement.target or ""
    prepared = executor.prepare(statement.inner or statement, _declared(executor, statement))
    executor.objects.keep_statement(name, prepared)
    return Result(None, (), statement.tag)


def _declared(executor: Executor, statement: Statement) -> tuple[int, ...]:
    """The OIDs of the parameter types that PREPARE declares; 0 is to be inferred."""
    if not asks_catalog(statement) or not statement.types:
        return tuple(0 if kind is None else from_duckdb(kind).type.oid for kind in statement.types)
    casts = ", ".join(f"CAST(NULL AS {kind})" for kind in statement.types)
    _, fields = executor.catalog.describe(Statement(f"SELECT {casts}", "catalog", "SELECT"), ())
    return tuple(wire.type.oid for _, wire in fields or ())


def _execute(executor: Executor, call: Call) -> Result:
    statement = call.statement
    prepared = executor.objects.statement(statement.target or "")
    if prepared.statement.kind == "catalog":
        return executor.catalog.answer(statement, call.rows, (), prepared)
    if prepared.statement.kind not in ("select", "explain", "show"):
        raise FeatureNotSupported(
            f"EXECUTE of {prepared.statement.tag} is not answered",
            hint="Send the statement itself.",
        )
    given, wanted = len(statement.arguments), len(prepared.oids)
    if given != wanted:
        raise SQLSyntaxError(
            f'wrong number of parameters for prepared statement "{statement.target}"',
            detail=f"Expected {wanted} parameters but got {given}.",
        )
    values = _values(executor, statement, prepared)[: prepared.used]
    return executor.ask(prepared.statement, call.rows.begin, values, prepared.types)


def _values(
    executor: Executor, statement: Statement, prepared: PreparedStatement
) -> tuple[Any, ...]:
    """Evaluate the arguments of EXECUTE as values of the parameters' types. They read no table."""
    types = [by_oid(oid) for oid in prepared.oids]
    given = list(zip(statement.arguments, types, strict=True))
    casts = [f"CAST({a.sql} AS {kind.name})" for a, kind in given if a.text is None]
    found: list[tuple[Any, ...]] = [()]
    if casts:
        try:
            (query,) = executor.session.parse("SELECT " + ", ".join(casts))
            executor.ask(query, lambda _: found.extend)
        except StatementError as error:
            error.position = None  # it refers to the text of the casts
            raise
    computed = iter(found[-1])
    return tuple(
        next(computed) if a.text is None else kind.read(0, a.text.encode()) for a, kind in given
    )


def _declare(executor: Executor, call: Call) -> Result:
    statement = call.statement
    options, name = statement.cursor or CursorOptions(), statement.target or ""
    transaction = executor.transaction
    if not (options.hold or transaction.open or transaction.implicit):
        raise NoActiveTransaction(
            "DECLARE CURSOR can only be used in transaction blocks",
            hint="Send BEGIN first, or declare it WITH HOLD.",
        )
    executor.objects.may_open(name)
    cursor = DeclaredCursor(name, options, transaction.depth, executor.objects.holding)
    with ExitStack() as failed:
        failed.callback(cursor.drop)
        result = _run_query(executor, cursor, statement.inner or statement, call)
        failed.pop_all()
    executor.objects.open(name, cursor)
    return Result(None, (), statement.tag, result.notices)


def _run_query(executor: Executor, cursor: DeclaredCursor, query: Statement, call: Call) -> Result:
    """Run the cursor's query and store its rows in the cursor."""
    if query.kind != "catalog":
        return executor.ask(query, cursor.begin, call.parameters, call.types)
    rows = PendingRows(executor.objects.holding, (1,) if cursor.options.binary else None)
    try:
        result = executor.catalog.answer(query, rows, call.parameters)
        cursor.relay(rows)
    finally:
        rows.drop()
    return result


def _fetch(executor: Executor, call: Call) -> Result:
    statement = call.statement
    move = statement.move or Move()
    cursor = executor.objects.portal(statement.target or "", what="cursor")
    notices = _run_first(executor, cursor, move) if isinstance(cursor, Portal) else ()
    found: Sequence[Any] = cursor.fetch(move)
    tag = f"{statement.tag} {len(found)}"
    if not move.shown or isinstance(cursor, Portal):
        return Result(None, (), tag, notices)
    if not cursor.relayed:
        call.rows.begin(cursor.columns)(found)
        return Result(cursor.columns, (), tag)
    if call.rows.formats != cursor.formats:
        raise FeatureNotSupported(
            "rows of the catalogs can only be fetched in the format of their cursor",
            hint="Fetch text rows, or declare a BINARY cursor to fetch binary rows.",
        )
    call.rows.relay(cursor.fields, [(1, message) for message in found])
    return Result(None, (), tag)


def _run_first(executor: Executor, portal: Portal, move: Move) -> tuple[Notice, ...]:
    """Execute a bound query if MOVE FORWARD skips rows of its portal before the first Execute."""
    prepared, answered = portal.prepared, portal.result is not None
    if answered or move.shown or move.direction != "forward" or prepared.statement.kind != "select":
        return ()
    portal.result = run(
        executor, prepared.statement, portal.rows, portal.parameters, prepared.types
    )
    portal.begun = True
    return portal.result.notices


def _forget(executor: Executor, call: Call) -> Result:
    statement, objects = call.statement, executor.objects
    (objects.close if statement.kind == "close" else objects.deallocate)(statement.target)
    return Result(None, (), statement.tag)


_HANDLERS: Final[Mapping[StatementKind, _Handler]] = MappingProxyType(
    {
        "catalog": lambda executor, call: executor.catalog.answer(
            call.statement, call.rows, call.parameters
        ),
        "close": _forget,
        "copy": _copy,
        "deallocate": _forget,
        "declare": _declare,
        "execute": _execute,
        "fetch": _fetch,
        "prepare": _prepare,
        "set": lambda executor, call: executor.set(call.statement, call.rows.begin),
        **dict.fromkeys(
            TRANSACTION_KINDS, lambda executor, call: executor.transact(call.statement)
        ),
    }
)
"""All other kinds are for the gate alone."""
