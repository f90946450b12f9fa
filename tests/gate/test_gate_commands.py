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


# Not its numbers in other bases or with underscores, nor strings continued on another line.
RIGHT = [
    ("set dp.epsilon = +0.5", "dp.epsilon", "0.5"),
    ("set dp.epsilon = .5", "dp.epsilon", ".5"),
    ("set dp.epsilon = 5e-1", "dp.epsilon", "5e-1"),
    ("set \"dp\".\"EPSILON\" to '0.5'", "dp.epsilon", "0.5"),
    ("set session dp.source to history", "dp.source", "history"),
    ("set dp.notices = no", "dp.notices", "off"),
    ("set dp.notices = TRUE", "dp.notices", "on"),
    ("set application_name = $$a b$$", "application_name", "a b"),
    ("set application_name = Hello", "application_name", "hello"),
    ('set application_name = "Hello"', "application_name", "Hello"),
    ("set time zone default", "timezone", "UTC"),
    ("set search_path = \"public\", 'a b'", "search_path", 'public, "a b"'),
    ("set datestyle = iso, dmy", "datestyle", "ISO, DMY"),
]  # fmt: skip


def test_values_are_read_as_postgresql_reads_them(connect: Connect) -> None:
    session = connect()._gate.session("alice", "people", "postgres")
    for statement, name, value in RIGHT:
        (parsed,) = session.parse(statement)
        session.execute(parsed)
        assert session.settings.show(name) == value
    session.close()


def test_a_setting_of_one_value_takes_no_list(connect: Connect) -> None:
    with pytest.raises(tallyveil.Error, match="takes only one argument") as caught:
        connect().execute("SET dp.epsilon = 1, 2")
    assert caught.value.sqlstate == "22023"


EXPLAINS = [
    ("explain (format nonsense) select 1", "22023"),
    ("explain (format xml) select 1", "0A000"),
    ("explain (analyze) select 1", "0A000"),
    ("explain (analyze on, verbose) select 1", "0A000"),
    ("explain analyze select 1", "0A000"),
    ("explain (costs off) select 1", "0A000"),
    ("explain (buffers) select 1", "0A000"),
    ("explain (timing on) select 1", "22023"),
]


def refused(connection: tallyveil.Connection, statement: str) -> str:
    """The SQLSTATE."""
    with pytest.raises(tallyveil.Error) as caught:
        connection.execute(statement)
    return caught.value.sqlstate


def test_an_option_of_explain_is_refused_or_kept(connect: Connect) -> None:
    connection = connect()
    for statement, sqlstate in EXPLAINS:
        assert refused(connection, statement) == sqlstate, statement
    query = "select count(*) from person"
    plain = connection.execute(f"explain {query}").fetchall()
    for options in ("verbose", "(verbose)", "(analyze off, format text)", "(verbose 0, costs 1)"):
        assert connection.execute(f"explain {options} {query}").fetchall() == plain
    assert connection.execute(f"explain (({query}))").fetchall()


@pytest.mark.parametrize(
    "statement",
    [
        "set session authorization default",
        "set local session authorization default",
        "set role none",
        "set session role none",
        "reset role",
    ],
)
def test_pools_may_set_the_user_to_who_connected(connect: Connect, statement: str) -> None:
    """Npgsql does, before it lends a connection again."""
    connection = connect()
    before = connection.execute("select current_user").fetchall()
    connection.execute(statement)
    assert connection.execute("select current_user").fetchall() == before
    assert refused(connection, f"{statement} bob") == "42601"


MEANINGLESS = [
    ("set default_transaction_isolation = 'banana'", "22023"),
    ("set transaction snapshot '1'", "0A000"),
    ("commit and chain", "0A000"),
    ("commit prepared 'a'", "0A000"),
    ("set constraints one deferred", "42704"),
    ("set role bob", "42501"),
    ("set session authorization bob", "42501"),
    ("checkpoint", "42501"),
    ("close one", "0A000"),
]


def test_what_has_no_meaning_here_is_refused(connect: Connect) -> None:
    connection = connect()
    for statement, sqlstate in MEANINGLESS:
        assert refused(connection, statement) == sqlstate, statement


def test_a_block_has_the_modes_it_began_with(connect: Connect) -> None:
    connection = connect()

    def shown(name: str) -> str:
        row = connection.execute(f"SHOW {name}").fetchone()
        assert row is not None
        return str(row[0])

    connection.execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ WRITE")
    assert shown("transaction isolation level") == "repeatable read"
    assert shown("transaction_read_only") == "off"
    connection.execute("SET TRANSACTION READ ONLY, DEFERRABLE")
    assert shown("transaction_read_only") == "on"
    connection.execute("COMMIT")
    assert shown("transaction_isolation") == "read committed"
    cursor = connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    assert [n.severity for n in cursor.notices] == ["WARNING"]
    assert shown("transaction_isolation") == "read committed"
    connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    assert shown("transaction_isolation") == "repeatable read"
