"""Conditions and CASE over several attributes count what DuckDB counts on the raw rows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product

import duckdb
import pytest

from tallyveil.policy.domain import Attribute, Domain
from tests.pairs import one_in
from tests.rewriter.listed import statements
from tests.rewriter.world import World, normal

ANSWERED, _ = statements("conditions.sql")


def raw_rows(world: World) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        world.create(connection)
        yield connection


@pytest.fixture(scope="module")
def raw(world: World) -> Iterator[duckdb.DuckDBPyConnection]:
    yield from raw_rows(world)


@pytest.mark.parametrize("sql", ANSWERED)
def test_conditions_over_several_attributes(
    world: World, raw: duckdb.DuckDBPyConnection, sql: str
) -> None:
    """Groups without records are answered too, and sums over no record are 0 there."""
    expected = normal(raw.execute(sql).fetchall())
    found = normal(world.answer(sql, "duckdb")[1])
    assert expected <= found
    assert not any(row[-1] for row in found - expected)


@pytest.mark.parametrize(
    ("form", "seed"),
    one_in(
        3,
        product(["{any}", "NOT ({any})", "({any}) IS NULL", "age > 1 AND ({any})"], range(4)),
    ),
)
def test_an_or_of_many_small_conditions(
    world: World, raw: duckdb.DuckDBPyConnection, form: str, seed: int
) -> None:
    """Of attributes that may be NULL too; some conditions are met by many cells."""
    draw = random.Random(seed)

    def part() -> str:
        state = draw.choice(("= 'AL'", "<> 'AK'", "IN ('AK', 'WY')", "IS NULL"))
        some = [
            f"age {draw.choice(('=', '=', '<'))} {draw.randrange(12)}",
            f"state {state}",
            draw.choice(("sex = 'F'", "sex <> 'F'", "sex IS NOT NULL")),
            f"born = DATE '2020-01-0{draw.randrange(1, 6)}'",
        ]
        return " AND ".join(draw.sample(some, draw.randrange(1, 5)))

    condition = form.format(any=" OR ".join(part() for _ in range(30)))
    sql = f"SELECT count(*), sum(age) FROM person WHERE {condition}"
    [(number, total)] = raw.execute(sql).fetchall()
    assert normal(world.answer(sql, "duckdb")[1]) == normal([(number, total or 0)])


@pytest.fixture(scope="module")
def of_one_value() -> Iterator[World]:
    """More attributes than an array can have dimensions."""
    constant = (Attribute(f"a{n}", "range", "INTEGER", (1,)) for n in range(70))
    others = (Attribute(name, "range", "INTEGER", (0, 1, 2)) for name in "xy")
    rows = [((1,) * 70 + (n % 3, n % 2)) for n in range(10)]
    made = World(rows, Domain("t", (*constant, *others)))
    yield made
    made.close()


@pytest.fixture(scope="module")
def raw_of_one_value(of_one_value: World) -> Iterator[duckdb.DuckDBPyConnection]:
    yield from raw_rows(of_one_value)


NAMES = [f"a{n}" for n in range(70)]


@pytest.mark.parametrize("of", [33, pytest.param(65, marks=pytest.mark.slow), 70])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM t WHERE {any}",
        "SELECT y, count(*) FROM t WHERE x = 1 OR {none} GROUP BY y",
        "SELECT y, count(*) FROM t WHERE x = y OR {none} GROUP BY y",
        "SELECT count(*) FILTER (WHERE x = 1 AND NOT ({none} OR y = 0)) FROM t",
        "SELECT x, {keys}, count(*) FROM t GROUP BY x, {keys}",
        "SELECT CASE WHEN x = 2 THEN 0 WHEN {none} THEN 1 WHEN {any} THEN 2 END AS z, count(*)"
        " FROM t GROUP BY z",
    ],
)
def test_any_number_of_attributes_of_one_value_may_be_mentioned(
    of_one_value: World, raw_of_one_value: duckdb.DuckDBPyConnection, sql: str, of: int
) -> None:
    any_, none = (" OR ".join(f"{name} = {n}" for name in NAMES[:of]) for n in (1, 2))
    sql = sql.format(any=any_, none=none, keys=", ".join(NAMES[:of]))
    expected = [row for row in raw_of_one_value.execute(sql).fetchall() if row[-1]]
    found = [row for row in of_one_value.answer(sql)[1] if row[-1]]
    assert normal(found) == normal(expected)
