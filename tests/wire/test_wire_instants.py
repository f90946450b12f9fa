"""Timestamps with a time zone: the type and bytes that PostgreSQL sends, in the session's zone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import pq

ZONES = ["UTC", "Europe/Berlin", "America/St_Johns"]

SAME = [
    "SELECT now() = current_timestamp AS same, now()::date = current_date AS day",
    "SELECT '2020-06-01 12:00+02'::timestamptz AS a, timestamptz '2020-12-01 12:00' AS b",
    "SELECT timestamptz '2020-06-01 12:00' + interval '1 hour' AS a",
    "SELECT date_trunc('month', date '2020-06-05') AS a, date_trunc('day', "
    "timestamptz '2020-06-01 23:30+00') AS b, date_trunc('day', timestamp '2020-06-01 1:00') AS c",
    "SELECT to_timestamp(1e9) AS a, to_timestamp('2020-01-02', 'YYYY-MM-DD') AS b",
    "SELECT '2020-06-01 12:00+02'::timestamptz AT TIME ZONE 'America/New_York' AS a",
    "SELECT timestamp '2020-06-01 12:00' AT TIME ZONE 'America/New_York' AS a",
    "SELECT timestamp '2020-06-01 12:00' AT TIME ZONE 'UTC' AT TIME ZONE 'Asia/Tokyo' AS a",
    "SELECT date '2020-06-01' AT TIME ZONE 'Asia/Tokyo' AS a, "
    "'2020-06-01 12:00' AT TIME ZONE 'Asia/Tokyo' AS b",
    "SELECT * FROM (SELECT timestamptz '2020-06-01' AS a, 5 AS b) t ORDER BY a",
    "SELECT timestamptz '2020-06-01' AS a UNION ALL SELECT timestamptz '2021-06-01 00:00+00' "
    "ORDER BY a DESC",
    "WITH t AS (SELECT timestamptz '2020-06-01' AS a) SELECT max(a) AS a, count(*) AS n FROM t",
    "SELECT coalesce(NULL, timestamptz '2020-06-01') AS a, "
    "CASE WHEN true THEN timestamptz '2020-06-01' END AS b, NULL::timestamptz AS c",
    "SELECT timestamptz '2020-06-02' - timestamptz '2020-06-01' AS a, "
    "timestamptz '2020-06-02' > date '2020-06-01' AS b",
    # Where clocks are put forward and back.
    "SELECT timestamptz '2020-03-28 12:00' + interval '24 hours' AS a, "
    "timestamptz '2020-03-28 12:00' + interval '1 day' AS b, "
    "interval '1 month 2 hours' + timestamptz '2020-02-29 01:00' AS c",
    "SELECT timestamptz '2020-11-01 12:00' - interval '24 hours' AS a, "
    "timestamptz '2020-10-25 12:00' - interval '1 day 30 minutes' AS b",
    "SELECT timestamptz '2020-03-30' - timestamptz '2020-03-28' AS a, "
    "timestamptz '2020-11-02 12:00' - timestamptz '2020-10-24' AS b",
    "SELECT now() - interval '100 days' < now() AS a, now() - now() AS b, "
    "now() + interval '24 hours' - now() = interval '24 hours' AS c",
    "SELECT ((date '2020-03-08')::timestamptz + interval '24 hours') - interval '3 hours' AS a",
    "SELECT (date '2020-06-01')::timestamptz >= '2020-06-01 04:00+00' AS a",
    "SELECT date_trunc('day', date '2020-06-01') BETWEEN '2020-05-31 22:00+00' "
    "AND '2020-06-01 02:30+00' AS a",
    "SELECT (date '2020-06-01')::timestamptz IN ('2020-06-01 04:00+00', "
    "'2020-05-31 22:00+00') AS a",
]


@pytest.mark.parametrize("zone", ZONES)
def test_instants_are_sent_as_postgresql_sends_them(
    free_house: Any, postgres: psycopg.Connection[Any], zone: str
) -> None:
    with free_house.connect() as connection:
        for one in (connection, postgres):
            one.execute(f"SET timezone = '{zone}'".encode())
        for sql in SAME:
            for binary in (0, 1):
                assert _sent(connection, sql, binary) == _sent(postgres, sql, binary), sql
            copied = f"COPY ({sql}) TO STDOUT".encode()
            assert _copied(connection, copied) == _copied(postgres, copied), sql
    postgres.execute("SET timezone = 'UTC'")


def _sent(connection: psycopg.Connection[Any], sql: str, form: int) -> list[Any]:
    result = connection.pgconn.exec_params(sql.encode(), None, result_format=form)
    assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message
    width, height = range(result.nfields), range(result.ntuples)
    columns = [(result.fname(n), result.ftype(n)) for n in width]
    return [columns, [[result.get_value(row, n) for n in width] for row in height]]


def _copied(connection: psycopg.Connection[Any], sql: bytes) -> bytes:
    with connection.cursor().copy(sql) as copy:
        return b"".join(bytes(part) for part in copy)


def test_groups_of_a_protected_table_are_instants_too(serve: Callable[..., Any]) -> None:
    house = serve(3.0, {"moved": {"range": [dt.date(2020, 1, 1), dt.date(2021, 3, 31)]}})
    for sql in (
        "SELECT date_trunc('month', moved) AS m, count(*) FROM person GROUP BY 1 ORDER BY 1",
        "SELECT * FROM (SELECT date_trunc('month', moved) AS m, count(*) FROM person GROUP BY 1) t",
    ):
        with house.connect() as connection:
            cursor = connection.execute(sql.encode())
            assert [column.type_code for column in cursor.description or ()] == [1184, 20]
            rows = cursor.fetchall()
            assert {moment.tzinfo is not None for moment, _ in rows} == {True}
            assert {(moment.day, moment.hour) for moment, _ in rows} == {(1, 0)}


def test_a_zone_that_there_is_not_is_named(free_house: Any) -> None:
    with free_house.connect() as connection:
        with pytest.raises(psycopg.errors.InvalidParameterValue) as refused:
            connection.execute("SELECT now() AT TIME ZONE 'nowhere'")
        assert refused.value.diag.statement_position == "27"
