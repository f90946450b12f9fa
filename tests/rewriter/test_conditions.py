"""Conditions that DuckDB is asked about one attribute at a time mean what they do in one query."""

from __future__ import annotations

from typing import Any

import pytest

from tallyveil.errors import StatementError
from tallyveil.rewriter.domain import parts
from tallyveil.rewriter.domain.parts import ComponentParts
from tests.rewriter.plans import meaning
from tests.rewriter.world import World


def planned(world: World, sql: str) -> Any:
    try:
        return meaning(world.plan(sql, "duckdb"))
    except StatementError as error:
        return f"refused: {error.sqlstate}"


def told(world: World, sql: str) -> int:
    """How many components DuckDB told one attribute at a time, after asserting that the plan is the
    same where it evaluates all of them."""
    found: list[object] = []
    ask = ComponentParts.ask

    def asked(*given: Any) -> Any:
        found.append(ask(*given))
        return found[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tallyveil.rewriter.domain.components.SMALL", 0)
        patch.setattr(parts, "FEW", 0)
        patch.setattr(ComponentParts, "ask", asked)
        ours = planned(world, sql)
        patch.setattr(ComponentParts, "ask", lambda *_: None)
        assert ours == planned(world, sql), sql
    return sum(one is not None for one in found)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM person WHERE age = 3 OR lower(sex) = 'f' OR born > '2020-01-05'",
        "SELECT count(*) FROM person WHERE NOT (age % 2 = 0 AND lower(state) LIKE 'a%')",
        "SELECT count(*) FROM person WHERE born = DATE '2020-01-01' + 3 OR age + 1 = 4",
        "SELECT state, count(*), sum(age) FILTER (WHERE age % 3 = 1 OR sex || 'x' = 'Fx') "
        "FROM person WHERE upper(state) = 'AL' OR sex IS NULL GROUP BY state",
        "SELECT CASE WHEN age > 3 AND state = 'AL' THEN 'x' WHEN age > 9 THEN 'y' "
        "WHEN sex = 'F' THEN 'x' END, count(*) FROM person GROUP BY 1",
        "SELECT CASE WHEN age = 3 AND lower(state) = 'al' THEN 1 WHEN age > 9 OR sex = 'F' "
        "THEN 0.5 ELSE -0.0 END AS part, state, count(*), sum(age) FROM person "
        "WHERE age <> 4 OR sex = 'M' GROUP BY 1, 2",
        "SELECT CASE WHEN age > 3 OR state = 'AL' THEN DATE '2020-01-01' END, count(*) "
        "FROM person GROUP BY 1",
        "SELECT sum(CASE WHEN age > 3 AND state = 'AL' THEN 2 WHEN lower(state) = 'al' THEN 0.5 "
        "END), "
        "sum(CASE WHEN age % 2 = 1 OR sex = 'F' THEN -1 WHEN age > 9 THEN 7 ELSE NULL END) "
        "FILTER (WHERE state <> 'AK' OR age < 4) FROM person",
        "SELECT state, sum(CASE WHEN age > 3 AND sex = 'F' THEN 1e0 WHEN age > 1 THEN 2.5 ELSE 4 "
        "END) FROM person GROUP BY state",
        "SELECT CASE WHEN age > 3 AND state = 'AL' THEN age ELSE 0 END, count(*) "
        "FROM person GROUP BY 1",
        "SELECT CASE WHEN age > 3 AND state = 'AL' THEN lower(state) WHEN age < 2 THEN sex "
        "WHEN age > 8 OR state = 'AK' THEN 'al' END, count(*), count(state) FROM person GROUP BY 1",
        "SELECT CASE WHEN age > 3 OR state = 'AL' THEN born END, sum(age) FROM person GROUP BY 1",
        "SELECT sum(CASE WHEN age > 3 AND state = 'AL' THEN age WHEN age = 2 AND sex = 'F' THEN "
        "length(state) + 1 WHEN age < 2 OR sex = 'M' THEN NULL ELSE age END) FROM person",
        "SELECT sum(CASE WHEN age > 3 AND state = 'AL' THEN age WHEN sex = 'F' THEN big ELSE 0.25 "
        "END), avg(CASE WHEN age > 3 AND state = 'AL' THEN age WHEN sex = 'F' THEN 2.5 END), "
        "count(CASE WHEN age > 3 OR state = 'AL' THEN sex END) FROM person",
        "SELECT sex, sum(CASE WHEN age > 3 AND state = 'AL' THEN age / 2 ELSE -age END) "
        "FILTER (WHERE age < 9 OR state <> 'AK') FROM person WHERE age <> 1 OR sex = 'M' "
        "GROUP BY sex",
        "SELECT sum(CASE WHEN age > 3 AND state = 'AL' THEN CASE WHEN age > 5 THEN 1 ELSE age END "
        "WHEN state = 'AK' OR age = 1 THEN '7' END) FROM person",
        "SELECT count(*) FROM person WHERE CASE WHEN age > 3 AND state = 'AL' THEN sex = 'F' "
        "WHEN age = 2 OR lower(state) = 'ak' THEN NULL WHEN sex IS NULL THEN age < 9 "
        "ELSE age % 2 = 1 END",
        "SELECT count(*) FROM person WHERE NOT CASE WHEN age > 3 AND state = 'AL' THEN sex = 'F' "
        "WHEN state < 'AM' THEN CASE WHEN age > 2 THEN sex <> 'F' END END OR age % 2 = 1",
    ],
)
def test_conditions_on_one_attribute_each_are_asked_apart(world: World, sql: str) -> None:
    assert told(world, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM person WHERE age % 2 = 0 OR age + big = 12",
        "SELECT CASE WHEN age > 3 AND state = 'AL' THEN age * 10 + length(sex) ELSE 0 END, "
        "count(*) FROM person GROUP BY 1",
        "SELECT sum(CASE WHEN age > 3 OR sex = 'F' THEN NULL END), count(*) FROM person",
        "SELECT CASE WHEN age > 3 OR state = 'AL' THEN 1 / 0 ELSE 1 END, count(*) "
        "FROM person GROUP BY 1",
        "SELECT count(*) FROM person WHERE sex = 'F' OR EXISTS "
        "(SELECT 1 FROM (VALUES (1)) AS v (x) WHERE x = age)",
        "SELECT count(*) FROM person WHERE (age <> 0 AND 10 / age > 2) OR sex = 'F'",
        "SELECT sum(CASE WHEN age > 3 OR sex = 'F' THEN 'x' WHEN age > 2 THEN 'y' END) FROM person",
        "SELECT sum(CASE WHEN age <> 0 AND sex = 'F' THEN 10 / age ELSE 1 END) FROM person",
        "SELECT CASE WHEN age > 3 OR state = 'AL' THEN INTERVAL 1 DAY END, count(*) "
        "FROM person GROUP BY 1",
        "SELECT CASE WHEN age > 3 OR state = 'AL' THEN [age] END, count(*) FROM person GROUP BY 1",
        "SELECT CASE WHEN age > 3 OR state = 'AL' THEN [1] END, count(*) FROM person GROUP BY 1",
        "SELECT sum(CASE age WHEN 3 THEN length(sex) WHEN 4 THEN 2 END) FROM person",
        "SELECT count(*) FROM person WHERE CASE WHEN age > 3 OR sex = 'F' THEN age ELSE 1 END = 4",
        "SELECT count(*) FROM person WHERE CASE WHEN age > 3 AND sex = 'F' THEN age = 4 ELSE age "
        "END",
    ],
)
def test_others_are_asked_about_all_cells(world: World, sql: str) -> None:
    told(world, sql)


def test_a_condition_that_another_guards_is_asked_with_it(world: World) -> None:
    guarded = "CASE WHEN age <> 0 THEN CAST(10 / age AS INTEGER) > 2 END"
    assert told(world, f"SELECT count(*) FROM person WHERE {guarded} OR sex = 'F'")


def test_more_values_than_a_statement_may_have_are_not_asked_apart(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "SELECT sum(CASE WHEN age > 3 OR sex = 'F' THEN age + 1 ELSE 2 END) FROM person"
    assert told(world, sql)
    monkeypatch.setattr("tallyveil.rewriter.domain.regions.MAX_COEFFICIENTS", 1)
    assert not told(world, sql)
