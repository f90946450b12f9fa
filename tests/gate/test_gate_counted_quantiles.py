"""Quantiles that follow from answers to counts, or from exact counts, with intervals and free."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest
from scipy import stats

from tests.gate.asking import spent
from tests.gate.one_ledger import Open, on_one_ledger
from tests.pairs import one_in

GROUPS = 100
ATTRIBUTES = {
    "g": {"range": [0, GROUPS - 1]},
    "v": {"range": [0, 15]},
    "w": {"range": [0, 3]},
}
RECORD = f"i % {GROUPS} AS g, (i // {GROUPS} * (1 + i % 7) + i % 5) % 16 AS v, i // 9 % 4 AS w"
EPSILON: dict[str, Any] = {"epsilon": 1000.0}
RHO: dict[str, Any] = {"rho": 1000.0, "delta": 1e-9}
MEDIAN = (
    "SELECT g, median(v) AS m, dp_interval_low(m) AS low, dp_interval_high(m) AS high FROM person"
    " GROUP BY g ORDER BY g"
)


@pytest.fixture
def opened(tmp_path: Path) -> Any:
    with on_one_ledger(tmp_path, "person", RECORD, ATTRIBUTES) as opened:
        yield opened


def plain(sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE person AS SELECT {RECORD} FROM range(2000) t(i)")
        return connection.execute(sql).fetchall()


@pytest.mark.parametrize("budget", [pytest.param(EPSILON, marks=pytest.mark.slow), RHO])
def test_a_quantile_follows_from_counts_free_with_an_interval(
    opened: Open, budget: dict[str, Any]
) -> None:
    """100 groups of 20 records with independent noise: at 80 %, more than 42 intervals miss with a
    probability below 5·10⁻⁷. Both ends of some lie apart, and the values are among them."""
    connection = opened(budget)
    connection.execute("SELECT g, v, count(*) FROM person GROUP BY g, v").fetchall()
    cost = spent(connection)
    connection.execute("SET dp.confidence = 0.8")
    connection.execute("SET dp.epsilon = 0.1")
    cursor = connection.execute(MEDIAN)
    found = cursor.fetchall()
    assert "by earlier counts" in cursor.notices[0].message
    assert spent(connection) == cost
    truth = plain("SELECT g, median(v) FROM person GROUP BY g ORDER BY g")
    assert all(low <= value <= high for _, value, low, high in found)
    assert sum(low < high for _, _, low, high in found) > 50
    pairs = zip(found, truth, strict=True)
    misses = sum(not own[2] <= true[1] <= own[3] for own, true in pairs)
    assert misses <= stats.binom.isf(5e-7, GROUPS, 0.2)
    other = opened(budget)
    other.execute("SET dp.confidence = 0.8")
    other.execute("SET dp.source = history")
    assert other.execute(MEDIAN).fetchall() == found


def test_it_is_drawn_where_counts_leave_a_larger_error_of_its_rank(opened: Open) -> None:
    """By what is public: the bounds of both errors at 95 %."""
    connection = opened(EPSILON)
    connection.execute("SELECT v, count(*) FROM person GROUP BY v").fetchall()
    sql = "SELECT median(v) AS m, dp_interval_low(m) FROM person"
    connection.execute("SET dp.source = history")
    [(value, low)] = connection.execute(sql).fetchall()
    assert None not in (value, low)
    cost = spent(connection)
    connection.execute("SET dp.source = auto")
    for epsilon, drawn in ((0.2, False), (2, True)):
        connection.execute(f"SET dp.epsilon = {epsilon}")
        text = connection.explain(sql)
        assert ("to buy: 1" in text) == drawn
        cursor = connection.execute(sql)
        assert ("by the exponential mechanism" in cursor.notices[0].message) == drawn
        assert (cursor.fetchall()[0][1] is None) == drawn
    assert spent(connection) == pytest.approx(cost + 2)
    connection.execute("SET dp.source = fresh")
    connection.execute("SET dp.epsilon = 0.2")
    assert connection.execute(sql).fetchall()[0][1] is None
    assert spent(connection) == pytest.approx(cost + 2.2)


def test_what_history_does_not_determine_is_null_or_drawn(opened: Open) -> None:
    connection = opened(EPSILON)
    connection.execute("SELECT v, count(*) FROM person WHERE v > 3 GROUP BY v").fetchall()
    cost = spent(connection)
    connection.execute("SET dp.epsilon = 0.1")
    connection.execute("SET dp.source = history")
    assert connection.execute("SELECT median(v) FROM person").fetchall() == [(None,)]
    assert connection.execute("SELECT median(v) FROM person WHERE v > 5").fetchall() != [(None,)]
    assert spent(connection) == cost


@pytest.mark.parametrize(
    "sql",
    one_in(
        2,
        [
            "SELECT quantile_disc(v, {q}) AS m {ends} FROM person",
            "SELECT w, quantile_disc(v, {q}) AS m {ends} FROM person WHERE v < 9 GROUP BY w"
            " ORDER BY w",
            "SELECT v // 4 AS b, quantile_disc(v, {q}) AS m {ends} FROM person GROUP BY b"
            " ORDER BY b",
            "SELECT quantile_disc(3 * w - v % 5, {q}) AS m {ends} FROM person",
            "SELECT v % 3 AS b, quantile_disc(w + v % 2, {q}) AS m {ends} FROM person WHERE w > 0"
            " GROUP BY b ORDER BY b",
        ],
    ),
)
def test_of_exact_counts_it_is_duckdbs(tmp_path: Path, sql: str) -> None:
    """A rank beside none of the cumulative counts, so that nothing is a record away from it."""
    exact = [{"sql": "SELECT v, w, count(*) FROM person GROUP BY v, w"}]
    with on_one_ledger(tmp_path, "person", RECORD, ATTRIBUTES) as opened:
        connection = opened(EPSILON, neighbours="replace", invariants=exact)
        for q in ("0.137", "0.5137", "0.9137"):
            ends = ", dp_interval_low(m), dp_interval_high(m)"
            found = connection.execute(sql.format(q=q, ends=ends)).fetchall()
            assert [row[:-2] for row in found] == plain(sql.format(q=q, ends=""))
            assert all(row[-2] <= row[-3] <= row[-1] for row in found)
        assert spent(connection) == 0


def test_intervals_of_quantiles_count_among_those_that_hold_together(opened: Open) -> None:
    connection = opened(EPSILON)
    connection.execute("SET dp.simultaneous = on")
    cursor = connection.execute("SELECT median(v), count(DISTINCT w), count(*) FROM person")
    assert "the 3 intervals hold together" in cursor.notices[0].message
