"""A cell of each class says what evaluating every cell says: rows, groups, order and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallyveil.errors import StatementError
from tallyveil.rewriter.domain import classes, evaluate
from tallyveil.rewriter.domain.parts import Parts
from tests.rewriter.grammar import statements
from tests.rewriter.plans import meaning
from tests.rewriter.world import World


def planned(world: World, sql: str) -> Any:
    try:
        return meaning(world.plan(sql, "duckdb"))
    except StatementError as error:
        return f"refused: {error.sqlstate}"


def merged(world: World, sql: str) -> list[int]:
    """How many cells the classes leave of how many, each time they are asked about; after asserting
    that the plan is the same without them. DuckDB evaluates everything.
    """
    kept: list[int] = []
    find = classes.classes

    def asked(*given: Any) -> classes.Classes | None:
        found = find(*given)
        if found is not None:
            sizes = [len(found.chosen.get(n, own)) for n, own in found.firsts.items()]
            kept.append(int(np.prod(sizes)))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Parts, "find", lambda *_: None)
        patch.setattr("tallyveil.rewriter.domain.components.SMALL", 0)
        patch.setattr(classes, "FEW", 0)
        patch.setattr(evaluate, "classes", asked)
        ours = planned(world, sql)
        patch.setattr(evaluate, "classes", lambda *_: None)
        assert ours == planned(world, sql), sql
    return kept


@pytest.mark.parametrize(
    ("sql", "cells"),
    [
        ("SELECT count(*) FROM person WHERE age = 3 OR sex = 'F' OR born > '2020-01-05'", 18),
        ("SELECT count(*) FROM person WHERE age % 2 = 0 OR lower(sex) = 'f'", 6),
        ("SELECT CASE WHEN age > 3 AND state = 'AL' THEN 'x' WHEN age > 9 THEN 'y' END, count(*) "
         "FROM person GROUP BY 1", 9),
        ("SELECT age > 3 OR state IS NULL, count(*) FILTER (WHERE age > 7 OR state < 'C') "
         "FROM person GROUP BY 1", 12),
        ("SELECT sum(CASE WHEN age > 3 THEN 2 WHEN state = 'AL' THEN 7 END) FROM person", 6),
        ("SELECT sum(score * age) FROM person WHERE score * age > 0 OR state = 'AL'", 7 * 33 * 3),
        ("SELECT count(*) FROM person "
         "WHERE CAST(CASE WHEN state = 'AL' THEN score * 0 END AS VARCHAR) = '-0.0'", 9),
    ],
)  # fmt: skip
def test_conditions_merge_cells(world: World, sql: str, cells: int) -> None:
    kept = merged(world, sql)
    assert kept
    assert max(kept) <= cells


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM person WHERE age = big",
        "SELECT age, big, count(*) FROM person WHERE big > age OR age = 3 GROUP BY age, big",
        "SELECT count(*) FROM person WHERE sex = 'F' OR EXISTS "
        "(SELECT 1 FROM (VALUES (1)) AS v (x) WHERE x = age)",
    ],
)  # fmt: skip
def test_what_tells_cells_apart_is_evaluated_cell_by_cell(world: World, sql: str) -> None:
    assert not merged(world, sql)


def test_what_fails_without_its_guard_is_evaluated_behind_it(world: World) -> None:
    sql = "SELECT sum(CASE WHEN age <> 0 AND sex = 'F' THEN 10 / age ELSE 1 END) FROM person"
    assert not merged(world, sql)
    assert not str(planned(world, sql)).startswith("refused")


@settings(suppress_health_check=list(HealthCheck))
@given(drawn=statements("duckdb"))
def test_every_statement_means_the_same(world: World, drawn: tuple[str, bool]) -> None:
    merged(world, drawn[0])


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.lists(st.integers(0, 4), min_size=1))
def test_a_class_spreads_over_its_cells(left: list[int], right: list[int]) -> None:
    firsts = {
        name: np.array([values.index(value) for value in values])
        for name, values in (("a", left), ("b", right))
    }
    chosen = {name: np.unique(own) for name, own in firsts.items()}
    cells = np.add.outer(chosen["a"] * len(right), chosen["b"]).ravel()[::2]
    passing, places = classes.Classes(firsts, chosen).spread(cells)
    first = np.add.outer(firsts["a"] * len(right), firsts["b"]).ravel()
    assert passing.tolist() == [n for n, cell in enumerate(first.tolist()) if cell in set(cells)]
    assert (cells[places] == first[passing]).all()
