"""The grammar of statements that are not queries: PostgreSQL's, read to the end."""

from __future__ import annotations

import psycopg
import pytest

import tallyveil
from tallyveil.rewriter import Dialect
from tests.gate.asking import Connect

JUNK = [
    "set dp.epsilon = 1 0",
    "set dp.epsilon = 0.1 5",
    "set dp.epsilon = '1' '2'",
    "set dp.source = his tory",
    "set dp.epsilon = x'1'",
    "set dp.epsilon = b'1'",
    "set dp.epsilon = 1abc",
    "set dp.epsilon = 1_",
    "set dp.epsilon = 1_0.5_",
    "set dp.epsilon = 0x",
    "set dp.epsilon = 1.2.3",
    "set dp.epsilon = $1",
    "set dp.epsilon = -",
    "set dp.epsilon = - - 1",
    "set dp.epsilon = 1 + 1",
    "set dp.epsilon = (1)",
    "set dp.epsilon = 1,",
    "set dp.epsilon = ,",
    "set dp.epsilon = ",
    "set dp.epsilon",
    "set dp.epsilon 1",
    "set dp.epsilon to = 1",
    "set dp.epsilon to default 1",
    "set dp.epsilon := 1",
    "set dp . = 1",
    "set .epsilon = 1",
    "set 'dp.epsilon' = 1",
    "set session session dp.epsilon = 1",
    "set",
    "set time zone",
    "set time zone 'UTC' 'UTC'",
    "set names utf8",
    "set transaction",
    "set transaction read",
    "set transaction read banana",
    "set transaction isolation level banana",
    "set transaction isolation level read only",
    "set session characteristics as read only",
    "set session characteristics as transaction",
    "set constraints all",
    "reset",
    "reset dp.epsilon dp.rho",
    "reset all all",
    "show",
    "show dp.epsilon dp.rho",
    "show all all",
    "show 'dp.epsilon'",
    "begin read banana",
    "begin banana",
    "begin work work",
    "begin isolation level",
    "begin isolation level repeatable",
    "begin read only,",
    "start",
    "start banana",
    "start transaction read",
    "commit banana",
    "commit work transaction",
    "commit and chains",
    "end 1",
    "rollback banana",
    "rollback to",
    "rollback to a b",
    "abort 1",
    "savepoint",
    "savepoint a b",
    "savepoint 'a'",
    "release a b",
    "discard",
    "discard banana",
    "discard all plans",
    "deallocate",
    "deallocate a b",
    "deallocate 'a'",
    "close",
    "close all all",
    "unlisten",
    "unlisten a b",
    "unlisten * *",
    "explain",
    "explain (banana) select 1",
    "explain (verbose banana) select 1",
    "explain (format) select 1",
    "explain (verbose select 1",
    "explain (verbose,) select 1",
    "explain () select 1",
    "explain (verbose on off) select 1",
]

# PostgreSQL 18 says something else than that the statement does not parse.
_OTHERWISE = {
    "explain (format) select 1",  # 22023 there in some versions, 42601 in others
}


@pytest.mark.parametrize("dialect", ["postgres", "duckdb"])
def test_what_is_left_over_is_a_syntax_error(connect: Connect, dialect: Dialect) -> None:
    session = connect()._gate.session("alice", "people", dialect)
    before = session.settings.all()
    for statement in JUNK:
        with pytest.raises(tallyveil.Error) as caught:
            session.parse(statement)
        assert caught.value.sqlstate == "42601", statement
        assert 1 <= (caught.value.position or 0) <= len(statement) + 1
    assert session.settings.all() == before
    session.close()


def test_postgresql_finds_the_same_mistakes(postgres_uri: str) -> None:
    found = {}
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        for statement in JUNK:
            try:
                connection.execute(statement.encode())
                found[statement] = "00000"
            except psycopg.Error as error:
                found[statement] = error.sqlstate or ""
    wrong = {s: state for s, state in found.items() if state != "42601" and s not in _OTHERWISE}
    assert wrong == {}
