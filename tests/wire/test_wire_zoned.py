"""Attributes that are instants, as clients of several time zones send and receive them.

PostgreSQL has the raw rows, which are at steps, in columns of timestamp with time zone. Each cell
is in use, since a group without records is a row of ours alone. On 2020-03-29 clocks are put
forward, and on 2020-10-25 back: in Berlin at two and three o'clock, in Beirut at midnight.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import psycopg
import pytest
from psycopg import pq

UTC = dt.UTC
T = dt.datetime
AUTUMN = T(2020, 10, 24, 18, tzinfo=UTC), T(2020, 10, 26, tzinfo=UTC)
SPRING = T(2020, 3, 28, 18, tzinfo=UTC), T(2020, 3, 30, 6, tzinfo=UTC)
ATTRIBUTES: dict[str, Any] = {
    "seen": {"range": list(AUTUMN), "step": "15 minutes"},
    "came": {"range": list(SPRING), "step": "30 minutes", "nullable": True},
    "rounded": {"range": list(AUTUMN), "step": "15 minutes", "round": True, "column": "seen"},
    "k": {"range": [0, 2]},
}
VISITS = """
    SELECT TIMESTAMPTZ '2020-10-24 18:00+00' + INTERVAL 15 MINUTE * (i % 121) AS seen,
        CASE WHEN i % 74 < 73
        THEN TIMESTAMPTZ '2020-03-28 18:00+00' + INTERVAL 30 MINUTE * (i % 74) END AS came,
        i % 3 AS k
    FROM range(400) t(i)
"""
SHIFTS = """
    SELECT TIMESTAMPTZ '2020-10-24 20:00+00' + INTERVAL 2 HOUR * i AS begins, 's' || i AS shift
    FROM range(12) t(i)
"""
UTC_TOO = pytest.param("UTC", marks=pytest.mark.slow)
ST_JOHNS_TOO = pytest.param("America/St_Johns", marks=pytest.mark.slow)


@pytest.fixture(scope="module")
def house(serve_all: Callable[..., Any]) -> Any:
    table = {"from": VISITS, "budget": {"epsilon": 1e6}}
    return serve_all(60, ATTRIBUTES, public={"shift": {"from": SHIFTS}}, **table)


@pytest.fixture(scope="module")
def raw(postgres: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    with duckdb.connect() as source:
        for name, columns, query in (
            ("person", "seen timestamptz, came timestamptz, k int", VISITS),
            ("shift", "begins timestamptz, shift text", SHIFTS),
        ):
            postgres.execute(f"DROP TABLE IF EXISTS {name}")
            postgres.execute(f"CREATE TABLE {name} ({columns})")
            rows = source.sql(f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM ({query})").fetchall()
            with postgres.cursor().copy(f"COPY {name} FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
    postgres.execute("ALTER TABLE person ADD rounded timestamptz")
    postgres.execute("UPDATE person SET rounded = seen")
    yield postgres
    for name in ("person", "shift"):
        postgres.execute(f"DROP TABLE {name}")


def sent(connection: psycopg.Connection[Any], sql: str, form: int = 0) -> list[Any]:
    """The types and bytes of a result, its rows in an order that both servers share."""
    result = connection.pgconn.exec_params(sql.encode(), None, result_format=form)
    assert result.status == pq.ExecStatus.TUPLES_OK, (sql, result.error_message)
    width = range(result.nfields)
    rows = [[result.get_value(row, n) for n in width] for row in range(result.ntuples)]
    return [[result.ftype(n) for n in width], sorted(rows, key=str)]


def agree(house: Any, raw: psycopg.Connection[Any], zone: str, statements: list[str]) -> None:
    with house.connect() as connection:
        for one in (connection, raw):
            one.execute(f"SET timezone = '{zone}'".encode())
        try:
            for sql in statements:
                assert sent(connection, sql) == sent(raw, sql), (zone, sql)
        finally:
            raw.execute("SET timezone = 'UTC'")


KEYS = [
    "seen",
    "came",
    "seen::text",
    "seen::date",
    "came::timestamp",
    "came::time",
    "seen AT TIME ZONE 'Europe/Berlin'",
    "date_trunc('hour', seen)",
    "date_trunc('day', came)",
    "came + interval '1 day'",
]


@pytest.mark.parametrize("zone", ["Europe/Berlin", ST_JOHNS_TOO, UTC_TOO])
def test_groups_are_those_of_postgresql(
    house: Any, raw: psycopg.Connection[Any], zone: str
) -> None:
    agree(house, raw, zone, [f"SELECT {key} AS g, count(*) FROM person GROUP BY 1" for key in KEYS])


JOINED = [
    "SELECT shift, count(*) FROM person JOIN shift ON seen = begins GROUP BY shift",
    "SELECT begins, count(*) FROM person JOIN shift"
    " ON date_trunc('day', seen) = date_trunc('day', begins) GROUP BY begins",
    "SELECT shift, count(seen) FROM person JOIN shift"
    " ON seen >= begins AND seen < begins + interval '2 hours' WHERE k = 1 GROUP BY shift",
    "SELECT h, n FROM (SELECT date_trunc('day', seen) AS h, count(*) AS n FROM person GROUP BY 1)"
    " AS t WHERE h >= '2020-10-25' AND h < timestamptz '2020-10-26 00:00+00'",
    "SELECT d, sum(n) FROM (SELECT seen AS h, (seen + interval '1 day')::date AS d, count(*) AS n"
    " FROM person GROUP BY 1, 2) AS t WHERE h > '2020-10-25 02:15+02' GROUP BY d",
    "SELECT ((((h + interval '1 day')))) AS g, n FROM"
    " (SELECT date_trunc('hour', seen) AS h, count(*) AS n FROM person GROUP BY 1) AS t",
    "SELECT seen FROM person GROUP BY seen",
    "SELECT count(*) FROM person WHERE seen > (SELECT max(begins) FROM shift) - interval '9 hours'",
]


@pytest.mark.parametrize("zone", ["Europe/Berlin", ST_JOHNS_TOO, UTC_TOO])
def test_joins_and_queries_above_the_counts(
    house: Any, raw: psycopg.Connection[Any], zone: str
) -> None:
    agree(house, raw, zone, JOINED)


def test_both_hours_that_clocks_show_twice_are_sent(house: Any) -> None:
    with house.connect() as connection:
        connection.execute("SET timezone = 'Europe/Berlin'")
        sql = "SELECT seen::text AS t, seen AS s, count(*) FROM person WHERE seen::timestamp ="
        sql += " '2020-10-25 02:15' GROUP BY seen ORDER BY s"
        for binary in (False, True):
            rows = connection.execute(sql.encode(), binary=binary).fetchall()
            assert [row[0] for row in rows] == ["2020-10-25 02:15:00+02", "2020-10-25 02:15:00+01"]
            assert [row[1].astimezone(UTC).hour for row in rows] == [0, 1]


def test_two_sessions_with_two_zones_ask_the_same(house: Any, raw: psycopg.Connection[Any]) -> None:
    """Alternately, so that each finds what the other one left, also in prepared statements."""
    asked: list[tuple[str, list[Any]]] = [
        ("SELECT count(*) FROM person WHERE seen < '2020-10-25 02:30'", []),
        ("SELECT count(*) FROM person WHERE came < timestamp '2020-03-29 02:30'", []),
        ("SELECT extract(hour FROM seen), count(*) FROM person GROUP BY 1 ORDER BY 1", []),
        ("SELECT seen::date::text, count(*) FROM person GROUP BY 1 ORDER BY 1", []),
        ("SELECT count(*) FROM person WHERE seen < %s", [T(2020, 10, 25, 2, 30)]),
        ("SELECT count(*) FROM person WHERE seen < %s", ["2020-10-25 02:30"]),
        ("SELECT count(*) FROM person WHERE seen < %s", ["2020-10-25 02:30+02"]),
        ("SELECT count(*) FROM person WHERE seen = %s", [T(2020, 10, 25, 0, 30, tzinfo=UTC)]),
        ("SELECT count(*) FROM person WHERE seen IN (%s, %s)", 2 * [T(2020, 10, 25, 1)]),
    ]
    with house.connect() as one, house.connect() as other:
        sessions = {"Europe/Berlin": one, "Asia/Kolkata": other, "UTC": one}
        for again in (asked, asked[::3]):
            for zone, session in sessions.items():
                for connection in (session, raw):
                    connection.execute(f"SET timezone = '{zone}'".encode())
                for sql, values in again:
                    found = session.execute(sql.encode(), values, prepare=True).fetchall()
                    expected = raw.execute(sql.encode(), values, prepare=False).fetchall()
                    assert found == expected, (zone, sql, values)
    raw.execute("SET timezone = 'UTC'")


@pytest.mark.parametrize(
    ("zone", "constant", "nearest"),
    [
        (
            "UTC",
            "'2020-10-25 00:07'",
            "'2020-10-25 00:00:00+00:00' and '2020-10-25 00:15:00+00:00'",
        ),
        ("Asia/Kolkata", "'2020-10-25 00:07'", "'2020-10-25 00:00:00+05:30'"),
        ("Asia/Kolkata", "'2020-10-25 00:07+00'", "'2020-10-25 05:30:00+05:30'"),
        ("Europe/Berlin", "'2020-10-25 02:59:59+02'", "+02:00' and '2020-10-25 02:00:00+01:00'"),
        ("Europe/Berlin", "timestamp '2020-10-25 02:59:59'", "'2020-10-25 03:00:00+01:00'"),
        (
            "Asia/Kathmandu",
            "date '2020-10-25' + interval '1 second'",
            "'2020-10-25 00:00:00+05:45'",
        ),
    ],
)
def test_between_two_steps_the_nearest_are_named_or_rounded_to(
    house: Any, raw: psycopg.Connection[Any], zone: str, constant: str, nearest: str
) -> None:
    with house.connect() as connection:
        for one in (connection, raw):
            one.execute(f"SET timezone = '{zone}'".encode())
        before = house.remaining()
        with pytest.raises(psycopg.errors.InvalidParameterValue) as caught:
            connection.execute(f"SELECT count(*) FROM person WHERE seen < {constant}".encode())
        assert nearest in (caught.value.diag.message_hint or "")
        assert house.remaining() == before
        notices: list[str] = []
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
        sql = f"SELECT count(*) FROM person WHERE rounded < {constant}"
        assert sent(connection, sql) == sent(raw, sql)
        written = constant.count(" ") < 3  # one that is computed is rounded without a word
        assert any("between two steps" in notice for notice in notices) is written
    raw.execute("SET timezone = 'UTC'")


def test_the_type_and_the_ends_are_shown(house: Any) -> None:
    with house.connect() as connection:
        shown = connection.execute("SELECT attribute, type, domain FROM dp.attributes").fetchall()
        ends = "2020-10-24 18:00:00+00:00 to 2020-10-26 00:00:00+00:00 in steps of 15 minutes"
        assert shown[0] == ("seen", "TIMESTAMP WITH TIME ZONE", ends)
        described = connection.execute("SELECT seen, came FROM person GROUP BY seen, came LIMIT 0")
        assert [column.type_code for column in described.description or ()] == [1184, 1184]
