"""Costs so large that the noise is as good as none: answers are right, and nothing divides by 0."""

from __future__ import annotations

from typing import Any

import pytest

import tallyveil
from tests.gate.asking import Connect, ask

# (WHERE, count) of the table of conftest.
PEOPLE = [("sex = 'F'", 1500), ("age < 40", 1520), ("sex = 'M' AND age < 40", 760)]
ENDS = "SELECT count(*) AS n, dp_interval_low(n), dp_interval_high(n) FROM person"


def one(connection: tallyveil.Connection, sql: str) -> tuple[Any, ...]:
    row = connection.execute(sql).fetchone()
    assert row is not None
    return row


def budgets(measure: str) -> dict[str, Any]:
    pure = {"epsilon": 1e6}
    return {"budget": pure if measure == "epsilon" else {"rho": 1e6, "delta": 1e-9}}


@pytest.mark.parametrize(
    ("measure", "cost", "mechanism"),
    [
        pytest.param("epsilon", "60", "auto", marks=pytest.mark.slow),
        ("epsilon", "745", "auto"),
        pytest.param("epsilon", "750", "laplace", marks=pytest.mark.slow),
        pytest.param("epsilon", "1500", "auto", marks=pytest.mark.slow),
        ("epsilon", "50000", "auto"),
        pytest.param("rho", "750", "laplace", marks=pytest.mark.slow),
        pytest.param("rho", "50000", "auto", marks=pytest.mark.slow),
        ("rho", "750", "gaussian"),
        pytest.param("rho", "50000", "gaussian", marks=pytest.mark.slow),
    ],
)
def test_counts_and_groups_after_earlier_answers(
    connect: Connect, measure: str, cost: str, mechanism: str
) -> None:
    defaults = {measure: 20}
    connection = connect(defaults, **budgets(measure))
    total = one(connection, "SELECT count(*) FROM person")[0]
    assert abs(total - 3000) < 100
    connection.execute(f"SET dp.mechanism = {mechanism}")
    connection.execute(f"SET dp.{measure} = {cost}")
    for where, count in PEOPLE:
        sql = f"{ENDS} WHERE {where}"
        for source in ("auto", "fresh", "history"):
            connection.execute(f"SET dp.source = {source}")
            value, low, high = one(connection, sql)
            assert low <= value <= high
            assert abs(value - count) <= 8
    groups = dict(ask(connection, "SELECT sex, count(*) FROM person GROUP BY sex", source="auto"))
    assert abs(groups["F"] - 1500) <= 8
    assert abs(one(connection, "SELECT sum(age) FROM person WHERE sex = 'F'")[0] - 58500) <= 2000
    connection.execute("SELECT age, sex, count(*) FROM person WHERE age < 3 GROUP BY age, sex")
    for source in ("history", "auto"):
        connection.execute(f"SET dp.source = {source}")
        assert abs(one(connection, "SELECT count(*) FROM person")[0] - 3000) <= 20
        value, low, high = one(
            connection,
            f"{ENDS} WHERE age < 2",
        )
        assert low <= value <= high
        connection.execute(
            "SELECT sex, count(*) AS n, dp_interval_high(n), dp_stddev(n), dp_probability(n, 1, 2)"
            " FROM person WHERE age < 2 GROUP BY ROLLUP (sex)"
        )
    connection.explain("SELECT state, sex, count(*) FROM person GROUP BY state, sex")
    rows = connection.execute(
        "SELECT count(*) AS n, dp_stddev(n), dp_probability(n, 700, 800) FROM person WHERE age < 20"
    ).fetchall()
    assert abs(rows[0][0] - 760) <= 8
    for half in ("3", "1", "0.5"):
        connection.execute(f"SET dp.half_width = {half}")
        # ±3 at 95 % is noise of scale 1, which is beyond 20 in one of 10⁸.
        assert abs(one(connection, "SELECT count(*) FROM person WHERE age < 20")[0] - 760) <= 20
        assert abs(one(connection, "SELECT count(*) FROM person WHERE age < 30")[0] - 1140) <= 20
