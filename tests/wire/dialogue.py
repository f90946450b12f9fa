"""What a server says to a list of statements, in a form that two servers can be compared by."""

from __future__ import annotations

from typing import Any

import psycopg

__all__ = ["differences", "said"]

# What "?" stands for in a statement.
FAILS = "SELECT no_such_column FROM (SELECT 1) t(a)"

REPORTED = ("application_name", "client_encoding", "DateStyle", "IntervalStyle", "TimeZone")


def said(connection: psycopg.Connection[Any], talk: list[str]) -> list[Any]:
    """Of each statement: its tag and rows or its SQLSTATE, warnings, the state and the reported
    settings afterwards."""
    found: list[Any] = []
    warnings: list[str | None] = []

    def hear(notice: psycopg.errors.Diagnostic) -> None:
        warnings.append(notice.sqlstate)

    connection.prepare_threshold = None
    connection.add_notice_handler(hear)
    for statement in talk:
        warnings.clear()
        try:
            cursor = connection.execute(statement.replace("?", FAILS).encode())
            answer: Any = [_answer(cursor)]
            while cursor.nextset():
                answer.append(_answer(cursor))
        except psycopg.Error as error:
            answer = error.sqlstate
        info = connection.info
        reported = tuple(info.parameter_status(name) for name in REPORTED)
        found.append((statement, answer, tuple(warnings), info.transaction_status.name, reported))
    connection.remove_notice_handler(hear)
    for statement in ("ROLLBACK", "CLOSE ALL", "DEALLOCATE ALL", "RESET ALL"):
        connection.execute(statement)
    return found


def _answer(cursor: psycopg.Cursor[Any]) -> Any:
    return cursor.statusmessage, cursor.fetchall() if cursor.description else None


def differences(
    ours: psycopg.Connection[Any], theirs: psycopg.Connection[Any], talks: list[list[str]]
) -> list[Any]:
    """Of each talk, the first statement that is answered in another way, and both answers."""
    found = []
    for talk in talks:
        pairs = zip(said(ours, talk), said(theirs, talk), strict=True)
        found += [(talk, one, other) for one, other in pairs if one != other][:1]
    return found
