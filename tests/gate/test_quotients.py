"""Intervals of averages, ratios and differences: the same in any process, and where no joint law is
known an upper bound. `test_quotient_coverage` has how often they hold the truth."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import tallyveil
from tallyveil.gate import Gate
from tests.gate.asking import Connect, ask, spent
from tests.gate.many_sessions import PATIENCE

ENDS = "dp_interval_low({0}), {0}, dp_interval_high({0})"
AVERAGE = f"SELECT state, {ENDS.format('avg(age)')} FROM person GROUP BY state ORDER BY state"
YOUNG = "count(*) FILTER (WHERE age < 30) * 1.0 / nullif(count(*), 0)"
SHARE = f"SELECT state, {ENDS.format(YOUNG)} FROM person GROUP BY state ORDER BY state"
LIFT = (
    "SELECT dp_interval_low((SELECT avg(age) FROM person WHERE sex = 'F')"
    " - (SELECT avg(age) FROM person WHERE sex = 'M')), 0.0, dp_interval_high((SELECT avg(age)"
    " FROM person WHERE sex = 'F') - (SELECT avg(age) FROM person WHERE sex = 'M'))"
)
EPSILON: dict[str, Any] = {"budget": {"epsilon": 100.0}, "defaults": {"epsilon": 2}}
RHO: dict[str, Any] = {"budget": {"rho": 100.0, "delta": 1e-9}, "defaults": {"rho": 1}}


@pytest.mark.parametrize(("sql", "declared"), [(AVERAGE, EPSILON), (SHARE, RHO), (LIFT, EPSILON)])
def test_they_are_free_again_and_the_same_in_any_process(
    connect: Connect, source: duckdb.DuckDBPyConnection, declared: dict[str, Any], sql: str
) -> None:
    connection = connect(**declared)
    ask(connection, "SELECT age, count(*) FROM person WHERE sex = 'F' GROUP BY age")
    first = ask(connection, sql)
    cost = spent(connection)
    assert ask(connection, sql) == first
    with tallyveil.Connection(Gate(connection._gate.policy, source, time_limit=PATIENCE)) as other:
        assert ask(other, sql) == first
        assert spent(other) == cost


def test_sums_of_answers_have_wider_intervals(connect: Connect) -> None:
    """The totals of ROLLUP are sums of other rows: an upper bound, no wider than twice the best."""
    connection = connect(**EPSILON)
    connection.execute("SET dp.mechanism = laplace")
    rolled = ask(
        connection,
        f"SELECT sex, {ENDS.format('avg(age)')} FROM person GROUP BY ROLLUP (sex)",
    )
    assert all(low is None or low <= value <= high for _, low, value, high in rolled)
    (total,) = (high - low for sex, low, _, high in rolled if sex is None)
    connection.execute("SET dp.source = history")
    ((low, _, high),) = ask(connection, f"SELECT {ENDS.format('avg(age)')} FROM person")
    assert high - low <= total <= 2.5 * (high - low)


def test_a_multiple_of_the_denominator_is_exact(connect: Connect) -> None:
    """sum(7) and count(*) are one number, with the same noise in other units."""
    connection = connect(**EPSILON)
    assert ask(
        connection, f"SELECT {ENDS.format('sum(7) * 1.0 / count(*)')} FROM person WHERE age < 50"
    ) == [(7.0, 7.0, 7.0)]


def test_counts_in_a_range_and_counts_of_at_least_0(connect: Connect) -> None:
    connection = connect(**EPSILON)
    connection.execute("SET dp.nonnegative = on")
    share = "100.0 * count(*) FILTER (WHERE age = 1 AND sex = 'F') / count(*)"
    ((low, value, high),) = ask(connection, f"SELECT {ENDS.format(share)} FROM person")
    assert low == 0 <= value <= high
    connection.execute("SET dp.mechanism = 'fair(n=400)'")
    connection.execute("SET dp.source = fresh")
    share = "100.0 * count(*) FILTER (WHERE age < 5) / count(*)"
    ((low, value, high),) = ask(
        connection, f"SELECT {ENDS.format(share)} FROM person WHERE age < 9"
    )
    assert low <= value <= high


def test_a_half_width_is_met_by_intervals_that_hold_together(connect: Connect) -> None:
    connection = connect(**EPSILON)
    connection.execute("SET dp.half_width = 12")
    connection.execute("SET dp.simultaneous = on")
    sql = "SELECT dp_interval_high(n) - n FROM (SELECT state, count(*) AS n FROM person GROUP BY 1)"
    assert {half for (half,) in ask(connection, sql)} == {12}
    together = spent(connection)
    with pytest.raises(tallyveil.Error, match=r"dp\.simultaneous"):
        connection.execute("SET dp.simultaneous = perhaps")
    connection.execute("SET dp.simultaneous = off")
    assert {half for (half,) in ask(connection, sql)} < {8, 9, 10, 11}
    assert spent(connection) == together
