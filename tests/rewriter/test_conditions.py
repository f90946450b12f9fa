"""Conditions that DuckDB is asked about one attribute at a time mean what they do in one query."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from tallyveil.errors import StatementError
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.rewriter.domain import parts
from tallyveil.rewriter.domain.parts import ComponentParts
from tests.rewriter.listed import statements
from tests.rewriter.plans import meaning
from tests.rewriter.world import World, normal


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


# Apart, and about all cells.
APART, WHOLE = statements("conditions.sql")


@pytest.mark.parametrize("sql", APART)
def test_conditions_on_one_attribute_each_are_asked_apart(world: World, sql: str) -> None:
    assert told(world, sql)


@pytest.mark.parametrize("sql", WHOLE)
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


@pytest.fixture(scope="module")
def of_one_value() -> Iterator[World]:
    """More attributes than an array can have dimensions."""
    constant = (Attribute(f"a{n}", "range", "INTEGER", (1,)) for n in range(70))
    others = (Attribute(name, "range", "INTEGER", (0, 1, 2)) for name in "xy")
    rows = [((1,) * 70 + (n % 3, n % 2)) for n in range(10)]
    made = World(rows, Domain("t", (*constant, *others)))
    yield made
    made.close()


NAMES = [f"a{n}" for n in range(70)]


@pytest.mark.parametrize("of", [33, 65, 70])
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
    of_one_value: World, sql: str, of: int
) -> None:
    any_, none = (" OR ".join(f"{name} = {n}" for name in NAMES[:of]) for n in (1, 2))
    sql = sql.format(any=any_, none=none, keys=", ".join(NAMES[:of]))
    with duckdb.connect() as raw:
        of_one_value.create(raw)
        expected = [row for row in raw.execute(sql).fetchall() if row[-1]]
    found = [row for row in of_one_value.answer(sql)[1] if row[-1]]
    assert normal(found) == normal(expected)
