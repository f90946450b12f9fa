"""Grouping sets through the gate: one release, its cost, its intervals, and a target's choice."""

from __future__ import annotations

import duckdb
import pytest

from tallyveil.inference import DiscreteLaplaceLaw, ErrorLaw
from tests.gate.asking import Connect, ask, spent

ROLLUP = (
    "SELECT grouping(sex) AS g, count(*) AS n, dp_interval_high(n) - count(*) AS h FROM person "
    "GROUP BY ROLLUP (sex)"
)


def test_a_summed_row_is_the_sum_and_its_interval_that_of_the_sum(connect: Connect) -> None:
    connection = connect()
    rows = connection.execute(ROLLUP).fetchall()
    parts, (_, total, wide) = [r for r in rows if r[0] == 0], next(r for r in rows if r[0] == 1)
    assert total == sum(n for _, n, _ in parts)
    assert {h for _, _, h in parts} == {DiscreteLaplaceLaw(10.0).half_width(0.95)}
    assert wide == ErrorLaw.of_sum({DiscreteLaplaceLaw(10.0): len(parts)}).half_width(0.95)
    assert connection.budget()[0]["spent"] == 0.1


def test_a_target_for_the_interval_is_met_by_every_row(connect: Connect) -> None:
    connection = connect({"half_width": 30})
    assert {h <= 30 for _, _, h in connection.execute(ROLLUP).fetchall()} == {True}


@pytest.mark.parametrize(
    "by",
    ["ROLLUP (state, sex)", "CUBE (state, sex)", "GROUPING SETS ((state, sex), (state), (sex))"],
)
@pytest.mark.parametrize(
    "settings",
    [
        ({"half_width": 30}, {"epsilon": 0.1}),
        ({"epsilon": 0.1}, {"half_width": 30}, {"half_width": 25}, {"epsilon": 0.3}),
        ({"epsilon": 0.1}, {"epsilon": 0.2}, {"half_width": 40}),
        ({"epsilon": 0.1}, {"half_width": 30, "source": "history"}, {"source": "auto"}),
    ],
)
def test_the_same_statement_adds_up_at_every_setting(
    connect: Connect, by: str, settings: tuple[dict[str, object], ...]
) -> None:
    """The setting decides which sets are released and which are summed up."""
    connection = connect(budget={"epsilon": 100})
    sql = (
        "SELECT CASE grouping(state) WHEN 0 THEN coalesce(state, 'none') END,"
        " CASE grouping(sex) WHEN 0 THEN sex END,"
        f" count(*) AS n, dp_interval_low(n), dp_interval_high(n) FROM person GROUP BY {by}"
    )
    widths: dict[tuple[str | None, str | None], int] = {}
    for one in settings:
        rows = ask(connection, sql, **one)
        cells = [row for row in rows if None not in row[:2]]
        for state, sex, n, low, high in rows:
            assert n == sum(c[2] for c in cells if state in (None, c[0]) and sex in (None, c[1]))
            assert low <= n <= high
            narrowest = widths.get((state, sex), high - low)
            assert high - low <= narrowest + 2  # its ends are rounded
            widths[state, sex] = min(high - low, narrowest)
        before = spent(connection)
        assert connection.execute(sql).fetchall() == rows
        assert spent(connection) == before


def test_explain_says_which_sets_are_released(connect: Connect) -> None:
    connection = connect()
    lines = [row[0] for row in connection.execute("EXPLAIN " + ROLLUP).fetchall()]
    assert "Grouping set (sex): released" in lines
    assert "Grouping set (): summed up from (sex)" in lines


def test_history_knows_the_sums_of_what_it_knows(connect: Connect) -> None:
    connection = connect()
    connection.execute("SELECT sex, count(*) FROM person GROUP BY sex")
    connection.execute(ROLLUP)
    assert connection.budget()[0]["spent"] == 0.1
    connection.execute("SET dp.source = history")
    rows = connection.execute(
        "SELECT grouping(age), count(*) FROM person GROUP BY ROLLUP (age)"
    ).fetchall()
    assert {n for grouped, n in rows if not grouped} == {None}
    whole = connection.execute("SELECT count(*) FROM person").fetchall()[0]
    assert [row for row in rows if row[0]] == [(1, *whole)]


def test_history_knows_a_total_whose_groups_it_does_not_know(connect: Connect) -> None:
    connection = connect()
    ((n,),) = connection.execute("SELECT count(*) FROM person").fetchall()
    rows = ask(connection, ROLLUP, source="history")
    assert {known for grouped, known, _ in rows if not grouped} == {None}
    assert [known for grouped, known, _ in rows if grouped] == [n]


def test_history_sums_up_more_groups_than_it_looks_at_together(
    connect: Connect, source: duckdb.DuckDBPyConnection
) -> None:
    source.execute("CREATE TABLE many AS SELECT i % 1500 AS a, i % 2 AS b FROM range(3000) t(i)")
    attributes = {"a": {"range": [0, 1499]}, "b": {"range": [0, 1]}}
    connection = connect(**{"from": "many", "attributes": attributes})
    sql = "SELECT a, b, count(*) AS n FROM person GROUP BY ROLLUP (a, b) ORDER BY 1, 2"
    bought = connection.execute(sql).fetchall()
    connection.execute("SET dp.source = history")
    assert (
        None not in {n for *_, n in connection.execute(sql).fetchall()} == {n for *_, n in bought}
    )


def test_a_sum_of_no_groups_is_exactly_nothing(connect: Connect) -> None:
    """No declared record has such a key, and the whole is there nevertheless."""
    connection = connect()
    sql = ROLLUP.replace("GROUP BY", "WHERE age < 0 GROUP BY")
    assert connection.execute(sql).fetchall() == [(1, 0, 0)]
    assert connection.budget()[0]["spent"] == 0
