"""COPY (query) TO STDOUT: byte by byte what PostgreSQL sends, charged once, and when it runs."""

from __future__ import annotations

import asyncio
import io
import subprocess
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

from bench.postgres import program
from tallyveil.proxy.protocol import messages as m
from tests.proxy.raw_client import RawClient

COUNT = "SELECT count(*) FROM person WHERE sex = 'F'"

ROWS = """SELECT * FROM (VALUES
    (1, 'plain', true, 1.50::numeric(5,2), date '2024-02-29', 'a b'::text),
    (2, E'tab\\tline\\nreturn\\rback\\\\slash\\x08\\x0b\\x0c\\x01', false, -0.25, NULL, ''),
    (3, 'quote " and '' and , and | and ; and \\.', NULL, NULL, date '0001-01-01', '\\N'),
    (4, '\\.', true, 0.00, date '9999-12-31', 'Zürich €'),
    (5, NULL, NULL, NULL, NULL, 'NULL')
) t(id, said, flag, price, day, "Mixed, Case") ORDER BY id"""
ONE = "SELECT * FROM (VALUES ('\\.'), (''), (NULL), ('x,y')) t(a)"
NONE = "SELECT 1::int AS a, 'x'::text AS b WHERE false"
TYPES = """SELECT 1::int2, 2::int8, 1e300::float8,
    timestamp '2024-02-29 12:30:00.25', time '01:02:03', interval '1 day 2 hours',
    ARRAY[1, NULL, 3], ARRAY['a b', NULL, 'c"d']::text[]"""

OPTIONS = [
    "",
    "(FORMAT text)",
    "WITH (FORMAT csv)",
    "(FORMAT csv, HEADER)",
    "(FORMAT csv, HEADER true, DELIMITER ';', NULL 'NULL', QUOTE '''', ESCAPE '\\')",
    "(FORMAT csv, FORCE_QUOTE *)",
    "(FORMAT csv, HEADER, FORCE_QUOTE (said, price))",
    "(FORMAT csv, DELIMITER E'\\t', NULL '\\N')",
    "(FORMAT text, DELIMITER '|', NULL '', HEADER on)",
    "(DELIMITER ',', HEADER 0)",
    "(FORMAT binary)",
    '(FORMAT "binary")',
    "(FORMAT 'csv', ENCODING 'UTF8')",
    "BINARY",
    "WITH BINARY",
    "CSV HEADER",
    "WITH CSV HEADER DELIMITER AS ';' NULL AS 'x' QUOTE AS '\"' FORCE QUOTE said",
    "DELIMITER '|' NULL 'none'",
]


def chunks(connection: psycopg.Connection[Any], sql: str) -> tuple[list[bytes], int]:
    """Every CopyData message as it came, and how many rows the tag says there were."""
    with connection.cursor() as cursor:
        with cursor.copy(sql) as copy:
            found = [bytes(data) for data in copy]
        return found, cursor.rowcount


def test_every_message_is_postgresqls(house: Any, postgres: psycopg.Connection[Any]) -> None:
    other = []
    with house.connect() as connection:
        for options in OPTIONS:
            for query in [ROWS] if "said" in options else [ONE, NONE, TYPES, ROWS]:
                sql = f"COPY ({query}) TO STDOUT {options}"
                ours, theirs = chunks(connection, sql), chunks(postgres, sql)
                if ours != theirs:
                    other.append((sql, ours, theirs))
    assert other == []


REFUSED = [
    "COPY (SELECT 1) TO STDOUT (FORMAT xml)",
    "COPY (SELECT 1) TO STDOUT (FORMAT csv, FORMAT text)",
    "COPY (SELECT 1) TO STDOUT (SPEED 3)",
    "COPY (SELECT 1) TO STDOUT (DELIMITER 'ab')",
    "COPY (SELECT 1) TO STDOUT (DELIMITER 'é')",
    "COPY (SELECT 1) TO STDOUT (DELIMITER E'\\n')",
    "COPY (SELECT 1) TO STDOUT (DELIMITER 'a')",
    "COPY (SELECT 1) TO STDOUT (DELIMITER '.')",
    "COPY (SELECT 1) TO STDOUT (NULL E'a\\nb')",
    "COPY (SELECT 1) TO STDOUT (NULL 'a|b', DELIMITER '|')",
    "COPY (SELECT 1) TO STDOUT (QUOTE '''')",
    "COPY (SELECT 1) TO STDOUT (ESCAPE '''')",
    "COPY (SELECT 1) TO STDOUT (FORCE_QUOTE *)",
    "COPY (SELECT 1) TO STDOUT (FORMAT csv, QUOTE 'ab')",
    "COPY (SELECT 1) TO STDOUT (FORMAT csv, ESCAPE 'ab')",
    "COPY (SELECT 1) TO STDOUT (FORMAT csv, QUOTE ',')",
    "COPY (SELECT 1) TO STDOUT (FORMAT csv, NULL '\"')",
    "COPY (SELECT 1) TO STDOUT (FORMAT csv, FORCE_QUOTE (b))",
    "COPY (SELECT 1) TO STDOUT (FORMAT binary, DELIMITER ',')",
    "COPY (SELECT 1) TO STDOUT (FORMAT binary, NULL 'x')",
    "COPY (SELECT 1) TO STDOUT (FORMAT csv, HEADER match)",
    "COPY (SELECT 1) TO STDOUT (FORMAT csv, HEADER 2)",
    "COPY (SELECT 1) TO STDOUT (FORMAT)",
    "COPY (SELECT 1) TO STDOUT (FORMAT csv, FORCE_NULL (a))",
    "COPY (SELECT 1) TO STDOUT (FREEZE)",
    "COPY (SELECT 1) TO STDOUT FROM x",
    "COPY (SELECT 1) TO",
    "COPY (SELECT 1 TO STDOUT",
    "COPY () TO STDOUT",
]


def code(connection: psycopg.Connection[Any], sql: str) -> str | None:
    try:
        chunks(connection, sql)
    except psycopg.Error as error:
        return error.sqlstate
    return None


def test_mistakes_have_postgresqls_codes(house: Any, postgres: psycopg.Connection[Any]) -> None:
    with house.connect() as connection:
        found = {sql: (code(connection, sql), code(postgres, sql)) for sql in REFUSED}
        assert {sql: codes for sql, codes in found.items() if codes[0] != codes[1]} == {}
        assert connection.execute("SELECT 1").fetchone() == (1,)


FREE = {
    "COPY person TO STDOUT": "0A000",
    "COPY person FROM STDIN": "0A000",
    "COPY (SELECT * FROM person) TO STDOUT": "0A000",
    "COPY (SELECT count(*) FROM person) TO '/tmp/x'": "42501",
    "COPY (SELECT count(*) FROM person) TO PROGRAM 'cat'": "42501",
    "COPY (SELECT count(*) FROM person) TO STDOUT (ENCODING 'latin1')": "0A000",
    f"COPY ({COUNT}) TO STDOUT (FORMAT csv, FORCE_QUOTE (nothing))": "42703",
    "COPY (SELECT NULL FROM person WHERE ctid > '(0,0)'::tid) TO STDOUT": "0A000",
}


def test_what_is_refused_is_free(house: Any) -> None:
    with house.connect() as connection:
        assert {sql: code(connection, sql) for sql in FREE} == FREE
    assert house.spent() == 0


def test_it_is_charged_once_when_it_runs(house: Any) -> None:
    """Prepared, described, bound, and executed by pages: it gives no pages, and says so."""
    with RawClient(house.port) as client:
        client.start()
        client.send(m.Parse("s", f"COPY ({COUNT}) TO STDOUT".encode()), m.Describe("S", "s"))
        client.send(m.Bind("", "s", (), (), (1,)), m.Describe("P", ""), m.Sync())
        assert [kind for kind, _ in client.until("Z")] == ["1", "t", "n", "2", "n", "Z"]
        assert house.spent() == 0
        found = []
        for _ in range(2):
            client.send(m.Bind("", "s", (), (), ()), m.Execute("", 1), m.Execute(""), m.Sync())
            found.append(client.until("Z"))
    assert house.spent() == 0.05
    kinds = ["".join(kind for kind, _ in answer) for answer in found]
    assert kinds == ["2NHdcCEZ", "2NHdcCEZ"]  # a portal that has run cannot be run again
    assert [answer[3] for answer in found] == [found[0][3]] * 2
    with house.connect() as connection:
        asked = connection.execute(COUNT).fetchone()
    assert asked is not None
    assert found[0][3] == ("d", f"{asked[0]}\n")
    assert house.spent() == 0.05


def test_a_position_counts_from_the_start_of_the_message(house: Any) -> None:
    sql = "SELECT 1; COPY (SELECT count(*) FROM persn) TO STDOUT"
    with house.connect() as connection, pytest.raises(psycopg.errors.UndefinedTable) as refused:
        connection.execute(sql)
    assert refused.value.diag.statement_position == str(sql.index("persn") + 1)


def test_asyncpg_copies_a_query(house: Any) -> None:
    async def ask() -> tuple[bytes, str]:
        connection = await asyncpg.connect(house.dsn)
        out = io.BytesIO()
        try:
            tag = await connection.copy_from_query(COUNT, output=out, format="csv", header=True)
            return out.getvalue(), tag
        finally:
            await connection.close()

    data, tag = asyncio.run(ask())
    header, count = data.decode().splitlines()
    assert header == "count"
    assert count.isdigit()
    assert tag == "COPY 1"


def test_psql_copies_into_a_file(house: Any, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    query = "SELECT state, count(*) FROM person GROUP BY state ORDER BY state"
    found = subprocess.run(
        [program("psql"), house.dsn, "-c", f"\\copy ({query}) to '{out}' csv header"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "COPY 3"
    lines = out.read_text().splitlines()
    assert lines[0] == "state,count"
    assert [line.partition(",")[0] for line in lines[1:]] == ["AK", "AL", "WY"]


def test_a_large_one_is_bounded_like_a_result(house: Any) -> None:
    numbers = ", ".join(f"({n})" for n in range(300))
    with house.connect() as connection:
        sql = f"COPY (SELECT a.n FROM (VALUES {numbers}) a(n), (VALUES {numbers}) b(n)) TO STDOUT"
        data, count = chunks(connection, sql)
        assert count == 90_000
        assert len(data) == 90_000
