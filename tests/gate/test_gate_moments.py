"""Variances through the gate: from history where it knows their sums, NULL where it does not."""

from __future__ import annotations

from tests.gate.asking import Connect, ask, spent


def test_a_deviation_known_from_history_is_free(connect: Connect) -> None:
    connection = connect(defaults={"epsilon": 0.5})
    ((variance,),) = connection.sql("SELECT var_pop(age) FROM person").fetchall()
    assert spent(connection) == 0.5
    sql = "SELECT stddev_pop(age) ^ 2, var_pop(age), count(age) FROM person"
    ((again, same, _),) = connection.sql(sql).fetchall()
    assert same == variance
    assert abs(again - variance) <= 1e-9 * abs(variance)
    assert spent(connection) == 0.5


def test_what_history_knows_in_part_is_null(connect: Connect) -> None:
    connection = connect()
    connection.execute("SET dp.source = history")
    for known in ("count(age)", "avg(age)"):
        sql = "SELECT stddev(age), var_pop(age) FROM person"
        assert connection.sql(sql).fetchall() == [(None, None)]
        ask(connection, f"SELECT {known} FROM person", source="auto")
        connection.execute("SET dp.source = history")


def test_noise_makes_no_variance_negative(connect: Connect) -> None:
    connection = connect(defaults={"epsilon": 0.01})
    sql = "SELECT age, count(age), var_pop(2 * age) FROM person WHERE age < 90 GROUP BY age"
    for _, n, variance in connection.sql(sql).fetchall():
        assert variance is None if n <= 0 else variance >= 0
