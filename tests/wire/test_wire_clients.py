"""What psql shows of answers and refusals, what ORMs ask when they connect, and what the guide says
of a server without catalogs.
"""

from __future__ import annotations

import subprocess
from typing import Any

import psycopg
import pytest

from bench.postgres import program

COUNT = "SELECT count(*) FROM person WHERE age = 30 AND state = 'AL'"


def test_psql(house: Any) -> None:
    with house.connect() as connection:
        ((answer,),) = connection.execute(COUNT).fetchall()

    def run(*commands: str) -> subprocess.CompletedProcess[str]:
        arguments = [part for command in commands for part in ("-c", command)]
        return subprocess.run(
            [program("psql"), house.dsn, "-X", "-A", "-t", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    done = run("SET dp.confidence = 0.9", COUNT)
    assert done.stdout.splitlines() == ["SET", str(answer)]
    assert "answered from history, free" in done.stderr
    failed = run("SELECT count(*) FROM person WHERE income > 20000")
    assert failed.returncode == 1
    assert "LINE 1: SELECT count(*) FROM person WHERE income > 20000" in failed.stderr
    assert "The nearest edges are 15000 and 30000" in failed.stderr


ON_CONNECTING = [
    "SELECT * FROM current_schema()",
    "SELECT * FROM current_schema() AS s",
    "SELECT d.n FROM current_database() AS d (n) WHERE d.n <> ''",
    "SELECT current_schema()",
    "SELECT current_user, session_user, current_catalog, current_database()",
    "SELECT current_user || '', upper(current_schema()), current_schema() = 'public'",
    "SELECT u, count(*) FROM (SELECT current_user AS u UNION ALL SELECT current_user) t GROUP BY u",
    "SELECT current_user UNION ALL SELECT current_schema()",
    "SELECT * FROM upper('x'), lower('Y') AS n",
    "VALUES (1)",
    "VALUES (1, 'a'), (2, 'b') ORDER BY 1 DESC LIMIT 1",
    "VALUES (1, NULL), (2, 'b') ORDER BY column2 NULLS FIRST OFFSET 1",
    "(VALUES (1))",
    "SELECT column2, column1 FROM (VALUES (1, 'a')) AS v",
    "SELECT * FROM (VALUES (1, 'a')) AS v (n)",
    "WITH v AS (VALUES (1), (2)) SELECT column1 + 1 AS n FROM v",
    "SELECT 2 IN (VALUES (1), (2))",
    "SELECT set_config('TimeZone', 'Europe/Paris', false)",
    "SELECT pg_catalog.set_config('work_mem', '65536', true) AS m",
    "SELECT current_setting('jit') AS cur, set_config('jit', 'off', false) AS new,"
    " current_setting('jit')",
]


def test_what_clients_ask_on_connecting_has_postgresqls_columns_and_rows(
    free_house: Any, postgres_uri: str
) -> None:
    def asked(connection: psycopg.Connection[Any], sql: str) -> Any:
        cursor = connection.execute(sql.encode())
        columns = [(c.name, c.type_code, c.internal_size) for c in cursor.description or ()]
        return columns, cursor.fetchall(), cursor.statusmessage

    with psycopg.connect(postgres_uri, autocommit=True) as postgres:
        who = postgres.execute("SELECT current_user, current_database()").fetchone()
        user, database = who or ("", "")
        address = f"postgresql://{user}@127.0.0.1:{free_house.port}/{database}"
        with psycopg.connect(address, autocommit=True) as connection:
            for sql in ON_CONNECTING:
                assert asked(connection, sql) == asked(postgres, sql), sql
            with pytest.raises(psycopg.errors.SyntaxError):
                connection.execute("VALUES (1, 2), (3)")
    assert free_house.spent() == 0


def test_a_plan_is_shown_as_json(free_house: Any) -> None:
    with free_house.connect() as connection:
        for sql in ("SELECT count(*) FROM person", "SELECT 1"):
            lines = [line for (line,) in connection.execute(f"EXPLAIN {sql}".encode())]
            cursor = connection.execute(f"EXPLAIN (FORMAT JSON) {sql}".encode(), prepare=True)
            assert [(c.name, c.type_code) for c in cursor.description or ()] == [
                ("QUERY PLAN", 114)
            ]
            [([plan],)] = cursor.fetchall()
            assert plan["Plan"]["Lines"] == lines
    assert free_house.spent() == 0


def test_what_the_guide_says_does_not_work_yet_is_refused_free(house: Any) -> None:
    """The guide lists it; whoever makes one of these work takes it off the list."""
    with house.connect() as connection:
        for statement in (
            "SELECT routine_name FROM information_schema.routines",
            "SELECT relname FROM pg_catalog.pg_class",
            "SELECT pg_catalog.pg_get_userbyid(relowner) FROM pg_catalog.pg_class",
        ):
            with pytest.raises(psycopg.errors.UndefinedTable) as caught:
                connection.execute(statement)
            assert caught.value.diag.message_hint
            assert "If the server has catalogs" in (caught.value.diag.message_detail or "")
    assert house.spent() == 0
