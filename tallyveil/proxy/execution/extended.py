"""The extended protocol: Parse, Bind, Describe, Execute, Close.

Parse describes a statement once, which is free; Bind, Describe and Execute use that description.
A portal executes once. Its rows are stored, encoded, and sent in pages, so that neither a second
Execute nor a small fetch size calls the gate or charges again. What is stored counts against the
connection's memory limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tallyveil.cache import exact_key
from tallyveil.errors import FeatureNotSupported, InvalidParameterValue, SQLSyntaxError
from tallyveil.gate.interface import Result, Statement
from tallyveil.proxy.client_memory import size_of
from tallyveil.proxy.execution.catalog_session import raw_parameter
from tallyveil.proxy.execution.copy_rows import rows_for
from tallyveil.proxy.execution.executor import Executor
from tallyveil.proxy.execution.named_objects import (
    OVERHEAD,
    NamedObjects,
    Portal,
    PreparedStatement,
    asks_catalog,
)
from tallyveil.proxy.execution.statement_handlers import run
from tallyveil.proxy.pgtypes import decode_parameter
from tallyveil.proxy.protocol import backend
from tallyveil.proxy.protocol.messages import Bind, Close, Describe, Execute, Parse
from tallyveil.proxy.protocol_errors import BadMessage, PortalCannotRun

__all__ = ["bind", "close", "describe", "execute", "parse"]

_SMALL: Final = 1024
"""Bytes of parameters that the event loop may decode itself."""


def _spread(formats: tuple[int, ...], count: int, what: str) -> tuple[int, ...]:
    """Return a format code for each of ``count`` items, from none, one for all, or one for each.

    Raises InvalidParameterValue for an unknown code, and BadMessage for another number of codes.
    """
    for code in formats:
        if code not in (0, 1):
            raise InvalidParameterValue(f"unsupported format code: {code}")
    if len(formats) == count:
        return formats
    if len(formats) > 1:
        raise BadMessage(f"bind message has {len(formats)} {what} formats but {count} {what}s")
    return (formats or (0,)) * count


def parse(executor: Executor, message: Parse) -> Iterator[bytes]:
    if not message.name:
        executor.objects.forget_statement("")
    prepared = executor.described_before(message.sql, message.types)
    if prepared is None:
        yield backend.BLOCKING
        prepared = _described(executor, message)
        executor.keep_described(message.sql, message.types, prepared)
    executor.transaction.check(prepared.statement)
    executor.objects.keep_statement(message.name, prepared)
    yield backend.PARSE_COMPLETE


def _described(executor: Executor, message: Parse) -> PreparedStatement:
    """Describe the message's statement. Raises SQLSyntaxError if there are several."""
    statements = executor.parse(message.sql)
    if len(statements) > 1:
        raise SQLSyntaxError(
            "cannot insert multiple commands into a prepared statement",
            hint="Send the statements one by one.",
            position=statements[1].offset + 1,
        )
    executor.transaction.check(statements[0])
    return executor.prepare(statements[0], message.types)


def bind(executor: Executor, message: Bind) -> Iterator[bytes]:
    prepared = executor.objects.statement(message.statement)
    executor.transaction.check(prepared.statement)
    if message.portal:
        executor.objects.may_open(message.portal)
    count = len(message.values)
    if count != len(prepared.oids):
        raise BadMessage(
            f"bind message supplies {count} parameters, but prepared statement "
            f'"{message.statement}" requires {len(prepared.oids)}'
        )
    if count and sum(len(value or b"") for value in message.values) > _SMALL:
        yield backend.BLOCKING
    formats = _spread(message.formats, count, "parameter")
    read = raw_parameter if asks_catalog(prepared.statement) else decode_parameter
    parameters = tuple(
        None if data is None else read(i, oid, code, data)
        for i, (oid, code, data) in enumerate(
            zip(prepared.oids, formats, message.values, strict=True), start=1
        )
    )
    width = len(prepared.fields or ())
    # A statement that returns no rows has no columns, whatever formats the client sends.
    results = _spread(message.result_formats, width, "column") if width else ()
    executor.objects.forget_portal(message.portal)
    used = parameters[: prepared.used]
    size = OVERHEAD + len(message.portal) + 8 * width + sum(map(size_of, used))
    holding = executor.objects.holding
    holding.take(size)
    rows = rows_for(prepared.statement, holding, results, prepared.fields)
    executor.objects.open(message.portal, Portal(prepared, used, results, size, rows))
    yield backend.BIND_COMPLETE


def describe(executor: Executor, message: Describe) -> Iterator[bytes]:
    if message.kind == "S":
        prepared, formats = executor.objects.statement(message.name), None
        fields = prepared.fields
        yield backend.parameter_description(prepared.oids)
    else:
        portal = executor.objects.portal(message.name)
        fields, formats = portal.fields, portal.formats
    if fields is None:
        yield backend.NO_DATA
    else:
        yield backend.row_description(fields, formats)


def execute(executor: Executor, message: Execute) -> Iterator[bytes]:
    portal = _open_portal(executor.objects, message.portal)
    statement = portal.prepared.statement
    yield from _execute(executor, portal, statement, message)
    executor.transaction.go_on(statement)


def _execute(
    executor: Executor, portal: Portal, statement: Statement, message: Execute
) -> Iterator[bytes]:
    executor.transaction.check(statement)
    if statement.kind == "empty":
        yield backend.EMPTY_QUERY
        return
    if portal.result is None:
        if not message.limit and statement.kind == "select":
            yield from _answer(executor, portal, statement)
            return
        yield backend.BLOCKING
        result = run(executor, statement, portal.rows, portal.parameters, portal.prepared.types)
        portal.result = result
        yield from map(backend.notice_response, result.notices)
        if portal.fields is None:
            yield portal.rows.opening()
            yield from (chunk for _, chunk in portal.rows.take())
            yield portal.rows.closing()
    elif portal.prepared.fields is None:
        raise PortalCannotRun(f'portal "{message.portal}" cannot be run')
    yield from _page(portal, portal.result, message.limit)


def _answer(executor: Executor, portal: Portal, statement: Statement) -> Iterator[bytes]:
    """All rows of a query: the cached reply if it is still valid, else a new answer."""
    prepared, parameters = portal.prepared, portal.parameters
    values = exact_key(parameters) if parameters else ()
    key = (statement.sql, statement.offset, prepared.types, portal.formats, values)
    question, reply = executor.repeated(key)
    if reply is not None and reply.fields == prepared.fields:
        portal.result, portal.begun = reply.result, True
        yield reply.sent
        return
    yield backend.BLOCKING
    result = portal.result = run(executor, statement, portal.rows, parameters, prepared.types)
    notices = b"".join(map(backend.notice_response, result.notices))
    after = backend.command_complete(result.tag)
    executor.keep(question, key, notices, portal.rows, after, result)
    yield notices
    yield from _page(portal, result, 0)


def _page(portal: Portal, result: Result, limit: int) -> Iterator[bytes]:
    """The next ``limit`` rows (0 for all), and the command tag if these are the last."""
    sent, whole = 0, not portal.begun
    portal.begun = True
    for count, chunk in portal.rows.take(limit):
        sent += count
        yield chunk
    # As in PostgreSQL, a full page suspends the portal even if no rows remain.
    if limit and sent == limit:
        yield backend.PORTAL_SUSPENDED
    else:
        word = result.tag.partition(" ")[0]
        whole = whole or word not in ("SELECT", "FETCH")
        yield backend.command_complete(result.tag if whole else f"{word} {sent}")


def close(executor: Executor, message: Close) -> Iterator[bytes]:
    if message.kind == "S":
        executor.objects.forget_statement(message.name)
    else:
        executor.objects.forget_portal(message.name)
    yield backend.CLOSE_COMPLETE


def _open_portal(objects: NamedObjects, name: str) -> Portal:
    portal = objects.portal(name)
    if not isinstance(portal, Portal):
        raise FeatureNotSupported(
            "Execute cannot read a cursor that was created by DECLARE",
            hint=f'Send FETCH ALL FROM "{name}" instead.',
        )
    return portal
