"""Transaction blocks, savepoints and failed ones: PostgreSQL's answers, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

# What "?" stands for below.
FAILS = "SELECT no_such_column FROM (SELECT 1) t(a)"

TALKS: list[list[str]] = [
    ["BEGIN", "SELECT 1", "COMMIT"],
    ["BEGIN", "?", "SELECT 1", "COMMIT", "SELECT 1"],
    ["BEGIN", "?", "ROLLBACK", "SELECT 1"],
    ["BEGIN", "SAVEPOINT a", "?", "SELECT 1", "ROLLBACK TO a", "SELECT 1", "COMMIT"],
    ["BEGIN", "SAVEPOINT a", "?", "ROLLBACK TO SAVEPOINT a", "RELEASE SAVEPOINT a", "COMMIT"],
    ["BEGIN", "SAVEPOINT a", "?", "RELEASE a", "ROLLBACK TO a", "COMMIT"],
    ["BEGIN", "SAVEPOINT a", "?", "SAVEPOINT b", "ROLLBACK"],
    ["BEGIN", "SAVEPOINT a", "RELEASE a", "ROLLBACK TO a", "SELECT 1", "ROLLBACK"],
    ["BEGIN", "ROLLBACK TO nothing", "SELECT 1", "COMMIT"],
    ["BEGIN", "RELEASE nothing", "SELECT 1", "COMMIT"],
    ["BEGIN", "SAVEPOINT a", "SAVEPOINT a", "RELEASE a", "ROLLBACK TO a", "COMMIT"],
    ["BEGIN", "SAVEPOINT a", "SAVEPOINT b", "RELEASE a", "ROLLBACK TO b", "ROLLBACK"],
    ["BEGIN", "SAVEPOINT a", "SAVEPOINT b", "ROLLBACK TO a", "ROLLBACK TO b", "ROLLBACK"],
    ["BEGIN", "SAVEPOINT a", "SAVEPOINT b", "?", "ROLLBACK TO a", "RELEASE a", "COMMIT"],
    ["BEGIN", 'SAVEPOINT "A"', "ROLLBACK TO a", "ROLLBACK"],
    ["BEGIN", "BEGIN", "SELECT 1", "COMMIT"],
    ["BEGIN", "?", "BEGIN", "ROLLBACK"],
    ["BEGIN", "?", "SET timezone = 'UTC'", "SHOW timezone", "ROLLBACK"],
    ["BEGIN", "?", "", "ROLLBACK"],
    ["BEGIN", "?", "END"],
    ["BEGIN", "?", "ABORT", "SELECT 1"],
    ["START TRANSACTION READ ONLY", "SELECT 1", "END"],
    ["SAVEPOINT a"],
    ["RELEASE a"],
    ["ROLLBACK TO a"],
    ["COMMIT"],
    ["ROLLBACK"],
    ["?", "SELECT 1"],
    ["BEGIN; SELECT 1; COMMIT"],
    ["BEGIN; ?; COMMIT", "ROLLBACK"],
    ["SELECT 1; ?; SELECT 2", "SELECT 1"],
]


@pytest.fixture(scope="module")
def postgres(postgres_uri: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        yield connection


def said(connection: psycopg.Connection[Any], talk: list[str]) -> list[Any]:
    """Of each statement: its tag and rows or its SQLSTATE, warnings, and the state afterwards."""
    found: list[Any] = []
    warnings: list[str | None] = []

    def hear(notice: psycopg.errors.Diagnostic) -> None:
        warnings.append(notice.sqlstate)

    connection.add_notice_handler(hear)
    connection.execute("SET timezone = 'UTC'")
    for statement in talk:
        warnings.clear()
        try:
            cursor = connection.execute(statement.replace("?", FAILS).encode())
            rows = cursor.fetchall() if cursor.description else None
            answer: Any = (cursor.statusmessage, rows)
        except psycopg.Error as error:
            answer = error.sqlstate
        status = connection.info.transaction_status.name
        found.append((statement, answer, tuple(warnings), status))
    connection.remove_notice_handler(hear)
    connection.execute("ROLLBACK")
    return found


def test_blocks_and_savepoints_are_postgresqls(
    house: Any, postgres: psycopg.Connection[Any]
) -> None:
    with house.connect() as connection:
        for talk in TALKS:
            assert said(connection, talk) == said(postgres, talk)


def test_a_probe_may_fail_inside_of_a_savepoint(house: Any) -> None:
    """As pandas asks whether a string is a table, and goes on."""
    with house.connect() as connection, connection.transaction():
        with pytest.raises(psycopg.errors.UndefinedTable), connection.transaction():
            connection.execute("SELECT * FROM nothing")
        row = connection.execute("SELECT count(*) FROM person WHERE sex = 'F'").fetchone()
        assert row is not None
