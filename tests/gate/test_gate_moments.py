"""Variances through the gate: from history where it knows their sums, NULL where it does not."""

from __future__ import annotations

import pytest

from tests.gate.asking import Connect, spent
from tests.gate.conftest import ATTRIBUTES
from tests.pairs import alternately


def test_noise_makes_no_variance_negative(connect: Connect) -> None:
    connection = connect(defaults={"epsilon": 0.01})
    sql = "SELECT age, count(age), var_pop(2 * age) FROM person WHERE age < 90 GROUP BY age"
    for _, n, variance in connection.sql(sql).fetchall():
        assert variance is None if n <= 0 else variance >= 0


@pytest.mark.parametrize(
    ("budget", "later"),
    alternately(
        [{"epsilon": 4}, {"rho": 4, "delta": 1e-9}],
        ["corr(age, old)", "regr_slope(age, old)", "avg(old)"],
    ),
)
def test_statements_cost_no_more_together_than_alone(
    connect: Connect, budget: dict[str, float], later: str
) -> None:
    """Though one is bounded best from zero and the other from the middle of its range."""
    connection = connect(
        budget=budget,
        neighbours="replace",
        attributes=ATTRIBUTES | {"old": {"column": "age", "range": [20, 79], "nullable": True}},
    )
    connection.execute(f"SET dp.{next(iter(budget))} = 2")
    connection.execute("SELECT sex, avg(age) FROM person GROUP BY sex")
    assert spent(connection) == 2
    connection.execute(f"SELECT {later} FROM person")
    assert spent(connection) <= 4
