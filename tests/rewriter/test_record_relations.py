"""Joins with public tables, subqueries, views and unions below the aggregation, and refusals: the
statements of ``fixtures/public.sql``, as DuckDB answers them on the raw rows.
"""

from __future__ import annotations

import pytest
from sqlglot import exp, parse_one

from tallyveil.errors import StatementError, StatementTooComplex
from tallyveil.rewriter.resolve.record_queries import mark_records, yields_records
from tests.pairs import one_in
from tests.rewriter.listed import statements
from tests.rewriter.surface import World
from tests.rewriter.world import normal


@pytest.fixture
def world(surface: World) -> World:
    return surface


# Every group of these has a record, or the statement says HAVING count(*) > 0.
ANSWERED, REFUSED = statements("public.sql")


@pytest.mark.parametrize("sql", one_in(2, ANSWERED))
def test_what_is_answered_is_what_the_raw_rows_answer(world: World, sql: str) -> None:
    assert normal(world.exact(sql)) == normal(world.direct(sql))


@pytest.mark.parametrize("refused", REFUSED)
def test_what_is_refused_says_why(world: World, refused: str) -> None:
    sql, _, wanted = refused.rpartition(" -- ")
    state, _, words = wanted.partition(" ")
    with pytest.raises(StatementError) as caught:
        world.plan(sql)
    assert caught.value.sqlstate == state
    assert words in f"{caught.value} {caught.value.detail}"


def test_common_tables_that_grow_without_end_are_refused(world: World) -> None:
    items = ["c0 AS (SELECT age, age AS b FROM person)"]
    for n in range(1, 40):
        items.append(f"c{n} AS (SELECT age + b AS age, b + age AS b FROM c{n - 1})")
    with pytest.raises(StatementTooComplex):
        world.plan(f"WITH {', '.join(items)} SELECT sum(age) FROM c39")


def test_a_record_that_matches_twice_counts_twice(world: World) -> None:
    plan = world.plan("SELECT count(*) FROM person JOIN region ON state = code")
    column = plan.workloads["person"].columns[0]
    assert column.axes == ("state",)
    assert column.largest == 2


def test_groups_that_count_the_same_records_are_paid_for_once(world: World) -> None:
    plan = world.plan("SELECT region, count(*) FROM person JOIN region ON state = code GROUP BY 1")
    column = plan.workloads["person"].columns[0]
    assert plan.noisy[0].height == 3  # south and deep both stand for AL
    cells = column.factors[0].cells.tolist()
    assert (column.height, len(set(cells))) == (2, len(cells))


def test_a_starred_column_has_its_own_tables_type(world: World) -> None:
    source = "(SELECT code, pop * 0.5{} AS age FROM region) r ON r.code = p.state"
    sql = f"SELECT sum(age / 2) FROM (SELECT r.* FROM person p JOIN {source}) t"
    theirs = world.direct(sql.format(""))  # DuckDB divides without truncating
    assert normal(world.exact(sql.format("::float8"), "postgres")) == normal(theirs)


def test_a_star_has_a_column_of_using_once(world: World) -> None:
    sql = "SELECT count(*) FROM (SELECT * FROM person JOIN state_name USING (state)) t WHERE {}"
    sql = sql.format("t.state = 'AL' AND name = 'Alabama'")
    assert normal(world.exact(sql, "postgres")) == normal(world.direct(sql))


def test_a_view_means_the_same_in_every_dialect(world: World) -> None:
    sql = "SELECT half, count(*) FROM adult GROUP BY half"
    assert normal(world.exact(sql, "postgres")) == normal(world.exact(sql, "duckdb"))
    assert world.plan("SELECT count(*) FROM person WHERE age / 2 = 2.5", "duckdb").private


def test_a_query_that_nobody_looked_at_is_not_taken_for_public() -> None:
    query = parse_one("SELECT 1", into=exp.Select)
    with pytest.raises(KeyError):
        yields_records(query)
    mark_records(query)
    assert not yields_records(query)


def test_only_the_attributes_that_are_mentioned_are_tied(world: World) -> None:
    plan = world.plan(
        "SELECT age, count(*) FROM person WHERE EXISTS (SELECT 1 FROM region WHERE code = state) "
        "AND EXISTS (SELECT 1 FROM band WHERE low <= age) GROUP BY age"
    )
    (column,) = plan.workloads["person"].columns
    assert set(column.axes) == {"state", "age"}
    assert column.largest == 1


def test_a_column_of_the_public_table_comes_first(world: World) -> None:
    inner = "SELECT count(*) FROM person WHERE EXISTS (SELECT 1 FROM state_name WHERE state = 'AL')"
    plan = world.plan(inner)
    assert plan.workloads["person"].columns[0].axes == ()
