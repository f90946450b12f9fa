"""Variances through the gate: from history where it knows their sums, NULL where it does not."""

from __future__ import annotations

from tests.gate.asking import Connect


def test_noise_makes_no_variance_negative(connect: Connect) -> None:
    connection = connect(defaults={"epsilon": 0.01})
    sql = "SELECT age, count(age), var_pop(2 * age) FROM person WHERE age < 90 GROUP BY age"
    for _, n, variance in connection.sql(sql).fetchall():
        assert variance is None if n <= 0 else variance >= 0
