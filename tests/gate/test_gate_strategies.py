"""Groupings, prefixes and ranges, bought as other rows from which all rows asked follow."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from scipy import stats

import tallyveil
from tallyveil.gate.settings.dp import SETTINGS
from tallyveil.gate.strategies.instead import FAMILIES
from tests.gate.asking import spent
from tests.gate.one_ledger import Open, on_one_ledger
from tests.gate.test_gate_parts import loss, plan, released
from tests.pairs import alternately

ATTRIBUTES = {
    "a": {"range": [0, 3]},
    "b": {"range": [0, 2]},
    "c": {"range": [0, 6]},
    "d": {"range": [0, 1]},
    "e": {"range": [0, 1]},
    "v": {"range": [0, 31]},
}
RECORD = (
    "i % 4 AS a, (i * 7) % 3 AS b, (i // 3) % 7 AS c, i % 2 AS d, i // 5 % 2 AS e,"
    " (i * i) % 32 AS v"
)
PREFIXES = (
    "SELECT k, count(*) AS n, dp_stddev(n), dp_interval_low(n), dp_interval_high(n) FROM person"
    " JOIN keys ON v <= k GROUP BY k ORDER BY k"
)
FILTERS = (
    "SELECT "
    + ", ".join(f"count(*) FILTER (WHERE v <= {k}) AS n{k}" for k in range(0, 32, 4))
    + ", "
    + ", ".join(f"dp_stddev(n{k})" for k in range(0, 32, 4))
    + " FROM person"
)
THREE_WAY = (
    "SELECT a, b, c, d, e, count(*) AS n, dp_stddev(n), dp_interval_low(n), dp_interval_high(n)"
    " FROM person GROUP BY GROUPING SETS ("
    + ", ".join(f"({', '.join(own)})" for own in itertools.combinations("abcde", 3))
    + ") ORDER BY 1, 2, 3, 4, 5"
)
CUBE = (
    "SELECT a, b, c, count(*) AS n, dp_stddev(n) FROM person GROUP BY CUBE (a, b, c)"
    " ORDER BY 1, 2, 3"
)
GROUPED = (
    "SELECT a, k, count(*) AS n, dp_stddev(n) FROM person JOIN keys ON v <= k GROUP BY a, k"
    " ORDER BY a, k"
)
EPSILON: dict[str, Any] = {"epsilon": 1000.0}
RHO: dict[str, Any] = {"rho": 1000.0, "delta": 1e-9}
BUDGETS = {"epsilon": EPSILON, "rho": RHO}
STATEMENTS = {
    "prefixes": PREFIXES,
    "filters": FILTERS,
    "three_way": THREE_WAY,
    "cube": CUBE,
    "grouped": GROUPED,
}
MEASURES = pytest.mark.parametrize("budget", [EPSILON, RHO], ids=["epsilon", "rho"])


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    with on_one_ledger(tmp_path, "person", RECORD, ATTRIBUTES) as opened:
        yield opened


def error(rows: list[tuple[Any, ...]], at: int) -> float:
    return float(sum(row[at] ** 2 for row in rows))


def test_the_setting_names_all_strategies() -> None:
    for name in ("auto", "direct", *FAMILIES):
        assert SETTINGS["dp.strategy"].read("dp.strategy", name, "auto") == name


@pytest.mark.parametrize(
    ("sql", "at", "family", "within", "budget"),
    [
        pytest.param(*case, budget, marks=[pytest.mark.slow] if (n + m) % 2 else [])
        for n, case in enumerate(
            [
                (PREFIXES, 2, "ordered", {"epsilon": 0.012, "rho": 0.125}),
                (THREE_WAY, 6, "groupings", {"epsilon": 0.4, "rho": 0.6}),
                (GROUPED, 3, "ordered", {"epsilon": 0.012, "rho": 0.125}),
            ]
        )
        for m, budget in enumerate([EPSILON, RHO])
    ],
)
def test_the_error_is_less_at_the_same_cost(
    opened: Open, budget: dict[str, Any], sql: str, at: int, family: str, within: dict[str, float]
) -> None:
    measure = next(iter(budget))
    other = opened(budget)
    assert f"by strategy {family}" in plan(other, sql)
    better = other.execute(sql).fetchall()
    assert spent(other) == pytest.approx(1)
    other.execute("SET dp.strategy = direct")
    other.execute("SET dp.source = fresh")
    assert "by strategy" not in plan(other, sql)
    asked = other.execute(sql).fetchall()
    assert spent(other) == pytest.approx(2, rel=1e-3)  # cells that lose a little less
    assert error(better, at) < within[measure] * error(asked, at)
    worst = max(row[at] for row in asked)
    assert all(row[at] <= worst * 1.01 for row in better)


@pytest.mark.parametrize(
    ("measure", "neighbours", "name"),
    alternately(BUDGETS, ["add_remove", "replace"], ["prefixes", "three_way", "grouped"]),
)
def test_the_charge_is_the_loss_of_what_is_bought(
    opened: Open, measure: str, neighbours: str, name: str
) -> None:
    """Brute force over all cells, or all pairs of cells, of units with two rows."""
    budget, sql = BUDGETS[measure], STATEMENTS[name]
    unit = {"privacy_unit": {"column": "i", "max_rows": 2}} if neighbours == "add_remove" else {}
    names = "abcde" if sql == THREE_WAY else "av"
    attributes = {name: ATTRIBUTES[name] for name in names}
    records = {"from": f"SELECT {RECORD}, i // 2 AS i FROM range(2000) t(i)"} if unit else {}
    connection = opened(budget, neighbours=neighbours, attributes=attributes, **unit, **records)
    connection.execute("SET dp.objective = total")
    assert "by strategy" in plan(connection, sql)
    connection.execute(sql).fetchall()
    cells = released(connection)
    if neighbours == "replace":
        moves = [one - other for one, other in itertools.combinations(cells, 2)]
    else:
        moves = [2 * one for one in cells]
    worst = max(loss(move, measure) for move in moves)
    assert spent(connection) == pytest.approx(worst, rel=1e-6)
    assert spent(connection) <= 1 + 1e-9


@pytest.mark.parametrize(
    ("name", "measure"),
    [
        ("prefixes", "epsilon"),
        ("filters", "rho"),
        pytest.param("three_way", "epsilon", marks=pytest.mark.slow),
        ("cube", "rho"),
        ("grouped", "epsilon"),
        pytest.param("grouped", "rho", marks=pytest.mark.slow),
    ],
)
def test_another_process_answers_free_and_the_same(opened: Open, name: str, measure: str) -> None:
    budget, sql = BUDGETS[measure], STATEMENTS[name]
    first = opened(budget)
    found = first.execute(sql).fetchall()
    assert all(value is not None for row in found for value in row[-2:])
    assert first.execute(sql).fetchall() == found
    second = opened(budget)
    assert second.execute(sql).fetchall() == found
    second.execute("SELECT c, count(*) FROM person WHERE a = 1 GROUP BY c").fetchall()
    cost = spent(second)
    again = opened(budget).execute(sql)
    assert again.notices[0].message.startswith("answered from history, free")
    assert all(value is not None for row in again.fetchall() for value in row[-2:])
    assert spent(second) == cost


@MEASURES
def test_what_is_bought_serves_later_questions(opened: Open, budget: dict[str, Any]) -> None:
    connection = opened(budget)
    connection.execute(CUBE).fetchall()
    connection.execute("SET dp.source = history")
    sql = "SELECT count(*) FROM person WHERE a IN (1, 2) AND b = 1 AND c > 1"
    assert connection.execute(sql).fetchall() != [(None,)]


@pytest.mark.parametrize(
    ("budget", "sql"),
    [
        (EPSILON, PREFIXES),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((EPSILON, THREE_WAY), (RHO, PREFIXES), (RHO, THREE_WAY))
        ),
    ],
)
def test_answers_are_unbiased_and_intervals_hold(
    opened: Open, budget: dict[str, Any], sql: str
) -> None:
    """30 purchases. Two rows of each are looked at, which hardly depend on each other: of their 60
    intervals at 95 %, more than 15 miss with a probability below 10⁻⁷. The sum of a row's errors
    over their deviation and √30 exceeds 5.2 with one of 2·10⁻⁷."""
    connection = opened(budget)
    connection.execute("SET dp.source = fresh")
    with duckdb.connect() as plain:
        plain.execute(f"CREATE TABLE person AS SELECT {RECORD} FROM range(2000) t(i)")
        plain.execute("CREATE TABLE keys AS SELECT i AS k FROM range(32) t(i)")
        at = sql.index(", dp_stddev"), sql.index(" FROM person")
        every = plain.execute(sql[: at[0]] + sql[at[1] :]).fetchall()
        truth = {
            tuple(keys): count for *keys, count in every
        }  # groups without records are left out
    misses, scaled = 0, []
    for _ in range(30):
        found = connection.execute(sql).fetchall()
        for *keys, value, deviation, low, high in (found[5], found[-2]):
            true = truth.get(tuple(keys), 0)
            misses += not low <= true <= high
            scaled.append((value - true) / deviation)
    assert misses <= stats.binom.isf(1e-7, 60, 0.05)
    for own in (scaled[::2], scaled[1::2]):
        assert abs(np.sum(own)) / np.sqrt(len(own)) < 5.2


def test_the_objective_decides_between_the_total_and_single_rows(opened: Open) -> None:
    connection = opened(RHO)
    connection.execute("SET dp.source = fresh")
    found = {}
    for objective in ("auto", "total", "worst"):
        connection.execute(f"SET dp.objective = {objective}")
        rows = connection.execute(CUBE).fetchall()
        found[objective] = error(rows, 4), max(row[4] ** 2 for row in rows)
    assert found["total"][0] < found["auto"][0] < found["worst"][0]
    assert found["worst"][1] < found["auto"][1] < found["total"][1]
    assert found["auto"][1] <= 4 * 1.01  # each of 8 groupings directly, at ρ = 1
    assert spent(connection) == pytest.approx(3, rel=1e-3)


def test_a_row_that_gets_worse_is_not_bought_again(opened: Open) -> None:
    for budget in (EPSILON, RHO):
        connection = opened(budget)
        connection.execute("SET dp.objective = total")
        first = connection.execute(CUBE).fetchall()
        cost = spent(connection)
        assert connection.execute(CUBE).fetchall() == first
        assert spent(connection) == cost


@pytest.mark.parametrize(
    ("sql", "budget"),
    [(PREFIXES, EPSILON), (PREFIXES, RHO), (CUBE, RHO)],
    ids=["prefixes_epsilon", "prefixes_rho", "cube_rho"],
)
def test_errors_are_least_relative_to_the_shares_of_declared_values(
    opened: Open, sql: str, budget: dict[str, Any]
) -> None:
    """The sums are of each row's (deviation / share)². Of a CUBE the finest groups decide, and
    their counts alone are best, as without strategies."""

    def share(row: tuple[Any, ...]) -> float:
        if sql == PREFIXES:
            return (float(row[0]) + 1) / 32
        of = zip(row, (4, 3, 7), strict=False)
        return float(1 / np.prod([1 if value is None else number for value, number in of]))

    connection, at = opened(budget), 4 if sql == CUBE else 2
    connection.execute("SET dp.source = fresh")
    found = {}
    for objective in ("total", "relative"):
        connection.execute(f"SET dp.objective = {objective}")
        rows = connection.execute(sql).fetchall()
        found[objective] = error(rows, at), sum((row[at] / share(row)) ** 2 for row in rows)
    assert found["relative"][1] < 0.95 * found["total"][1]
    assert found["total"][0] < found["relative"][0]
    assert ("relative squared error: " in plan(connection, sql)) == (sql == PREFIXES)
    assert spent(connection) == pytest.approx(2, rel=1e-3)


def test_objectives_and_strategies_have_names(opened: Open) -> None:
    connection = opened(RHO)
    with pytest.raises(tallyveil.Error, match="Choose one of: auto, total, worst, relative"):
        connection.execute("SET dp.objective = least")
    with pytest.raises(tallyveil.Error, match="Choose one of: auto, direct, parts, groupings"):
        connection.execute("SET dp.strategy = best")


@pytest.mark.parametrize(
    ("setting", "declared", "why"),
    [
        ("dp.coverage = always", {}, "dp.coverage = always needs answers to the rows themselves"),
        ("dp.strategy = direct", {}, None),
        ("dp.strategy = parts", {}, None),
        ("dp.mechanism = gaussian", {}, None),
        (
            "dp.notices = on",
            {"inference_control": {"min_half_width": 2}},
            "inference control examines rows as they are asked",
        ),
    ],
)
def test_rows_are_bought_as_asked_where_others_cannot_serve(
    opened: Open, setting: str, declared: dict[str, Any], why: str | None
) -> None:
    connection = opened(RHO, **declared)
    connection.execute(f"SET {setting}")
    text = plan(connection, PREFIXES)
    assert "by strategy" not in text
    assert (f"though other rows would have less noise: {why}" in text) == (why is not None)


@pytest.mark.parametrize(
    ("measure", "neighbours", "name"),
    alternately(BUDGETS, ["add_remove", "replace"], ["prefixes", "filters", "grouped"]),
)
def test_a_half_width_is_met_at_less_cost(
    opened: Open, measure: str, neighbours: str, name: str
) -> None:
    """The charge is the loss of what is bought, by brute force over all cells or pairs of them."""
    budget, sql = BUDGETS[measure], STATEMENTS[name]
    names = "av" if sql == GROUPED else "v"
    attributes = {name: ATTRIBUTES[name] for name in names}
    connection = opened(budget, neighbours=neighbours, attributes=attributes)
    connection.execute("SET dp.half_width = 40")
    text = plan(connection, sql)
    found = connection.execute(sql)
    assert "of that as asked, by strategy ordered" in text
    assert re.search(
        r"interval (?:±[\d.]+ to )?±(39\.[89]\d*|40) at 95 %", found.notices[0].message
    )
    rows, cost = found.fetchall(), spent(connection)
    cells = released(connection)
    if neighbours == "replace":
        cells = np.array([one - other for one, other in itertools.combinations(cells, 2)])
    assert cost == pytest.approx(max(loss(move, measure) for move in cells), rel=1e-6)
    connection.execute("SET dp.strategy = direct")
    assert connection.execute(sql).fetchall() == rows
    assert spent(connection) == cost
    connection.execute("SET dp.source = fresh")
    connection.execute(sql).fetchall()
    assert cost < 0.7 * (spent(connection) - cost)


def test_a_half_width_at_no_less_cost_is_bought_as_asked(opened: Open) -> None:
    for budget in (EPSILON, RHO):
        connection = opened(budget)
        connection.execute("SET dp.half_width = 40")
        for sql in (
            "SELECT v, count(*) FROM person GROUP BY v",
            "SELECT count(*) FILTER (WHERE v < 7), count(*) FILTER (WHERE v > 8) FROM person",
            "SELECT a, count(*) FROM person GROUP BY ROLLUP (a)",
        ):
            assert "by strategy" not in plan(connection, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT v, count(*) FROM person GROUP BY v",
        "SELECT a, b, count(*) FROM person GROUP BY a, b",
        "SELECT count(*) FROM person WHERE v < 7",
        "SELECT count(*) FILTER (WHERE v < 7), count(*) FILTER (WHERE v > 8) FROM person",
    ],
)
def test_what_gains_nothing_is_bought_as_asked(opened: Open, sql: str) -> None:
    for budget in (EPSILON, RHO):
        assert "by strategy" not in plan(opened(budget), sql)


def test_a_little_budget_is_refused_without_a_charge(opened: Open) -> None:
    connection = opened({"epsilon": 0.5})
    connection.execute("SET dp.epsilon = 1")
    with pytest.raises(tallyveil.Error, match="it costs epsilon 1"):
        connection.execute(PREFIXES)
    assert spent(connection) == 0


@pytest.mark.parametrize("measure", [pytest.param("epsilon", marks=pytest.mark.slow), "rho"])
def test_too_many_cells_are_asked_directly(opened: Open, measure: str) -> None:
    """Nothing is charged that could not be decoded: all rows have answers, whatever is bought."""
    attributes = {"v": {"range": [0, 699]}}
    records = {"from": "SELECT i % 700 AS v FROM range(2000) t(i)"}
    connection = opened(BUDGETS[measure], attributes=attributes, **records)
    counts = ", ".join(f"count(*) FILTER (WHERE v <= {k})" for k in range(0, 700, 2))
    assert "by strategy" not in plan(connection, f"SELECT {counts} FROM person")
    [row] = connection.execute(f"SELECT {counts} FROM person").fetchall()
    assert None not in row


def test_contrasts_serve_also_where_other_rows_are_known(tmp_path: Path) -> None:
    """All rows together would be too much work: then what was bought answers alone."""
    attributes = {name: {"range": [0, 8]} for name in "abc"}
    record = "i % 9 AS a, i // 9 % 9 AS b, i * i % 9 AS c"
    with on_one_ledger(tmp_path, "person", record, attributes) as opened:
        first, other = opened(RHO), opened(RHO)
        first.execute("SELECT avg(b) FROM person WHERE a < 4").fetchall()
        assert "by strategy groupings" in plan(first, CUBE)
        asked = first.execute(CUBE).fetchall()
        cost = spent(first)
        assert all(row[3] is not None and row[4] is not None for row in asked)
        for connection in (first, other):
            again = connection.execute(CUBE).fetchall()
            assert [row[:3] for row in again] == [row[:3] for row in asked]
            assert all(new[4] <= old[4] * (1 + 1e-9) for new, old in zip(again, asked, strict=True))
            assert spent(connection) == cost


@MEASURES
def test_sums_with_a_common_factor_follow_from_other_rows_too(
    opened: Open, budget: dict[str, Any]
) -> None:
    """Overlapping sets of values, some of whose weights have a factor in common."""
    names = range(3, 23)
    items = [f"sum(CASE WHEN v % {k} < 2 THEN {6 if k % 2 else 1} END) AS n{k}" for k in names]
    sql = f"SELECT {', '.join([*items, *(f'dp_stddev(n{k})' for k in names)])} FROM person"
    connection = opened(budget)
    connection.execute("SET dp.objective = total")
    assert "by strategy ordered" in plan(connection, sql)
    ((*found,),) = connection.sql(sql).fetchall()
    assert spent(connection) == pytest.approx(1)
    for k, value, deviation in zip(names, found[:20], found[20:], strict=True):
        true = (6 if k % 2 else 1) * sum(i * i % 32 % k < 2 for i in range(2000))
        assert abs(value - true) < 12 * float(deviation)
        assert k % 2 == 0 or value % 6 == 0
    assert connection.sql(sql).fetchall() == [tuple(found)]
    assert spent(connection) == pytest.approx(1)


@pytest.mark.parametrize(
    ("prior", "sql", "at", "budget"),
    [
        pytest.param(*case, budget, marks=[pytest.mark.slow] if (n + m) % 2 else [])
        for n, case in enumerate(
            [
                ("SELECT count(*) FROM person WHERE v <= 3", PREFIXES, 2),
                ("SELECT count(*) FROM person WHERE a = 1 AND b = 2 AND c = 3", THREE_WAY, 6),
            ]
        )
        for m, budget in enumerate([EPSILON, RHO])
    ],
)
def test_a_known_row_does_not_keep_other_rows_from_being_bought(
    opened: Open, budget: dict[str, Any], prior: str, sql: str, at: int
) -> None:
    connection = opened(budget)
    connection.execute(prior)
    assert "by strategy" in plan(connection, sql)
    found = connection.execute(sql).fetchall()
    assert spent(connection) <= 2
    cost = spent(connection)
    for again in (connection, opened(budget)):
        assert again.execute(sql).fetchall() == found
    assert spent(connection) == cost
    connection.execute("SET dp.source = fresh")
    alone = connection.execute(sql).fetchall()
    assert error(found, at) <= error(alone, at) * (1 + 1e-9)


@MEASURES
def test_a_single_row_that_is_not_known_is_bought_as_asked(
    opened: Open, budget: dict[str, Any]
) -> None:
    connection = opened(budget)
    connection.execute("SET dp.strategy = direct")
    connection.execute("SELECT v, count(*) FROM person WHERE v < 31 GROUP BY v")
    before = spent(connection)
    connection.execute("SET dp.strategy = auto")
    connection.execute(PREFIXES)
    last = connection.execute(PREFIXES.replace("ORDER BY k", "ORDER BY k DESC LIMIT 1")).fetchall()
    assert spent(connection) <= before + 1
    assert last[0][2] < 2
