"""The notice and EXPLAIN state the intervals of all rows, also of those that are summed up."""

from __future__ import annotations

import re
from typing import Any

import duckdb
import pytest

import tallyveil
from tests.gate.asking import Connect
from tests.pairs import alternately, one_in, pairs

ATTRIBUTES = {"a": {"range": [0, 2]}, "b": {"range": [0, 3]}, "d": {"range": [0, 2]}}
BY_A = {
    "neighbours": "replace",
    "invariants": [{"sql": "SELECT a, count(*) FROM person GROUP BY a"}],
}
GROUPINGS = {
    "groups": "a, b",
    "rollup": "ROLLUP (a, b, d)",
    "cube": "CUBE (a, b)",
    "sets": "GROUPING SETS ((a, b), (b), (a, d), (d))",
    "total": "GROUPING SETS ((a), ())",
}
TABLES: dict[str, dict[str, Any]] = {
    "plain": {},
    "replace": {"neighbours": "replace"},
    "exact": BY_A,
    "rho": {"budget": {"rho": 100, "delta": 1e-9}, "defaults": {"rho": 0.005}},
}
_RANGE = re.compile(r"interval ±([0-9.]+)(?: to ±([0-9.]+))? at 95 %")
_EXTENDED = re.compile(r"±3 at 50 %(?:, extended by up to (\d+) to hold values that add up)?;")

Row = tuple[Any, ...]


@pytest.fixture(params=TABLES)
def connection(
    request: pytest.FixtureRequest, connect: Connect, source: duckdb.DuckDBPyConnection
) -> tallyveil.Connection:
    source.execute(
        "CREATE TABLE t AS SELECT i%3 AS a, i%7%4 AS b, i%11%3 AS d FROM range(3000) t(i)"
    )
    table = {"from": "t", "attributes": ATTRIBUTES, "budget": {"epsilon": 1000}}
    return connect(**table | TABLES[request.param])


def statement(grouping: str, answer: str = "count(*)") -> str:
    ends = "(dp_interval_high(n) - dp_interval_low(n)) / 2.0 AS half"
    return f"SELECT {answer} AS n, {ends} FROM person GROUP BY {grouping}"


def stated(text: str) -> tuple[float, float]:
    found = _RANGE.search(text)
    assert found, text
    return float(found[1]), float(found[2] or found[1])


def of_rows(rows: list[Row]) -> tuple[float, float]:
    halves = [float(half) for _, half in rows if half is not None]
    return min(halves), max(halves)


def asked(connection: tallyveil.Connection, sql: str) -> tuple[list[Row], str]:
    found = connection.execute(sql)
    (message,) = (one.message for one in found.notices if "remains" in one.message)
    return found.fetchall(), message


def explained(connection: tallyveil.Connection, sql: str) -> str:
    return "\n".join(row[0] for row in connection.execute("EXPLAIN " + sql).fetchall())


def forecast(connection: tallyveil.Connection, sql: str) -> tuple[float, float]:
    found = [stated(match[0]) for match in _RANGE.finditer(explained(connection, sql))]
    return min(low for low, _ in found), max(high for _, high in found)


@pytest.mark.parametrize(
    ("connection", "grouping", "answer"),
    one_in(2, pairs(TABLES, GROUPINGS.values(), ["count(*)", "sum(2 * b)"])),
    indirect=["connection"],
)
def test_the_notice_states_the_range_of_all_rows(
    connection: tallyveil.Connection, grouping: str, answer: str
) -> None:
    """Ends of estimates are whole steps, inside the half-widths that the notice states."""
    for setting in ("source = auto", "source = history", "half_width = 25", "source = fresh"):
        connection.execute(f"SET dp.{setting}")
        rows, message = asked(connection, statement(grouping, answer))
        step = 2 if answer != "count(*)" else 1
        assert stated(message) == pytest.approx(of_rows(rows), abs=1.001 * step), (setting, message)


@pytest.mark.parametrize("nonnegative", ["off", "on"])
def test_the_notice_states_by_how_much_intervals_are_extended(
    connect: Connect, nonnegative: str
) -> None:
    """At 50 % a Laplace answer alone has a narrower interval than better estimates, and is moved
    far so that groups and their total add up."""
    connection = connect(budget={"epsilon": 1000})
    for setting in ("confidence = 0.5", "half_width = 3", f"nonnegative = {nonnegative}"):
        connection.execute(f"SET dp.{setting}")
    one = "count(*) AS n, dp_interval_low(n) AS low, dp_interval_high(n) AS high"
    stretched = 0
    for age in range(15):
        person = f"FROM person WHERE age = {age}"
        rows, message = asked(
            connection,
            f"SELECT {one} {person} GROUP BY sex UNION ALL SELECT {one} {person}",
        )
        found = _EXTENDED.search(message)
        assert found, message
        extended = int(found[1] or 0)
        stretched += extended > 0
        assert all(low <= n <= high for n, low, high in rows)
        widths = [high - low for _, low, high in rows]
        assert extended <= max(widths) <= 2 * 3 + extended
    assert stretched


@pytest.mark.parametrize("connection", ["exact"], indirect=True)
@pytest.mark.parametrize("grouping", ["ROLLUP (a, b, d)", "CUBE (a, b)", "CUBE (b, d)"])
def test_so_it_does_where_noise_is_drawn_together(
    connection: tallyveil.Connection, grouping: str
) -> None:
    connection.execute("SET dp.mechanism = conditioned")
    for source in ("auto", "history", "fresh"):
        connection.execute(f"SET dp.source = {source}")
        rows, message = asked(connection, statement(grouping))
        assert stated(message) == pytest.approx(of_rows(rows), abs=1.001), (source, message)


@pytest.mark.parametrize("connection", ["plain", "replace", "rho"], indirect=True)
@pytest.mark.parametrize("grouping", ["a, b", "CUBE (a, b)", "GROUPING SETS ((a), ())"])
def test_explain_forecasts_it_exactly_where_one_set_is_released(
    connection: tallyveil.Connection, grouping: str
) -> None:
    connection.execute("SET dp.strategy = direct")
    sql = statement(grouping)
    expected = forecast(connection, sql)
    rows, message = asked(connection, sql)
    assert stated(message) == of_rows(rows) == expected


@pytest.mark.parametrize(
    ("connection", "grouping"),
    alternately(TABLES, GROUPINGS.values()),
    indirect=["connection"],
)
def test_the_forecast_is_never_too_narrow(connection: tallyveil.Connection, grouping: str) -> None:
    """Rows may be known better than it states, as estimates."""
    connection.execute("SET dp.strategy = direct")
    connection.execute("SELECT b, count(*) FROM person WHERE a < 2 GROUP BY b")
    connection.execute("SELECT a, b, d, count(*) FROM person WHERE b < 3 GROUP BY a, b, d")
    for source in ("auto", "history", "fresh"):
        connection.execute(f"SET dp.source = {source}")
        _, most = forecast(connection, statement(grouping))
        rows, _ = asked(connection, statement(grouping))
        assert of_rows(rows)[1] <= most + 1


@pytest.mark.parametrize("connection", ["plain"], indirect=True)
def test_explain_states_what_is_summed_up_from_each_aggregate(
    connection: tallyveil.Connection,
) -> None:
    sql = "SELECT a, count(*), sum(b) FROM person GROUP BY ROLLUP (a)"
    assert "summed up: 1 row, standard deviation" in explained(connection, sql)
    connection.execute("SET dp.strategy = direct")
    lines = explained(connection, sql)
    assert "\n  aggregate 1, summed up: 1 row, interval ±99 at 95 % or better" in lines
    assert "\n  aggregate 2, summed up: 1 row, interval ±298 at 95 % or better" in lines


@pytest.mark.parametrize("connection", ["exact"], indirect=True)
def test_explain_knows_sums_that_are_exact(connection: tallyveil.Connection) -> None:
    lines = explained(connection, statement("ROLLUP (a, b)"))
    assert "\n  aggregate 1, summed up: 4 rows, interval ±0 at 95 %\n" in lines


@pytest.mark.parametrize("highest", [99, 20_000])
def test_groups_add_up_to_an_exact_total_or_the_notice_reports_it(
    connect: Connect, source: duckdb.DuckDBPyConnection, highest: int
) -> None:
    """Beside a sum of so many values that the exact rows are left out of the estimate, too."""
    source.execute(
        "CREATE TABLE t AS SELECT i%3 AS a, i%7%4 AS b, i%99 AS cost FROM range(3000) t(i)"
    )
    attributes = {"a": {"range": [0, 2]}, "b": {"range": [0, 3]}, "cost": {"range": [0, highest]}}
    connection = connect(**{"from": "t", "attributes": attributes}, **BY_A)
    cursor = connection.execute("SELECT b, count(*), sum(cost) FROM person GROUP BY b")
    total = sum(n for _, n, _ in cursor.fetchall())
    reported = "need not add up to public counts" in (cursor.notices[0].hint or "")
    assert (reported, total == 3000 or reported) == (highest > 99, True)
