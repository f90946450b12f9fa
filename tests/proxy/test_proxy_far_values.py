"""Every value that DuckDB answers with has a text and a binary form, the same as PostgreSQL's."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import pq
from psycopg.adapt import Transformer

from tallyveil.errors import DatetimeFieldOverflow
from tallyveil.interval import Interval
from tallyveil.proxy.pgtypes import PgType, from_duckdb
from tallyveil.rewriter import PublicDatabase

ZONES = ["UTC", "Asia/Kolkata", "America/New_York"]

VALUES = [
    "DATE '2024-02-29'", "DATE '9999-12-31'",
    "make_date(1, 1, 1)", "[NULL, DATE '2020-02-29']",
    "TIMESTAMP '2024-02-29 12:30:00.12'", "TIMESTAMP '9999-12-31 23:59:59.999999'",
    "[TIMESTAMP '0001-01-01 00:00:00', NULL]",
    "TIMESTAMPTZ '2024-02-29 12:30:00.12+00'", "TIMESTAMPTZ '0300-02-03 00:00:00+00'",
    "TIMESTAMPTZ '1850-01-01 00:00:00+00'",
    "[TIMESTAMPTZ '2024-07-01 00:00:00+00', NULL]", "TIME '00:00:00'", "TIME '24:00:00'",
    "TIME '23:59:59.999999'", "[TIME '24:00:00']",
    "INTERVAL '1 month 2 days'",
    "INTERVAL '-14 months 3 days -4 hours'", "INTERVAL 0 DAY", "INTERVAL '1 month' * 1000000",
    "INTERVAL '1 day' * 2147483647", "INTERVAL '-1 microsecond'", "INTERVAL '1 hour' * 2000000000",
    "INTERVAL '1 hour' * -2000000000", "[INTERVAL '1 month', NULL]", "INTERVAL '-1 month 1 day'",
    "INTERVAL '1 year -1 month'", "INTERVAL '-1 day' + INTERVAL '1 second'",
    "(-170141183460469231731687303715884105728)::HUGEINT",
    "340282366920938463463374607431768211455::UHUGEINT",
    "99999999999999999999999999999999999999::DECIMAL(38,0)",
    "0.00000000000000000000000000000000000001::DECIMAL(38,38)", "18446744073709551615::UBIGINT",
    "(-128)::TINYINT", "255::UTINYINT", "'-0.0'::DOUBLE", "'nan'::DOUBLE", "'-inf'::DOUBLE",
    "1.7976931348623157e308", "5e-324", "'inf'::FLOAT", "1.17549435e-38::FLOAT", "uuid() = NULL",
    "[1.5::DECIMAL(4,2)]", "NULL", "[]::VARCHAR[]", "''",
]  # fmt: skip


@pytest.fixture(scope="module")
def cursor() -> Iterator[Any]:
    database = PublicDatabase([])
    cursor = database.cursor()
    yield cursor
    cursor.close()
    database.close()


def _rows(cursor: Any, sql: str, kinds: list[str]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    count = cursor.values(sql, kinds, rows.extend)
    assert count == len(rows)
    return rows


def _answer(cursor: Any, expression: str) -> tuple[PgType, Any]:
    sql = f"SELECT {expression} AS x"
    (kind,) = (kind for _, kind in cursor.describe(sql))
    ((value,),) = _rows(cursor, sql, [kind])
    return from_duckdb(kind).type, value


def _is_postgresqls(postgres: psycopg.Connection[Any], kind: PgType, value: Any) -> None:
    """Both forms are what PostgreSQL makes of either."""
    text, binary = kind.encode_text(value), kind.encode_binary(value)
    for given_as, data in enumerate((text, binary)):
        for wanted, ours in enumerate((text, binary)):
            result = postgres.pgconn.exec_params(
                b"SELECT $1", [data], [kind.oid], [given_as], wanted
            )
            assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message
            assert result.get_value(0, 0) == ours, (value, given_as, wanted)


@pytest.mark.parametrize("zone", ZONES)
def test_far_values_are_postgresqls(
    cursor: Any, postgres: psycopg.Connection[Any], zone: str
) -> None:
    cursor.use_time_zone(zone)
    postgres.execute(f"SET TimeZone = '{zone}'".encode())
    for expression in VALUES:
        if zone == "UTC" or "TIMESTAMPTZ" in expression:
            kind, value = _answer(cursor, expression)
            if value is not None:
                _is_postgresqls(postgres, kind, value)
                _psycopg_loads(kind, value)
    cursor.use_time_zone("UTC")


def _psycopg_loads(kind: PgType, value: Any) -> None:
    """psycopg reads both forms alike, or says that Python has no such value."""
    loaded = []
    for code in (0, 1):
        loader = Transformer(None).get_loader(kind.oid, pq.Format(code))
        try:
            loaded.append(repr(loader.load(kind.encoder(code)(value))))
        except psycopg.DataError as error:
            loaded.append(type(error).__name__)
    assert loaded[0] == loaded[1] or kind.name in ("interval", "real", "timestamp with time zone")


@given(
    st.integers(-(2**31) + 1, 2**31 - 1),
    st.integers(-(2**31) + 1, 2**31 - 1),
    st.integers(-(2**62), 2**62),
)
@settings(max_examples=60)
def test_any_interval(
    cursor: Any, postgres: psycopg.Connection[Any], months: int, days: int, micros: int
) -> None:
    kind, value = _answer(
        cursor, f"to_months({months}) + to_days({days}) + to_microseconds({micros})"
    )
    assert value == Interval(months, days, micros)
    postgres.execute("SET TimeZone = 'UTC'")
    _is_postgresqls(postgres, kind, value)


@given(st.integers(-730_119, 2_921_939), st.integers(0, 86_399_999_999))
@settings(max_examples=60)
def test_any_date_and_moment(
    cursor: Any, postgres: psycopg.Connection[Any], day: int, micros: int
) -> None:
    postgres.execute("SET TimeZone = 'UTC'")
    kind, value = _answer(cursor, f"DATE '2000-01-01' + {day}")
    _is_postgresqls(postgres, kind, value)
    moment = f"TIMESTAMP '2000-01-01' + to_days({day}) + to_microseconds({micros})"
    for expression in (moment, f"timezone('UTC', {moment})"):
        kind, value = _answer(cursor, expression)
        _is_postgresqls(postgres, kind, value)


@pytest.mark.parametrize(
    "expression",
    [
        "make_date(0, 12, 31)",
        "DATE '10000-01-01'",
        "TIMESTAMP '294246-12-31 00:00:00'",
        "[DATE '-infinity']",
        "TIMESTAMP 'infinity'",
    ],
)
def test_what_is_not_supported_is_an_error_before_it_is_sent(cursor: Any, expression: str) -> None:
    with pytest.raises(DatetimeFieldOverflow):
        _answer(cursor, expression)


def test_rows_keep_their_order(cursor: Any) -> None:
    sql = "SELECT DATE '2020-01-01' + i::INTEGER AS d, i FROM range(5000) t(i) ORDER BY i DESC"
    rows = _rows(cursor, sql, ["DATE", "BIGINT"])
    assert [i for _, i in rows] == list(range(4999, -1, -1))
    assert rows[-1] == (dt.date(2020, 1, 1), 0)
    assert _rows(cursor, f"{sql} LIMIT 0", ["DATE", "BIGINT"]) == []
