"""Prepared statements and portals: Parse, Bind, Describe, Execute, Close.

A statement is described once, at Parse; that is free, and Bind, Describe and Execute all rely on
it. A portal executes once: its rows are kept, encoded, and handed out in pages, so that neither a
second Execute nor a small fetch size asks the gate, or pays, again. What is kept is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tallyveil.cache import exact_key
from tallyveil.errors import InvalidParameterValue, SQLSyntaxError
from tallyveil.gate.interface import Result, Statement
from tallyveil.proxy import backend
from tallyveil.proxy.copying import CopyRows
from tallyveil.proxy.errors import (
    BadMessage,
    DuplicatePortal,
    DuplicatePreparedStatement,
    PortalCannotRun,
    TooManyPrepared,
    UndefinedPortal,
    UndefinedPreparedStatement,
)
from tallyveil.proxy.executor import Executor
from tallyveil.proxy.memory import Holding, size_of
from tallyveil.proxy.messages import Bind, Close, Describe, Execute, Parse
from tallyveil.proxy.pgtypes import decode_parameter, from_duckdb, parameter_type
from tallyveil.proxy.replies import Reply
from tallyveil.proxy.rows import Fields, Rows, fields_of

__all__ = ["Extended"]

_MOST: Final = 5000
"""Prepared statements, and portals, that one connection may hold at a time."""

_LITTLE: Final = 1024
"""Bytes of parameters that are decoded in no time."""

_OVERHEAD: Final = 1024
_FIELD: Final = 256
_TEXT: Final = 8
"""Bytes of a prepared statement or portal, of a column's description, of a character of SQL."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """``oids`` are of the parameters, declared or inferred; ``used`` of them the SQL mentions.

    ``types`` are DuckDB's names of the types of those.
    """

    statement: Statement
    oids: tuple[int, ...]
    used: int
    types: tuple[str, ...]
    fields: Fields | None
    size: int


@dataclass(slots=True)
class _Portal:
    """``result`` is None until the first Execute; ``rows`` are those that were not sent yet."""

    prepared: _Prepared
    parameters: tuple[Any, ...]
    formats: tuple[int, ...]
    size: int
    rows: Rows
    result: Result | None = None
    begun: bool = False


def _spread(formats: tuple[int, ...], count: int, what: str) -> tuple[int, ...]:
    """Format codes for each of ``count`` items from none, one for all, or one each."""
    for code in formats:
        if code not in (0, 1):
            raise InvalidParameterValue(f"unsupported format code: {code}")
    if len(formats) == count:
        return formats
    if len(formats) > 1:
        raise BadMessage(f"bind message has {len(formats)} {what} formats but {count} {what}s")
    return (formats or (0,)) * count


class Extended:
    """The prepared statements and portals of one connection; "" is the unnamed one."""

    def __init__(self, holding: Holding) -> None:
        self._holding = holding
        self._prepared: dict[str, _Prepared] = {}
        self._portals: dict[str, _Portal] = {}

    def parse(self, executor: Executor, message: Parse) -> Iterator[bytes]:
        if message.name in self._prepared and message.name:
            raise DuplicatePreparedStatement(f'prepared statement "{message.name}" already exists')
        if len(self._prepared) >= _MOST:
            raise TooManyPrepared(
                f"more than {_MOST} prepared statements", hint="Close some, or DEALLOCATE ALL."
            )
        if not message.name:
            self._forget_statement("")
        yield backend.BLOCKING
        statements = executor.parse(message.sql)
        if len(statements) > 1:
            raise SQLSyntaxError(
                "cannot insert multiple commands into a prepared statement",
                hint="Send the statements one by one.",
                position=statements[1].offset + 1,
            )
        executor.transaction.check(statements[0])
        prepared = _prepare(executor, statements[0], message)
        self._holding.take(prepared.size)
        self._prepared[message.name] = prepared
        yield backend.PARSE_COMPLETE

    def bind(self, executor: Executor, message: Bind) -> Iterator[bytes]:
        prepared = self._statement(message.statement)
        executor.transaction.check(prepared.statement)
        if message.portal and message.portal in self._portals:
            raise DuplicatePortal(f'portal "{message.portal}" already exists')
        if len(self._portals) >= _MOST:
            raise TooManyPrepared(f"more than {_MOST} portals", hint="Close some.")
        count = len(message.values)
        if count != len(prepared.oids):
            raise BadMessage(
                f"bind message supplies {count} parameters, but prepared statement "
                f'"{message.statement}" requires {len(prepared.oids)}'
            )
        if count and sum(len(value or b"") for value in message.values) > _LITTLE:
            yield backend.BLOCKING
        formats = _spread(message.formats, count, "parameter")
        parameters = tuple(
            None if data is None else decode_parameter(i, oid, code, data)
            for i, (oid, code, data) in enumerate(
                zip(prepared.oids, formats, message.values, strict=True), start=1
            )
        )
        width = len(prepared.fields or ())
        # A statement without rows has no columns to format, whatever the client asks for.
        results = _spread(message.result_formats, width, "column") if width else ()
        self._forget_portal(message.portal)
        used = parameters[: prepared.used]
        size = _OVERHEAD + len(message.portal) + 8 * width + sum(map(size_of, used))
        self._holding.take(size)
        rows = (
            Rows(self._holding, results, prepared.fields)
            if prepared.statement.copy is None
            else CopyRows(self._holding, prepared.statement.copy)
        )
        self._portals[message.portal] = _Portal(prepared, used, results, size, rows)
        yield backend.BIND_COMPLETE

    def describe(self, executor: Executor, message: Describe) -> Iterator[bytes]:
        if message.kind == "S":
            prepared, formats = self._statement(message.name), None
            yield backend.parameter_description(prepared.oids)
        else:
            portal = self._portal(message.name)
            prepared, formats = portal.prepared, portal.formats
        if prepared.fields is None:
            yield backend.NO_DATA
        else:
            yield backend.row_description(prepared.fields, formats)

    def execute(self, executor: Executor, message: Execute) -> Iterator[bytes]:
        portal = self._portal(message.portal)
        statement = portal.prepared.statement
        executor.transaction.check(statement)
        if statement.kind == "empty":
            yield backend.EMPTY_QUERY
            return
        if portal.result is None:
            if not message.limit and statement.kind == "select":
                yield from self._answer(executor, portal, statement)
                return
            yield backend.BLOCKING
            result = executor.run(statement, portal.rows, portal.parameters, portal.prepared.types)
            portal.result = result
            yield from map(backend.notice_response, result.notices)
            yield executor.changes(statement)
            if statement.kind == "copy":
                yield portal.rows.opening()
                yield from (chunk for _, chunk in portal.rows.take())
                yield portal.rows.closing()
        elif portal.prepared.fields is None:
            raise PortalCannotRun(f'portal "{message.portal}" cannot be run')
        yield from self._page(portal, portal.result, message.limit)

    def _answer(self, executor: Executor, portal: _Portal, statement: Statement) -> Iterator[bytes]:
        """All rows of a query; as they were sent to who asked it before, if that still holds."""
        prepared, parameters = portal.prepared, portal.parameters
        values = exact_key(parameters) if parameters else ()
        key = (statement.sql, statement.offset, prepared.types, portal.formats, values)
        question, reply = executor.repeated(key)
        if reply is not None and reply.fields == prepared.fields:
            portal.result, portal.begun = reply.result, True
            yield reply.sent
            return
        yield backend.BLOCKING
        result = portal.result = executor.run(statement, portal.rows, parameters, prepared.types)
        notices = b"".join(map(backend.notice_response, result.notices))
        rows = portal.rows.all()
        if rows is not None:
            sent = notices + rows + backend.command_complete(result.tag)
            executor.keep(question, key, Reply(sent, prepared.fields, result, statement.sql))
        yield notices
        yield from self._page(portal, result, 0)

    def _page(self, portal: _Portal, result: Result, limit: int) -> Iterator[bytes]:
        """The next ``limit`` rows, all for 0, and the tag if these were the last."""
        if portal.prepared.fields is None:
            yield backend.command_complete(result.tag)
            return
        sent, whole = 0, not portal.begun
        portal.begun = True
        for count, chunk in portal.rows.take(limit):
            sent += count
            yield chunk
        # Like PostgreSQL, a page that is exactly full is suspended: the end is not known yet.
        if limit and sent == limit:
            yield backend.PORTAL_SUSPENDED
        else:
            whole = whole or not result.tag.startswith("SELECT ")
            yield backend.command_complete(result.tag if whole else f"SELECT {sent}")

    def close(self, executor: Executor, message: Close) -> Iterator[bytes]:
        if message.kind == "S":
            self._forget_statement(message.name)
        else:
            self._forget_portal(message.name)
        yield backend.CLOSE_COMPLETE

    def deallocate(self, name: str | None) -> None:
        """DEALLOCATE. Portals of the statement live on, as in PostgreSQL."""
        if name is None:
            for each in tuple(self._prepared):
                self._forget_statement(each)
        else:
            self._statement(name)
            self._forget_statement(name)

    def forget_unnamed(self) -> None:
        """A simple query destroys the unnamed statement and portal."""
        self._forget_statement("")
        self._forget_portal("")

    def end_transaction(self) -> None:
        """Portals do not outlive their transaction."""
        for name in tuple(self._portals):
            self._forget_portal(name)

    def forget(self) -> None:
        """The client has left."""
        self.end_transaction()
        self.deallocate(None)

    def _forget_statement(self, name: str) -> None:
        prepared = self._prepared.pop(name, None)
        if prepared is not None:
            self._holding.give(prepared.size)

    def _forget_portal(self, name: str) -> None:
        portal = self._portals.pop(name, None)
        if portal is not None:
            portal.rows.drop()
            self._holding.give(portal.size)

    def _statement(self, name: str) -> _Prepared:
        found = self._prepared.get(name)
        if found is None:
            raise UndefinedPreparedStatement(
                f'prepared statement "{name}" does not exist'
                if name
                else "unnamed prepared statement does not exist"
            )
        return found

    def _portal(self, name: str) -> _Portal:
        found = self._portals.get(name)
        if found is None:
            raise UndefinedPortal(f'portal "{name}" does not exist')
        return found


def _prepare(executor: Executor, statement: Statement, message: Parse) -> _Prepared:
    used, declared = statement.parameter_count, message.types
    named = declared[:used] + (0,) * (used - len(declared))
    description = executor.describe(statement, tuple(map(parameter_type, named)))
    inferred = tuple(from_duckdb(t).type.oid for t in description.parameter_types)
    oids = tuple(
        oid if oid not in (0, 705) else known for oid, known in zip(named, inferred, strict=True)
    )
    # Types declared for parameters the SQL does not mention still want a value each.
    oids += declared[used:]
    fields = fields_of(description.columns)
    size = _OVERHEAD + len(message.name) + _TEXT * len(statement.sql) + 64 * len(oids)
    size += sum(_FIELD + len(name) for name, _ in fields or ())
    return _Prepared(statement, oids, used, description.parameter_types, fields, size)
