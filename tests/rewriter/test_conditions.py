"""Conditions that DuckDB is asked about one attribute at a time mean what they do in one query."""

from __future__ import annotations

from typing import Any

import pytest

from tallyveil.errors import StatementError
from tallyveil.rewriter.domain import parts
from tallyveil.rewriter.domain.parts import ComponentParts
from tests.rewriter.listed import statements
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
