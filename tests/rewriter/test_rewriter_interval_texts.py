"""Intervals in statements: PostgreSQL's reading, or a refusal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tallyveil.errors import InvalidDatetimeFormat
from tallyveil.interval import Interval
from tallyveil.rewriter import PublicDatabase, parse_query

TEXTS = [
    "1 day", "1 month 2 days", "-1 day", "+1 day", "1 mon", "2 mons", "1 yr", "3 hrs", "90 min",
    "5 secs", "1 week", "1.5 days", "1.5 hours", "1 day 02:03:04.5", "-1 day -02:03", "12:30",
    "-00:00:01", "1 d 2 h", "1 year -1 month", "10 ms", "7 us", "1 decade", "2 centuries",
    "1 millennium", " 1  day ", "1day", "1 day ago", "@ 1 day", "- 1 day", "1 banana",
    "1 day 1 banana", "1 day 2", "day", "", "P1D", "P1Y2M3D", "1-2", "1 day, 2 hours",
    "1 day foo 2 hours", "one day", "1 2 days", "1 month 2 days x",
]  # fmt: skip


@pytest.fixture(scope="module")
def cursor() -> Iterator[Any]:
    database = PublicDatabase([])
    cursor = database.cursor()
    yield cursor
    cursor.close()
    database.close()


@pytest.mark.parametrize("text", TEXTS)
def test_an_interval_is_postgresqls_or_refused(
    cursor: Any, postgres: psycopg.Connection[Any], text: str
) -> None:
    try:
        tree = parse_query(f"SELECT INTERVAL '{text}' AS x", "postgres")
    except InvalidDatetimeFormat:
        return
    rows: list[tuple[Interval]] = []
    cursor.values(tree.sql("duckdb"), ["INTERVAL"], rows.extend)
    row = postgres.execute(f"SELECT (INTERVAL '{text}')::text".encode()).fetchone()
    assert row == (str(rows[0][0]),)


@pytest.mark.parametrize("text", TEXTS)
def test_an_interval_as_a_parameter_is_postgresqls_or_refused(
    postgres: psycopg.Connection[Any], text: str
) -> None:
    try:
        found = Interval.parse(text)
    except ValueError:
        return
    row = postgres.execute(f"SELECT (INTERVAL '{text}')::text".encode()).fetchone()
    assert row == (str(found),)


def test_an_interval_that_is_not_understood_is_pointed_at() -> None:
    with pytest.raises(InvalidDatetimeFormat) as caught:
        parse_query("SELECT INTERVAL '1 day ago'", "postgres")
    assert caught.value.position == len("SELECT INTERVAL '")


def test_a_unit_may_follow_as_a_word() -> None:
    tree = parse_query("SELECT INTERVAL '3' DAY + INTERVAL 2 HOUR", "duckdb")
    assert tree.sql("duckdb") == "SELECT INTERVAL '3' DAY + INTERVAL '2' HOUR"
