"""A timestamp declared by the day: each predicate means what it means on the raw rows, or is
refused. The oracles hold the timestamps; the rewriter knows their days.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from itertools import product
from typing import Any

import duckdb
import psycopg
import pytest

from tallyveil.errors import BinCut, TallyveilError
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.rewriter import Dialect
from tests.rewriter.world import World

FIRST = dt.date(2014, 9, 8)
DAYS = tuple(FIRST + dt.timedelta(days=n) for n in range(7))
TIMES = [
    dt.datetime.combine(day, time)
    for day in DAYS
    for time in (dt.time(), dt.time(0, 0, 0, 1), dt.time(14, 33, 6), dt.time(23, 59, 59, 999999))
]

LITERALS = (
    "'2014-09-11'",
    "'2014-09-11 00:00:00'",
    "'2014-09-11 14:33:06'",
    "'2014-09-11 23:59:59.999999'",
    "'2014-09-11 24:00:00'",
    "'2014-09-11 00:00:00+02'",
    "DATE '2014-09-11'",
    "TIMESTAMP '2014-09-11 00:00:00'",
    "TIMESTAMP '2014-09-11 14:33:06'",
    "CAST('2014-09-11 14:33:06' AS DATE)",
    "(DATE '2014-09-11' + INTERVAL '1 day')",
    "(TIMESTAMP '2014-09-11 12:00:00' - INTERVAL '12 hours')",
    "(TIMESTAMP '2014-09-11 12:00:00' + INTERVAL '1 minute')",
    "'2014-08-01 10:00:00'",
    "TIMESTAMP '2014-10-01 10:00:00'",
    "NULL",
)
OPERATORS = ("<", "<=", ">", ">=", "=", "<>", "IS DISTINCT FROM")
EDGES = {
    "'2014-09-11'", "'2014-09-11 00:00:00'", "DATE '2014-09-11'",
    "TIMESTAMP '2014-09-11 00:00:00'", "CAST('2014-09-11 14:33:06' AS DATE)",
    "(DATE '2014-09-11' + INTERVAL '1 day')",
    "(TIMESTAMP '2014-09-11 12:00:00' - INTERVAL '12 hours')",
}  # fmt: skip
ELSEWHERE = {"'2014-08-01 10:00:00'", "TIMESTAMP '2014-10-01 10:00:00'", "NULL"}

ANSWERED = (
    "CAST(ts AS DATE) <= DATE '2014-09-11'",
    "CAST(ts AS DATE) = '2014-09-11'",
    "date_trunc('day', ts) = TIMESTAMP '2014-09-11 00:00:00'",
    "date_trunc('day', ts) <= TIMESTAMP '2014-09-11 14:33:06'",
    "date_trunc('week', ts) = '2014-09-08'",
    "extract(day FROM ts) = 11",
    "extract(dow FROM ts) IN (1, 2)",
    "ts IS NOT NULL",
    "NOT ts >= '2014-09-11'",
    "ts >= '2014-09-10' AND ts < '2014-09-12'",
    "ts BETWEEN '2014-09-10' AND '2014-10-01 10:00:00'",
    "ts IN ('2014-10-01', '2014-08-01 10:00:00')",
    "'2014-09-11' > ts",
    "CASE WHEN ts < '2014-09-11' THEN 1 ELSE 0 END = 1",
)
REFUSED = (
    "ts BETWEEN '2014-09-10' AND '2014-09-11'",
    "ts BETWEEN '2014-09-10 10:00:00' AND '2014-10-01'",
    "ts IN ('2014-09-11', '2014-10-01')",
    "extract(hour FROM ts) = 14",
    "extract(minute FROM ts) = 33",
    "extract(epoch FROM ts) > 0",
    "date_trunc('hour', ts) = '2014-09-11 14:00:00'",
    "ts + INTERVAL '1 day' > '2014-09-11'",
    "ts - TIMESTAMP '2014-09-11 00:00:00' > INTERVAL '1 day'",
    "CAST(ts AS VARCHAR) LIKE '2014-09-11%'",
    "coalesce(ts, TIMESTAMP '2014-09-11 14:33:06') < '2014-09-11'",
    "ts = CAST(ts AS DATE)",
    "'2014-09-11' = ts",
    "CASE ts WHEN '2014-09-11' THEN 1 ELSE 0 END = 1",
)


def visits(truncates: str | None) -> Domain:
    attribute = Attribute("ts", "range", "DATE", (*DAYS, None), null_cell=7, truncates=truncates)
    return Domain("visit", (attribute, Attribute("kind", "values", "VARCHAR", ("a", "b"))))


RAW = [
    *((random.Random(14).choice(TIMES) if n % 3 else TIMES[n % len(TIMES)], "ab"[n % 2])
      for n in range(60)),
    (None, "a"),
]  # fmt: skip


@pytest.fixture(scope="module", params=["TIMESTAMP", "TIMESTAMP WITH TIME ZONE"])
def source(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def days(source: str) -> Iterator[World]:
    rows = [(None if t is None else t.date(), kind) for t, kind in RAW]
    made = World(rows, visits(source))
    yield made
    made.close()


@pytest.fixture(scope="module")
def raw(source: str) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE TABLE visit (ts {source}, kind VARCHAR)")
        connection.executemany("INSERT INTO visit VALUES (CAST(? AS TIMESTAMP), ?)", RAW)
        yield connection


@pytest.fixture(scope="module")
def postgres(source: str, postgres_connection: psycopg.Connection) -> Iterator[psycopg.Connection]:
    postgres_connection.execute("SET TimeZone = 'UTC'")
    postgres_connection.execute("DROP TABLE IF EXISTS visit")
    postgres_connection.execute(f"CREATE TABLE visit (ts {source}, kind text)")
    with postgres_connection.cursor().copy("COPY visit FROM STDIN") as copy:
        for row in RAW:
            copy.write_row(row)
    yield postgres_connection
    postgres_connection.execute("DROP TABLE visit")


def counted(predicate: str) -> str:
    return f"SELECT count(*) FROM visit WHERE {predicate}"


def ours(days: World, predicate: str, dialect: Dialect) -> int | None:
    """The exact answer, or None where it is refused as it should be."""
    try:
        (row,) = days.answer(counted(predicate), dialect)[1]
    except BinCut as error:
        if error.position is None or not error.hint:
            raise
        return None
    return int(row[0])


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_a_comparison_is_exact_or_refused(
    days: World,
    raw: duckdb.DuckDBPyConnection,
    postgres: psycopg.Connection,
    source: str,
    dialect: Dialect,
) -> None:
    """A quarter of the comparisons in each dialect, and others where the source has zones."""
    oracle: Any = raw if dialect == "duckdb" else postgres
    first = 2 * (dialect == "duckdb") + (source == "TIMESTAMP")
    for literal, operator in [*product(LITERALS, OPERATORS)][first::4]:
        predicate = f"ts {operator} {literal}"
        found = ours(days, predicate, dialect)
        if found is not None:
            assert (found,) == oracle.execute(counted(predicate)).fetchone(), predicate
        exact = literal in ELSEWHERE or (literal in EDGES and operator in ("<", ">="))
        local = "+02" in literal and source == "TIMESTAMP"  # both ignore the zone there
        ends = "24:00" in literal and dialect == "postgres"  # the next midnight
        exact = exact or ((local or ends) and operator in ("<", ">="))
        assert (found is not None) == exact, predicate


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_what_depends_on_the_date_alone_is_answered_and_nothing_else(
    days: World,
    raw: duckdb.DuckDBPyConnection,
    postgres: psycopg.Connection,
    dialect: Dialect,
) -> None:
    oracle: Any = raw if dialect == "duckdb" else postgres
    for predicate in ANSWERED:
        found = ours(days, predicate, dialect)
        assert found is not None, predicate
        assert (found,) == oracle.execute(counted(predicate)).fetchone(), predicate
    for predicate in REFUSED:
        with pytest.raises(TallyveilError):
            days.answer(counted(predicate), dialect)


def test_complements_add_up_to_the_table(days: World) -> None:
    total = len(RAW) - 1
    for below, above in (("<", ">="), ("<=", ">"), ("=", "<>")):
        for literal in LITERALS[:-1:2]:
            one = ours(days, f"ts {below} {literal}", "postgres")
            other = ours(days, f"ts {above} {literal}", "postgres")
            assert (one is None) == (other is None), literal
            assert one is None or other is None or one + other == total, literal


def test_a_cut_is_seen_through_views_subqueries_and_unions(days: World) -> None:
    inner = "SELECT ts AS seen FROM visit"
    for sql in (
        f"SELECT count(*) FROM ({inner}) AS v WHERE seen <= '2014-09-11'",
        f"WITH v AS ({inner}) SELECT count(*) FILTER (WHERE seen = '2014-09-11') FROM v",
        f"SELECT count(*) FROM ({inner} UNION ALL {inner}) AS v WHERE seen > '2014-09-11'",
        "SELECT count(*) FROM (SELECT 1 FROM visit WHERE ts <= '2014-09-11') AS v",
        "SELECT sum(CASE WHEN ts <= '2014-09-11' THEN 1 ELSE 0 END) FROM visit",
    ):
        with pytest.raises(BinCut) as caught:
            days.answer(sql)
        assert "2014-09-11" in caught.value.message, sql


def test_the_refusal_names_the_day_the_place_and_what_to_write(days: World) -> None:
    sql = counted("kind = 'a' AND ts <= '2014-09-11 14:33:06'")
    with pytest.raises(BinCut) as caught:
        days.answer(sql)
    error = caught.value
    assert error.sqlstate == "22023"
    assert error.position == sql.index("'2014") + 1
    assert "2014-09-11" in error.message
    assert error.hint == (
        "Write ts < DATE '2014-09-12' with the day, or ts < DATE '2014-09-11' without it."
    )


def test_a_parameter_beside_a_timestamp_keeps_its_time(days: World) -> None:
    sql = counted("ts < $1")
    assert days.rewriter.parameter_types(sql, "postgres")[0].startswith("TIMESTAMP")
    types = days.rewriter.parameter_types(sql, "postgres")
    with pytest.raises(BinCut):
        days.plan(sql, types=types, values=[dt.datetime(2014, 9, 11, 14, 33, 6)])
    days.plan(sql, types=types, values=[dt.datetime(2014, 9, 11)])


def test_days_in_the_source_compare_with_timestamps() -> None:
    rows = [(None if t is None else t.date(), kind) for t, kind in RAW]
    world = World(rows, visits(None))
    try:
        with duckdb.connect() as raw:
            world.create(raw)
            for literal, operator in [*product(LITERALS, OPERATORS)][::2]:
                sql = counted(f"ts {operator} {literal}")
                assert world.answer(sql, "duckdb")[1] == raw.execute(sql).fetchall(), sql
    finally:
        world.close()


def test_text_in_the_source_counts_as_days() -> None:
    """Nobody knows whether it holds times, so that a time of day is refused."""
    rows = [(None if t is None else t.date(), kind) for t, kind in RAW]
    world = World(rows, visits("VARCHAR"))
    try:
        for predicate in ("ts <= '2014-09-11'", "ts = DATE '2014-09-11'", "ts + 1 > '2014-09-11'"):
            assert ours(world, predicate, "postgres") is not None
        for predicate in ("ts <= '2014-09-11 14:33:06'", "ts > TIMESTAMP '2014-09-11 00:00:01'"):
            assert ours(world, predicate, "postgres") is None
        assert ours(world, "extract(hour FROM ts) = 14", "duckdb") is None
    finally:
        world.close()


def test_days_in_utc_are_not_asked_in_another_time_zone(days: World, source: str) -> None:
    days.cursor.use_time_zone("Europe/Paris")
    try:
        for predicate in ("ts < '2014-09-11'", "CAST(ts AS DATE) = '2014-09-11'"):
            refused = ours(days, predicate, "postgres") is None
            assert refused == (source == "TIMESTAMP WITH TIME ZONE"), predicate
        assert ours(days, "ts IS NOT NULL", "postgres") == len(RAW) - 1
    finally:
        days.cursor.use_time_zone("UTC")
