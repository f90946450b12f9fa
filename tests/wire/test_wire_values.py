"""Values at the edge of their types, over the wire and in process: sent as they are, or refused."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import asyncpg
import psycopg
import pytest

import tallyveil
from tallyveil.interval import Interval

# Over a count of 9000 that is all but exact: what PostgreSQL answers over the raw rows as text.
FAR = [
    ("make_date(count(*)::int, 1, 1)", "9000-01-01"),
    ("interval '1 month 2 days'", "1 mon 2 days"),
    ("interval '1 month' * 1000000", "83333 years 4 mons"),
    ("interval '-1 day'", "-1 days"),
    ("interval '-1 hour'", "-01:00:00"),
]


@pytest.fixture
def exact(serve: Any) -> Any:
    return serve(epsilon=20_000.0, budget={"epsilon": 1e6})


def test_values_beyond_pythons_are_sent_as_they_are(exact: Any, postgres_uri: str) -> None:
    with exact.connect() as connection, psycopg.connect(postgres_uri) as postgres:
        for cursor in (connection.cursor(), connection.cursor(binary=True)):
            for expression, text in FAR:
                cursor.execute(f"SELECT {expression}, count(*) FROM person".encode())
                assert cursor.pgresult is not None
                theirs = postgres.cursor(binary=cursor.format == psycopg.pq.Format.BINARY)
                theirs.execute(
                    f"SELECT {expression}, count(*) FROM generate_series(1, 9000)".encode()
                )
                assert theirs.pgresult is not None
                assert cursor.pgresult.get_value(0, 0) == theirs.pgresult.get_value(0, 0)
                if not cursor.format:
                    assert cursor.pgresult.get_value(0, 0) == text.encode()


def test_in_process_an_interval_with_months_is_one_of_our_own(exact: Any) -> None:
    session = tallyveil.Connection(exact.gate, "alice")
    row = session.execute("SELECT INTERVAL '1 month 2 days', INTERVAL 1 DAY").fetchone()
    assert row is not None
    assert row[0] == Interval(1, 2, 0)
    assert str(row[0]) == "1 mon 2 days"
    assert row[1].days == 1


def test_minus_zero_is_another_parameter_than_zero(house: Any) -> None:
    async def ask() -> list[str]:
        connection = await asyncpg.connect(house.dsn)
        try:
            sql = "SELECT $1::float8"
            return [str(await connection.fetchval(sql, value)) for value in (0.0, -0.0, 0.0)]
        finally:
            await connection.close()

    assert asyncio.run(ask()) == ["0.0", "-0.0", "0.0"]


WRONG = [
    ("SELECT count(*) FROM person WHERE moved::time > '12:00'", "42846"),
    ("SELECT count(*) FROM person WHERE moved > 'banana'", "22007"),
    ("SELECT count(*) FROM person WHERE moved > '2020-02-30'", "22008"),
    ("SELECT count(*)::date FROM person", "42846"),
    ("SELECT upper(count(*)) FROM person", "42883"),
    ("SELECT 2147483647 + 1", "22003"),
    ("SELECT 1::numeric(40, 2)", "22023"),
    ("SELECT 12345::numeric(3, 2)", "22003"),
    ("SELECT '25:00'::time", "22008"),
    ("SELECT 'abc'::float8", "22P02"),
    ("SELECT interval '1 banana'", "22007"),
    ("SELECT ARRAY[ARRAY[count(*)]] FROM person", "0A000"),
    ("SELECT 123abc", "42601"),
]
_DUCKDBS = ("INT32", "INT64", "INT128", "DOUBLE", "VARCHAR", "Unimplemented", "DECIMAL")


def test_mistakes_are_told_in_postgresqls_words_and_free(serve: Any) -> None:
    days = {"range": [dt.date(2020, 1, 1), dt.date(2021, 2, 3)], "clamp": True}
    house = serve(attributes={"moved": days, "age": {"range": [0, 99]}})
    with house.connect() as connection:
        for sql, sqlstate in WRONG:
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(sql.encode())
            assert caught.value.sqlstate == sqlstate, sql
            assert not any(word in str(caught.value) for word in _DUCKDBS), str(caught.value)
    assert house.spent() == 0
