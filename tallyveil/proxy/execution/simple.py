"""The simple protocol: a text of statements, which are executed and answered one by one."""

from __future__ import annotations

from collections.abc import Iterator

from tallyveil.errors import UndefinedParameter
from tallyveil.gate.interface import Statement
from tallyveil.proxy.execution.executor import Executor
from tallyveil.proxy.execution.replies import ReplyKey
from tallyveil.proxy.execution.statement_handlers import run
from tallyveil.proxy.protocol import backend
from tallyveil.proxy.protocol.messages import Query

__all__ = ["query"]


def query(executor: Executor, message: Query) -> Iterator[bytes]:
    executor.objects.forget_unnamed()
    question = None
    if executor.transaction.sound:
        question, reply = executor.repeated(message.sql)
        if reply is not None:
            yield reply.sent
            return
    yield backend.BLOCKING
    statements = executor.parse(message.sql)
    several = len(statements) > 1
    if several or statements[0].kind != "select":
        question = None
    for statement in statements:
        if several:  # each time, since the statement before may have ended the transaction
            executor.begin_implicit()
        yield from _answer(executor, statement, question, message.sql)


def _answer(
    executor: Executor, statement: Statement, question: ReplyKey | None, sql: bytes
) -> Iterator[bytes]:
    """Execute one statement. ``question`` is the key for caching the reply, or None not to."""
    if statement.kind == "empty":
        yield backend.EMPTY_QUERY
        return
    if statement.parameter_count:
        executor.transaction.check(statement)
        raise UndefinedParameter(
            "there is no parameter $1",
            hint="Send the statement with parameters, by the extended protocol.",
        )
    rows = executor.rows_for(statement)
    result = run(executor, statement, rows)
    before = b"".join(map(backend.notice_response, result.notices)) + rows.opening()
    after = backend.command_complete(result.tag)
    executor.keep(question, sql, before, rows, after, result)
    yield before
    yield from (chunk for _, chunk in rows.take())
    yield rows.closing() + after
