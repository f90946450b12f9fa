"""Plain SQL that dashboards write, beside the statements in ``fixtures/statements.sql``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import duckdb
import psycopg
import pytest

from tallyveil.errors import (
    FeatureNotSupported,
    InvalidTextRepresentation,
    NumericValueOutOfRange,
    SQLSyntaxError,
    TallyveilError,
    UndefinedColumn,
    UndefinedObject,
)
from tests.rewriter.listed import listed
from tests.rewriter.oracles import PostgresOracle, agree
from tests.rewriter.world import World

# Beyond 2⁵³ double precision does not tell neighbours apart.
EXPONENTS = """
9007199254740993 in (1e30, 9007199254740992)
9007199254740993 = 9007199254740992e0
9007199254740993 not between -1e30 and 9.007199254740992e15
9007199254740993 < 900719925474099325e-2
9007199254740993 is distinct from -(-9007199254740993E+0)
case 9007199254740993 when 1e1 then 1 else 2 end = 2e0
1e300 > 9007199254740993
"""


def test_exists_needs_no_list(world: World) -> None:
    """Over a protected table it stays refused, for what it is."""
    with pytest.raises(FeatureNotSupported):
        world.plan("select count(*) from person where exists (select from person)")
    sql = "select count(*) from person where exists (select from (values (1)) v(x) where x = age)"
    assert world.answer(sql)[1] == world.answer("select count(*) from person where age = 1")[1]


def test_the_width_of_an_answer_may_be_computed_beside_it(world: World) -> None:
    (row,) = world.answer("select count(*) n, dp_interval_high(n) - n from person")[1]
    assert row == (400, 0)
    sql = "select sex, count(*) n, (dp_interval_high(n) - dp_interval_low(n)) / 2 from person"
    assert {r[2] for r in world.answer(f"{sql} group by sex")[1]} == {0}
    with pytest.raises(UndefinedColumn):
        world.plan("select count(*) n, n + 1 from person")


@pytest.mark.parametrize(
    ("sql", "error", "word"),
    [
        ("select count(*) from person where \"State\" = 'AL'", UndefinedColumn, '"State"'),
        ("select count(*) over w from person group by sex", UndefinedObject, "w"),
        ("select count(*), rank() over v from person window w as ()", UndefinedObject, "v from"),
        (
            "select rank() over x from person window x as (), x as (order by 1)",
            SQLSyntaxError,
            "x as (order",
        ),
        (
            "select count(*), rank() over (w order by 1) from person window w as (order by 2)",
            SQLSyntaxError,
            "w order",
        ),
        ("select count(*) from person where born < to_date('x', 'YYYY')", None, "'x'"),
        ("select count(*) from person where born < to_date(state, 'YYYY')", None, "to_date"),
        ("select count(*) from person where born < to_date('1', 'Q')", None, "to_date"),
        ("select count(*) from person where born < to_timestamp(1e300)", None, "to_timestamp"),
        ("select count(*) from person where born at time zone state > now()", None, "state >"),
    ],
)
def test_what_stays_refused_says_where(
    world: World, sql: str, error: type[TallyveilError] | None, word: str
) -> None:
    some = (FeatureNotSupported, InvalidTextRepresentation, NumericValueOutOfRange)
    with pytest.raises(error or some) as caught:
        world.plan(sql)
    assert caught.value.position == sql.index(word) + 1


def test_an_instant_has_its_zone_in_duckdbs_dialect(world: World) -> None:
    sql = "select timestamptz '2020-06-02 12:30+02', date_trunc('month', date '2020-06-02'), "
    sql += "(timestamptz '2020-06-02 12:30:01.5')::varchar, to_timestamp(0)::text"
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        relation = database.sql(sql)
        kinds = [str(kind) for kind in relation.types]
        texts = relation.project("#3, #4").fetchall()
    columns, rows = world.answer(sql, "duckdb")
    assert [kind for _, kind in columns] == kinds
    assert [row[2:] for row in rows] == texts


def test_a_statement_has_one_time(world: World) -> None:
    now = dt.datetime(2020, 1, 3, 23, 59, 59, 5)
    sql = "select count(*) from person where born = current_date and now() = current_timestamp"
    asked = world.plan(sql, now=now).workloads["person"].columns[0]
    meant = world.plan("select count(*) from person where born = date '2020-01-03'")
    assert asked.row_keys == meant.workloads["person"].columns[0].row_keys
    columns, rows = world.answer("select now(), current_date, localtimestamp", now=now)
    assert rows == [(now.replace(tzinfo=dt.UTC), now.date(), now)]
    assert [name for name, _ in columns] == ["now", "current_date", "localtimestamp"]


def test_a_day_asked_twice_is_the_same_question(world: World) -> None:
    sql = "select count(*) from person where born >= date_trunc('day', now()) - interval '9 days'"
    morning = world.plan(sql, now=dt.datetime(2020, 1, 12, 8)).workloads["person"].columns[0]
    evening = world.plan(sql, now=dt.datetime(2020, 1, 12, 20)).workloads["person"].columns[0]
    tomorrow = world.plan(sql, now=dt.datetime(2020, 1, 13, 8)).workloads["person"].columns[0]
    assert morning.row_keys == evening.row_keys
    assert morning.row_keys != tomorrow.row_keys


@pytest.fixture
def named(postgres_connection: psycopg.Connection) -> Callable[[str], list[str]]:
    def names(sql: str) -> list[str]:
        return [column.name for column in postgres_connection.execute(sql).description or ()]

    return names


def test_columns_of_times_are_called_as_in_postgresql(
    world: World, named: Callable[[str], list[str]]
) -> None:
    sql = (
        "select now(), current_date, current_timestamp, now()::date, current_date - 1, "
        "to_date('2020', 'YYYY'), to_timestamp(0), now() at time zone 'UTC', date(now())"
    )
    assert [name for name, _ in world.answer(sql)[0]] == named(sql)


@pytest.mark.parametrize("zone", ["Europe/Paris", "America/New_York"])
def test_a_time_with_a_zone_is_compared_in_the_session_s(
    world: World,
    postgres_connection: psycopg.Connection,
    postgres_oracle: PostgresOracle,
    zone: str,
) -> None:
    world.cursor.use_time_zone(zone)
    postgres_connection.execute(f"SET TimeZone = '{zone}'")
    try:
        for literal in ("2020-01-02 00:00:00+00", "2020-01-01 23:00:00+00", "2020-01-02 05:00:00Z"):
            for operator in ("<", "<=", "="):
                sql = f"select count(*) from person where born {operator} timestamptz '{literal}'"
                assert agree(world, postgres_oracle, sql, ordered=False)
        for sql in listed("statements.sql", "answered", "postgres"):
            if "timestamp" in sql and "at time zone" not in sql:
                assert agree(world, postgres_oracle, sql, ordered=False)
    finally:
        world.cursor.use_time_zone("UTC")
        postgres_connection.execute("SET TimeZone = 'UTC'")


@pytest.mark.parametrize("condition", EXPONENTS.strip().splitlines())
def test_a_number_with_an_exponent_is_compared_exactly(
    world: World, postgres_connection: psycopg.Connection, condition: str
) -> None:
    sql = f"select {condition} as x"
    assert world.answer(sql)[1] == postgres_connection.execute(sql.encode()).fetchall()


@pytest.mark.parametrize(
    "instant", ["timestamptz '2020-07-01 00:00'", "timestamp '2020-07-01'", "to_timestamp(7)"]
)
def test_seconds_since_1970_of_a_time_with_a_zone_are_those_of_its_zone(
    world: World, postgres_connection: psycopg.Connection, instant: str
) -> None:
    sql = f"select extract(epoch from t) from (select {instant} as t) s"
    world.cursor.use_time_zone("Europe/Paris")
    postgres_connection.execute("SET TimeZone = 'Europe/Paris'")
    try:
        assert world.answer(sql)[1] == postgres_connection.execute(sql).fetchall()
    finally:
        world.cursor.use_time_zone("UTC")
        postgres_connection.execute("SET TimeZone = 'UTC'")


def test_a_number_with_too_few_digits_is_said_in_postgresqls_words(world: World) -> None:
    with pytest.raises(NumericValueOutOfRange, match="numeric field overflow") as caught:
        world.answer("select count(*)::numeric(1, 0) from person")
    assert caught.value.hint == "The type numeric(1,0) has too few digits for the value."
