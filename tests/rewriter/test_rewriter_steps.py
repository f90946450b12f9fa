"""Times and numbers in steps: statements mean on the steps what both databases answer on the
records rounded to them, or are refused. The oracles hold the rounded records.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import psycopg
import pytest

from tallyveil.errors import BinCut, TallyveilError
from tallyveil.policy import parse_policy
from tallyveil.rewriter import Dialect
from tests.pairs import one_in
from tests.rewriter.world import World, normal

T = dt.datetime
FIRST = T(2026, 2, 27)
ATTRIBUTES: dict[str, Any] = {
    "t": {"range": [FIRST, T(2026, 3, 1, 23, 40)], "step": "20 minutes", "nullable": True},
    "clock": {"range": [dt.time(6), dt.time(20, 30)], "step": "30 minutes", "nullable": True},
    "price": {"range": [-1, 10], "step": Decimal("0.05"), "nullable": True},
    "fare": {"range": [0, 100], "step": 5},
    "kind": {"values": ["a", "b"]},
}


def world_of(attributes: dict[str, Any], rows: list[Any]) -> World:
    table = {"budget": {"epsilon": 1.0}, "attributes": attributes}
    return World(rows, parse_policy({"tables": {"visit": table}}).tables["visit"].domain)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    # Every cell is in use, since a group without records is a row of ours alone.
    own = [
        random.Random(26).sample(a.cells, a.size)
        for a in world_of(ATTRIBUTES, []).domain.attributes
    ]
    rows = [tuple(cells[n % len(cells)] for cells in own) for n in range(260)]
    made = world_of(ATTRIBUTES, rows)
    yield made
    made.close()


@pytest.fixture(scope="module")
def raw(world: World) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        world.create(connection)
        yield connection


@pytest.fixture(scope="module")
def postgres(world: World, postgres_connection: psycopg.Connection) -> Iterator[Any]:
    columns = ", ".join(f"{a.name} {a.sql_type}" for a in world.domain.attributes)
    postgres_connection.execute("DROP TABLE IF EXISTS visit")
    postgres_connection.execute(f"CREATE TABLE visit ({columns})")
    with postgres_connection.cursor().copy("COPY visit FROM STDIN") as copy:
        for row in world.rows:
            copy.write_row(row)
    yield postgres_connection
    postgres_connection.execute("DROP TABLE visit")


BOTH = (
    "SELECT extract(hour FROM t) AS h, count(*) FROM visit GROUP BY h",
    "SELECT extract(minute FROM t), extract(dow FROM t), count(*) FROM visit GROUP BY 1, 2",
    "SELECT extract(isodow FROM t), count(price) FROM visit WHERE kind = 'a' GROUP BY 1",
    "SELECT date_trunc('hour', t) AS h, sum(price) FROM visit GROUP BY h",
    "SELECT date_trunc('month', t) AS m, avg(price) FROM visit GROUP BY m",
    "SELECT CAST(t AS date) AS d, count(*) FROM visit GROUP BY d",
    "SELECT CAST(t AS time) AS c, count(*) FROM visit GROUP BY c",
    "SELECT count(*) FROM visit WHERE t >= '2026-02-28' AND t < '2026-03-01'",
    "SELECT count(*) FROM visit WHERE t BETWEEN '2026-02-28 10:20:00' AND '2026-02-28 23:40:00'",
    "SELECT count(*) FROM visit WHERE t = TIMESTAMP '2026-02-28 10:20:00' OR t IS NULL",
    "SELECT count(*) FROM visit WHERE t > DATE '2026-02-28' - INTERVAL '40 minutes'",
    "SELECT count(*) FROM visit WHERE t < '2031-01-01 00:07:00' AND t > '2001-01-01 00:07:00'",
    "SELECT count(*) FROM visit WHERE t + INTERVAL '7 minutes' < '2026-02-28 00:07:00'",
    "SELECT count(*) FROM visit WHERE t - TIMESTAMP '2026-02-27 00:00:00' > INTERVAL '3 hours'",
    "SELECT count(*) FROM visit WHERE CAST(t AS time) < '10:00' AND extract(dow FROM t) = 6",
    "SELECT count(*) FROM visit WHERE clock >= '08:30' AND clock < '10:00:00'",
    "SELECT clock, count(*) FROM visit GROUP BY clock",
    "SELECT extract(hour FROM clock), sum(fare) FROM visit GROUP BY 1",
    "SELECT price, count(*) FROM visit GROUP BY price",
    "SELECT sum(price), count(price), sum(price * fare), sum(price - 0.01) FROM visit",
    "SELECT kind, avg(price), sum(price) FILTER (WHERE price > 2.5) FROM visit GROUP BY kind",
    "SELECT kind, variance(price) FROM visit GROUP BY kind",
    "SELECT count(*) FROM visit WHERE price BETWEEN 0.05 AND 3.35 AND fare <= 45",
    "SELECT count(*) FROM visit WHERE price IN (0.10, 0.35, 9.9, 99.99) OR price < -0.5",
    "SELECT count(*) FROM visit WHERE price * 2 > 3.33 AND abs(price) < 9.999",
    "SELECT floor(price / 2) * 2 AS b, count(*) FROM visit GROUP BY b",
    "SELECT round(price, 1) AS b, count(*) FROM visit GROUP BY b",
    "SELECT trunc(price) AS b, sum(fare) FROM visit GROUP BY b",
    "SELECT CASE WHEN price < 1 THEN 'low' WHEN price < 5 THEN 'mid' END AS b, sum(price)"
    " FROM visit GROUP BY b",
    "SELECT sum(CASE WHEN price > 5 THEN price ELSE 0 END) FROM visit WHERE t < '2026-03-01'",
    "SELECT h, s FROM (SELECT extract(hour FROM t) AS h, sum(price) AS s FROM visit GROUP BY 1)"
    " AS q WHERE s > 20",
    "SELECT fare, count(*) FROM visit WHERE fare < 25 OR fare = 95 GROUP BY fare",
)
POSTGRES = (
    "SELECT date_bin('6 hours', t, TIMESTAMP '2026-01-01 03:00:00') AS b, count(*) FROM visit"
    " GROUP BY b",
    "SELECT date_bin(INTERVAL '1 day', t, TIMESTAMP '2030-01-01'), sum(price) FROM visit"
    " GROUP BY 1",
    "SELECT to_char(t, 'YYYY-MM-DD HH24:MI') AS b, count(*) FROM visit GROUP BY b",
    "SELECT count(*) FROM visit WHERE t::date = '2026-02-28' AND t::time >= '12:00'::time",
    "SELECT count(*) FROM visit WHERE t < '2026-02-28 12:00+00'::timestamptz",
    "SELECT count(*) FROM visit WHERE date_part('hour', t) IN (1, 2, 3)",
    "SELECT floor(price / 0.1), count(*) FROM visit GROUP BY 1",
    "SELECT price::numeric(10, 1), price::int, count(*) FROM visit GROUP BY 1, 2",
)
DUCKDB = (
    "SELECT time_bucket(INTERVAL '6 hours', t) AS b, count(*) FROM visit GROUP BY b",
    "SELECT strftime(t, '%H:%M') AS b, count(*) FROM visit GROUP BY b",
    "SELECT hour(t), dayofweek(t), count(*) FROM visit GROUP BY ALL",
)


@pytest.mark.parametrize("sql", one_in(2, [*BOTH, *POSTGRES], first=1))
def test_a_statement_means_what_postgresql_answers(world: World, postgres: Any, sql: str) -> None:
    postgres.execute("SET TimeZone = 'UTC'")
    assert normal(world.answer(sql)[1]) == normal(postgres.execute(sql).fetchall())


@pytest.mark.parametrize("sql", one_in(2, [*BOTH, *DUCKDB]))
def test_a_statement_means_what_duckdb_answers(
    world: World, raw: duckdb.DuckDBPyConnection, sql: str
) -> None:
    assert normal(world.answer(sql, "duckdb")[1]) == normal(raw.execute(sql).fetchall())


CUT = {
    "t < '2026-02-28 10:07:00'": "'2026-02-28 10:00:00' and '2026-02-28 10:20:00'",
    "t <= '2026-03-01 23:59:59.999'": "'2026-03-01 23:40:00' and '2026-03-02 00:00:00'",
    "t = TIMESTAMP '2026-02-28 00:00:00.000001'": "'2026-02-28 00:00:00' and",
    "t BETWEEN '2026-02-28' AND DATE '2026-03-01' + INTERVAL '1 second'": "'2026-03-01 00:00:00'",
    "'2026-02-28 00:01' > t": "'2026-02-28 00:00:00'",
    "clock < '08:15'": "'08:00:00' and '08:30:00'",
    "price < 0.333": "0.30 and 0.35",
    "price IN (0.05, -0.01)": "-0.05 and 0.00",
    "price = 9.99": "9.95 and 10.00",
    "price >= 1 / 3.0": "0.30 and 0.35",
    "price > '0.01'": "0.00 and 0.05",
    "fare > 7": "5 and 10",
    "fare <= 12.5": "10 and 15",
}


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
@pytest.mark.parametrize("predicate", CUT)
def test_between_two_steps_the_nearest_are_named(
    world: World, predicate: str, dialect: Dialect
) -> None:
    with pytest.raises(BinCut) as caught:
        world.plan(f"SELECT count(*) FROM visit WHERE {predicate}", dialect)
    assert CUT[predicate] in (caught.value.hint or "")
    assert caught.value.position is not None


ROUNDED = (
    "t < '2026-02-28 10:07:00'",
    "t <= '2026-03-01 23:59:59.999'",
    "t >= '2026-02-28 00:00:00.000001' AND clock < '08:15'",
    "price < 0.333 OR price > 9.99",
    "fare BETWEEN 7 AND 12.5",
)


def test_where_the_policy_rounds_the_steps_are_compared_with_a_notice(
    world: World, raw: duckdb.DuckDBPyConnection, postgres: Any
) -> None:
    rounding = {n: a | {"round": True} if "step" in a else a for n, a in ATTRIBUTES.items()}
    made = world_of(rounding, world.rows)
    for predicate in ROUNDED:
        sql = f"SELECT count(*) FROM visit WHERE {predicate}"
        for dialect, oracle in (("duckdb", raw), ("postgres", postgres)):
            plan = made.plan(sql, dialect)
            assert any("between two steps" in caution.message for caution in plan.cautions)
            assert made.answer(sql, dialect)[1] == oracle.execute(sql).fetchall(), (sql, dialect)
    assert not made.plan("SELECT count(*) FROM visit WHERE fare < 10").cautions
    with pytest.raises(BinCut, match="text that stands for a number"):
        made.plan("SELECT count(*) FROM visit WHERE price < '0.333'")
    made.close()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("clock < '10:00 PM'", "invalid input syntax for type time"),
        ("clock < '25:00'", "date/time field value out of range"),
        ("t::time < '7:30'::time", "invalid input syntax for type time"),
        ("extract(dow FROM clock) = 1", "of a time is not answered"),
        ("date_bin('1 month', t, TIMESTAMP '2001-01-01') < t", "stride"),
        ("date_bin('1 hour', t::date, TIMESTAMP '2001-01-01') < t", "timestamps"),
        ("price < 'a'", "."),
    ],
)
def test_what_is_not_answered_says_why(world: World, sql: str, message: str) -> None:
    with pytest.raises(TallyveilError, match=message):
        world.answer(f"SELECT count(*) FROM visit WHERE {sql}")
