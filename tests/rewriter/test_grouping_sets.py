"""ROLLUP, CUBE and GROUPING SETS: their rows, what is released for them, and their limits."""

from __future__ import annotations

import pytest

from tallyveil.errors import StatementError
from tallyveil.rewriter.private.grouping import choose_sources
from tests.pairs import one_in
from tests.rewriter.listed import statements
from tests.rewriter.surface import World
from tests.rewriter.world import normal


@pytest.fixture
def world(surface: World) -> World:
    return surface


STATEMENTS, _ = statements("grouping_sets.sql")


@pytest.mark.parametrize("sql", one_in(2, STATEMENTS))
def test_the_rows_are_those_of_the_raw_table(world: World, sql: str) -> None:
    assert normal(world.exact(sql)) == normal(world.direct(sql))


@pytest.mark.parametrize("sql", one_in(2, STATEMENTS, first=1))
def test_they_are_the_same_where_each_set_is_released(world: World, sql: str) -> None:
    plan = world.plan(sql, share=False)
    assert not any("summed up" in remark for remark in plan.remarks)
    assert normal(world.rows_of(plan)) == normal(world.direct(sql))


def test_a_finer_set_serves_where_that_is_better(world: World) -> None:
    plan = world.plan(STATEMENTS[0])
    assert plan.remarks == (
        "Grouping set (state, sex): released",
        "Grouping set (state): summed up from (state, sex)",
        "Grouping set (): summed up from (state, sex)",
    )
    # Two aggregates, each released for one set only.
    assert len(plan.workloads["person"].columns) == 2


def test_grouping_sets_cannot_distinguish_two_columns_of_one_value(world: World) -> None:
    source = "(SELECT age // 5 AS a, age // 5 AS b FROM person) t"
    with pytest.raises(StatementError, match="two columns with the same value"):
        world.plan(f"SELECT a, b, count(*) FROM {source} GROUP BY CUBE (a, b)")
    plain = f"SELECT a, b, count(*) FROM {source} GROUP BY a, b"
    assert normal(world.exact(plain)) == normal(world.direct(plain))


def test_no_sum_holds_the_noise_of_one_answer_twice(world: World) -> None:
    """south and deep both count the people of AL, and history knows one answer for both."""
    sql = "SELECT region, count(*) FROM person JOIN region ON code = state GROUP BY ROLLUP (region)"
    plan = world.plan(sql)
    assert plan.remarks == ("Grouping set (region): released", "Grouping set (): released")
    sums = "SELECT label, count(*) FROM person JOIN band ON age = low GROUP BY ROLLUP (label)"
    assert world.plan(sums).remarks[1] == "Grouping set (): summed up from (label)"


@pytest.mark.parametrize(
    ("sets", "heights", "expected"),
    [
        ([(0,), ()], [3, 1], [0, 0]),  # 1 + 3 against 4 · 2
        ([(0,), ()], [50, 1], [0, 1]),  # 1 + 50 against 4 · 2
        ([(0, 1), (0,), ()], [100, 50, 1], [0, 0, 2]),
        ([(0,), (1,)], [5, 7], [0, 1]),  # neither contains the other
        ([(0,), (0,), ()], [2, 2, 1], [0, 0, 0]),
        ([()], [1], [0]),
        ([(0,), ()], [0, 1], [0, 0]),
    ],
)
def test_what_is_released(
    sets: list[tuple[int, ...]], heights: list[int], expected: list[int]
) -> None:
    assert choose_sources(sets, heights) == expected


def test_bins_may_be_grouped_by(world: World) -> None:
    plan = world.plan("SELECT income, count(*) FROM person GROUP BY ROLLUP (income)")
    assert [table.height for table in plan.noisy] == [4, 1]


@pytest.mark.parametrize(
    ("sql", "state"),
    [
        ("SELECT state, sex, count(*) FROM person GROUP BY ROLLUP (state)", "42803"),
        ("SELECT grouping(sex), count(*) FROM person GROUP BY ROLLUP (state)", "42803"),
        ("SELECT count(*) FROM person GROUP BY ROLLUP (5)", "42P10"),
        ("SELECT count(*) FROM person GROUP BY CUBE (state, sex, age, married, born, "
         "age + 1, age + 2)", "54001"),
        ("SELECT count(*) FROM person GROUP BY ROLLUP (income + 1)", "22023"),
        ("SELECT grouping(state) FROM (SELECT grouping(state) AS g FROM person) t", "42803"),
    ],
)  # fmt: skip
def test_what_is_refused(world: World, sql: str, state: str) -> None:
    with pytest.raises(StatementError) as caught:
        world.plan(sql)
    assert caught.value.sqlstate == state
