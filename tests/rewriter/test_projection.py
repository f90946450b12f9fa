"""A statement that only picks columns and averages gives DuckDB's rows, types and names."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallyveil.errors import TallyveilError
from tallyveil.gate.rows import empty_tables, projected
from tallyveil.rewriter import Dialect, NoisyTable, Plan
from tests.rewriter.world import World

_PLANS = Path(__file__).with_name("fixtures") / "plans.sql"
_SETTINGS = settings(suppress_health_check=list(HealthCheck), print_blob=True)


def drawn_table(plan: Plan, table: NoisyTable, seed: int) -> pa.Table:
    """Any numbers, no two in a column equal so that their order is one, and a NULL in some."""
    draw = random.Random(seed)
    schema = empty_tables(plan)[table.name].schema
    arrays = {name: table.keys.column(name) for name in table.keys.column_names}
    for field in list(schema)[len(arrays) :]:
        large = field.type == pa.int64() and draw.randrange(2)
        bound = 2**61 if large else 50_000  # doubles lack the last digits of large numbers
        numbers: list[Any] = draw.sample(range(-bound, bound), table.height)
        if pa.types.is_decimal(field.type):
            numbers = [Decimal(number).scaleb(-field.type.scale) for number in numbers]
        if draw.randrange(2) and numbers:
            numbers[draw.randrange(table.height)] = None
        arrays[field.name] = pa.array(numbers, field.type)
    return pa.table(arrays)


def same(world: World, sql: str, dialect: Dialect, seed: int) -> bool:
    """Assert that the projection is DuckDB's answer; False where there is none."""
    try:
        plan = world.plan(sql, dialect)
    except TallyveilError:
        return False
    if plan.projection is None:
        return False
    table = drawn_table(plan, plan.noisy[0], seed)
    expected: list[Any] = []
    with world.cursor.tables({plan.noisy[0].name: table}):
        columns = world.cursor.describe(plan.sql)
        world.cursor.values(plan.sql, [kind for _, kind in columns], expected.extend)
    assert [(item.name, item.type) for item in plan.projection.items] == columns, plan.sql
    found = projected(plan.projection, table)
    assert found == expected, plan.sql
    assert [[type(v) for v in row] for row in found] == [[type(v) for v in r] for r in expected]
    return True


_KEYS = ["state", "age", "sex", "married", "born", "score", "big", "income", "age % 3", "'k'"]
_OUTPUTS = ["count(*)", "count(sex)", "sum(age)", "sum(age * 0.25)", "sum(big)", "sum(score)"]
_OUTPUTS += ["avg(age)", "avg(score)", "avg(age * 0.25)", "avg(age) FILTER (WHERE sex = 'F')"]


@st.composite
def questions(draw: st.DrawFn) -> str:
    keys = draw(st.lists(st.sampled_from(_KEYS), max_size=2, unique=True))
    outputs = draw(st.lists(st.sampled_from(_OUTPUTS), min_size=1, max_size=3))
    extra = ["dp_interval_low(count(*))", "dp_stddev(count(*))", "dp_probability(count(*), 0, 9)"]
    asked = [*keys, *outputs, *draw(st.lists(st.sampled_from(extra), max_size=2))]
    items = draw(st.permutations(asked))
    named = draw(st.booleans())
    sql = "SELECT " + ", ".join(f"{i} AS i{n}" if named else i for n, i in enumerate(items))
    sql += " FROM person"
    if keys:
        sql += " GROUP BY " + ", ".join(keys)
    sides = ["", " DESC", " NULLS FIRST", " ASC NULLS LAST", " DESC NULLS LAST"]
    side = st.sampled_from(sides)
    if draw(st.booleans()):
        numbers = st.integers(1, len(items)).map(str)
        names = st.integers(0, len(items) - 1).map("i{}".format) if named else numbers
        by = draw(st.lists(st.one_of(numbers, names, st.sampled_from([*keys, *outputs]))))
        # Where the last is a count, rows have one order.
        parts = [f"{part}{draw(side)}" for part in [*by, "count(*)"]]
        sql += " ORDER BY " + ", ".join(parts)
        if draw(st.booleans()):
            sql += draw(st.sampled_from([" LIMIT 3", " LIMIT 0", " OFFSET 2", " LIMIT 2 OFFSET 1"]))
    return sql


_DIALECTS: st.SearchStrategy[Dialect] = st.sampled_from(["postgres", "duckdb"])


@_SETTINGS
@given(sql=questions(), dialect=_DIALECTS, seed=st.integers(0, 1000))
def test_questions(world: World, sql: str, dialect: Dialect, seed: int) -> None:
    same(world, sql, dialect, seed)


@pytest.mark.slow
@settings(_SETTINGS, max_examples=1_500)
@given(sql=questions(), dialect=_DIALECTS, seed=st.integers(0, 1000))
def test_questions_long(world: World, sql: str, dialect: Dialect, seed: int) -> None:
    same(world, sql, dialect, seed)


@pytest.mark.parametrize("argument", ["age", "score"])
def test_an_average_needs_no_database(world: World, argument: str) -> None:
    sql = f"SELECT sex, avg({argument}), count(*) FROM person GROUP BY sex ORDER BY sex DESC"
    assert all(same(world, sql, "postgres", seed) for seed in range(20))


def test_the_fixtures(world: World) -> None:
    blocks = _PLANS.read_text().strip().split("\n\n")
    found = [same(world, block.split("\n")[1], "postgres", 1) for block in blocks]
    assert sum(found) > len(found) / 3


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) AS n FROM person ORDER BY 1 LIMIT 1 + 1",
        "SELECT sex, count(*) FROM person GROUP BY sex ORDER BY lower(sex)",
        "SELECT DISTINCT sex FROM person",
        "SELECT count(*) + 0.5 FROM person",
        "SELECT sex, count(*) FROM person GROUP BY sex HAVING count(*) > 3",
        "SELECT n FROM (SELECT count(*) AS n FROM person) AS t",
        "SELECT (SELECT count(*) FROM person)",
        "SELECT count(*), rank() OVER (ORDER BY count(*)) FROM person",
        "SELECT score, count(*) FROM person GROUP BY score ORDER BY score",
        "SELECT sex, avg(age) FROM person GROUP BY sex ORDER BY 2",
        "SELECT sex, avg(age) AS a FROM person GROUP BY sex ORDER BY a",
        "SELECT avg(age * 0.25) FROM person",
        "SELECT avg(age) + 1 FROM person",
        "SELECT CASE WHEN count(*) > 1 THEN sum(age)::float8 / count(*) END FROM person",
    ],
)
def test_the_rest_is_left_to_the_database(world: World, sql: str) -> None:
    assert world.plan(sql).projection is None
