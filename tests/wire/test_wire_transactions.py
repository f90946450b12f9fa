"""Transaction blocks, savepoints and failed ones: PostgreSQL's answers, one by one."""

from __future__ import annotations

import socket
from typing import Any

import psycopg
import pytest

from tallyveil.proxy.protocol import messages as m
from tests.proxy.raw_client import RawClient
from tests.wire.dialogue import FAILS, differences

SHOWN = ["SHOW application_name"]

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
    ["SET application_name = 'a'", "BEGIN", "SET application_name = 'b'", "ROLLBACK", *SHOWN],
    ["BEGIN", "SET application_name = 'b'", "COMMIT", *SHOWN],
    ["BEGIN", "SET application_name = 'b'", "?", "COMMIT", *SHOWN],
    ["BEGIN", "SET LOCAL application_name = 'b'", *SHOWN, "COMMIT", *SHOWN],
    ["BEGIN", "SET application_name = 'b'", "SET LOCAL application_name = 'c'", "COMMIT", *SHOWN],
    ["BEGIN", "SET LOCAL application_name = 'b'", "SET application_name = 'c'", "COMMIT", *SHOWN],
    ["BEGIN", "SET LOCAL application_name = 'b'", "RESET application_name", *SHOWN, "COMMIT"],
    ["SET application_name = 'a'", "BEGIN", "SET LOCAL application_name TO DEFAULT", *SHOWN,
     "COMMIT", *SHOWN],
    ["BEGIN", "SET application_name = 'b'", "SAVEPOINT s", "SET application_name = 'c'",
     "ROLLBACK TO s", *SHOWN, "COMMIT", *SHOWN],
    ["BEGIN", "SAVEPOINT s", "SET LOCAL application_name = 'c'", "RELEASE s", *SHOWN, "COMMIT",
     *SHOWN],
    ["BEGIN", "SAVEPOINT s", "SET application_name = 'c'", "RELEASE s", "COMMIT", *SHOWN],
    ["BEGIN", "SAVEPOINT s", "SAVEPOINT t", "SET application_name = 'c'", "RELEASE t",
     "ROLLBACK TO s", *SHOWN, "COMMIT"],
    ["BEGIN", "SET application_name = 'b'", "SAVEPOINT s", "RESET ALL", "?", "ROLLBACK TO s",
     *SHOWN, "COMMIT"],
    ["SET LOCAL application_name = 'b'", *SHOWN],
    ["SET LOCAL application_name = 'b'; SHOW application_name", *SHOWN],
    ["SET application_name = 'b'; ?", *SHOWN],
    ["SET application_name = 'b'; SELECT 1", *SHOWN],
    ["BEGIN; SET application_name = 'b'; ?", "ROLLBACK", *SHOWN],
    ["SET application_name = 'b'; BEGIN; SET application_name = 'c'", "ROLLBACK", *SHOWN],
    ["COMMIT; DECLARE c CURSOR FOR SELECT 1 AS a; FETCH c"],
    ["BEGIN; ROLLBACK; DECLARE c CURSOR FOR SELECT 1 AS a; COMMIT; FETCH c"],
    ["COMMIT; SET LOCAL application_name = 'b'; SHOW application_name", *SHOWN],
    ["SET application_name = 'b'; COMMIT; SET application_name = 'c'; ?", *SHOWN],
    ["COMMIT; DISCARD ALL"],
    ["BEGIN", "SET LOCAL TIME ZONE 'Europe/Paris'", "SHOW timezone", "COMMIT", "SHOW timezone"],
    ["BEGIN", "SET timezone = 'Asia/Tokyo'", "ROLLBACK", "SHOW timezone"],
    ["BEGIN", "SET LOCAL no_such_setting = 1", "COMMIT"],
    ["BEGIN ISOLATION LEVEL REPEATABLE READ", "SHOW transaction_isolation", "COMMIT",
     "SHOW transaction_isolation"],
    ["BEGIN", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SHOW transaction_isolation",
     "ROLLBACK", "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "SHOW transaction_isolation"],
    ["SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ", "BEGIN",
     "SHOW transaction_isolation", "COMMIT"],
]  # fmt: skip


def test_blocks_and_savepoints_are_postgresqls(
    free_house: Any, postgres: psycopg.Connection[Any]
) -> None:
    with free_house.connect() as connection:
        assert differences(connection, postgres, TALKS) == []


def test_a_probe_may_fail_inside_of_a_savepoint(house: Any) -> None:
    """As pandas asks whether a string is a table, and goes on."""
    with house.connect() as connection, connection.transaction():
        with pytest.raises(psycopg.errors.UndefinedTable), connection.transaction():
            connection.execute("SELECT * FROM nothing")
        row = connection.execute("SELECT count(*) FROM person WHERE sex = 'F'").fetchone()
        assert row is not None


def test_a_setting_of_the_transaction_is_what_its_statements_are_charged_by(house: Any) -> None:
    asked = "SELECT count(*) FROM person WHERE age = 30"
    with house.connect() as connection:
        with connection.transaction():
            connection.execute("SET LOCAL dp.epsilon = 0.25")
            connection.execute(asked)
        assert house.spent() == 0.25
        assert connection.execute("SHOW dp.epsilon").fetchone() == ("0.05",)
        connection.execute(f"{asked} AND sex = 'F'")
        assert house.spent() == 0.3
        with connection.pipeline():
            connection.execute("SET LOCAL dp.epsilon = 0.5")
            connection.execute(f"{asked} AND sex = 'M'")
        assert house.spent() == pytest.approx(0.75)
        with connection.transaction(force_rollback=True):
            connection.execute("SET dp.half_width = 10")
        assert connection.execute("SHOW dp.epsilon").fetchone() == ("0.05",)


PIPELINES = [
    ["SET LOCAL application_name = 'b'", "SHOW application_name"],
    ["SHOW application_name", "SET LOCAL application_name = 'b'", "SHOW application_name"],
    ["SET LOCAL application_name = 'b'", "BEGIN", "SHOW application_name", "COMMIT",
     "SHOW application_name"],
    ["BEGIN", "SET LOCAL application_name = 'b'", "COMMIT", "SHOW application_name"],
    ["SET application_name = 'c'", "SET LOCAL application_name = 'b'", "SHOW application_name"],
    ["SHOW application_name", "SET LOCAL application_name = 'b'", "BEGIN", "SHOW application_name"],
    ["DECLARE c CURSOR FOR SELECT 1 AS a", "FETCH c"],
    ["SELECT 0 AS a", "DECLARE c CURSOR FOR SELECT 1 AS a", "FETCH c"],
    ["SET application_name = 'b'", "DECLARE c CURSOR FOR SELECT 1 AS a", "FETCH c"],
    ["SELECT 0 AS a", "COMMIT", "DECLARE c CURSOR FOR SELECT 1 AS a"],
    ["SELECT 0 AS a", "ROLLBACK", "SELECT 0 AS a", "DECLARE c CURSOR FOR SELECT 1 AS a", "FETCH c"],
    ["", "DECLARE c CURSOR FOR SELECT 1 AS a"],
    ["BEGIN", "COMMIT", "DECLARE c CURSOR FOR SELECT 1 AS a"],
    ["SELECT 0 AS a", "SAVEPOINT a"],
    ["SELECT 0 AS a", "DISCARD ALL"],
    ["DISCARD ALL", "DISCARD ALL", "DECLARE c CURSOR FOR SELECT 1 AS a"],
    ["SET application_name = 'b'", "COMMIT", "DISCARD ALL", "?"],
    ["SELECT 0 AS a", "SET TRANSACTION READ ONLY", "SHOW transaction_read_only"],
]  # fmt: skip


@pytest.mark.parametrize("statements", PIPELINES)
def test_what_is_local_in_a_pipeline_holds_up_to_its_end(
    free_house: Any, postgres_uri: str, statements: list[str]
) -> None:
    def asked(connection: psycopg.Connection[Any]) -> list[Any]:
        connection.execute("SET application_name = 'a'")
        notices: list[str | None] = []
        connection.add_notice_handler(lambda notice: notices.append(notice.sqlstate))
        cursors: list[psycopg.Cursor[Any]] = []
        try:
            with connection.pipeline():
                cursors += [
                    connection.execute(sql.replace("?", FAILS).encode()) for sql in statements
                ]
            refused = None
        except psycopg.Error as error:
            refused = error.sqlstate
        status = connection.info.transaction_status
        connection.execute("ROLLBACK")
        after = connection.execute("SHOW application_name").fetchone()
        found = [cursor.fetchone() for cursor in cursors if cursor.description]
        return [*found, after, refused, notices, status]

    postgres = psycopg.connect(postgres_uri, autocommit=True)
    with free_house.connect() as connection, postgres:
        assert asked(connection) == asked(postgres)


def test_parameter_status_is_sent_where_postgresql_sends_it(
    free_house: Any, postgres: psycopg.Connection[Any]
) -> None:
    """Every name it reports, at the start, and each change before ReadyForQuery."""
    changes = [
        "SET application_name = 'a'", "SET timezone = 'Europe/Paris'", "BEGIN",
        "SET LOCAL application_name = 'b'", "SET intervalstyle = 'postgres'", "ROLLBACK",
        "SET application_name = 'b'; SET application_name = 'c'", "RESET application_name",
    ]  # fmt: skip
    with RawClient(free_house.port) as ours, raw_postgres(postgres) as theirs:
        names = [
            sorted(fields[0] for kind, fields in client.start(user) if kind == "S")
            for client, user in ((ours, "alice"), (theirs, "postgres"))
        ]
        assert names[0] == names[1]
        for sql in changes:
            assert ours.ask(sql) == theirs.ask(sql)


def _kept_as(name: str, sql: bytes) -> list[m.Message]:
    return [m.Parse(name, sql, ()), m.Sync()]


def _executed(sql: bytes) -> list[m.Message]:
    return [m.Parse("", sql, ()), m.Bind("", "", (), (), ()), m.Execute("")]


MESSAGES: list[list[m.Message]] = [
    [*_kept_as("s", b"SELECT 1"), *_kept_as("s", b"SELEC 1"), *_kept_as("s", b"SELECT no_such"),
     *_kept_as("s", b"SELECT 2")],
    [*_kept_as("s", b"SELECT 1"), *_executed(b"BEGIN"), *_kept_as("", b"SELECT no_such"),
     *_kept_as("s", b"SELECT 1"), m.Query(b"SELECT $1"), *_executed(b"ROLLBACK"), m.Sync()],
    [m.Query(b"PREPARE s AS SELECT 1"), m.Query(b"PREPARE s AS SELECT no_such"),
     m.Query(b"PREPARE s AS SELECT 1")],
    [*_kept_as("s", b"SELECT 1"), *_executed(b"DEALLOCATE ALL"), m.Bind("", "", (), (), ()),
     m.Execute(""), m.Bind("", "s", (), (), ()), m.Sync()],
    [*_kept_as("", b"SELECT 1"), *_kept_as("", b"SELEC 1"), m.Bind("", "", (), (), ()), m.Sync()],
]  # fmt: skip


@pytest.mark.parametrize("messages", MESSAGES)
def test_refusals_come_in_postgresqls_order(
    free_house: Any, postgres: psycopg.Connection[Any], messages: list[m.Message]
) -> None:
    def told(client: RawClient, user: str) -> list[Any]:
        client.start(user)
        client.send(*messages)
        ends = sum(isinstance(message, m.Query | m.Sync) for message in messages)
        answer = [one for _ in range(ends) for one in client.until("Z")]
        return [fields["C"] if kind == "E" else (kind, fields) for kind, fields in answer]

    with RawClient(free_house.port) as ours, raw_postgres(postgres) as theirs:
        assert told(ours, "alice") == told(theirs, "postgres")


def raw_postgres(postgres: psycopg.Connection[Any]) -> RawClient:
    client = RawClient.__new__(RawClient)
    client.socket = socket.socket(socket.AF_UNIX)
    client.socket.connect(f"{postgres.info.host}/.s.PGSQL.{postgres.info.port}")
    return client
