"""Histories of many small answers: what they say together is known, and quick to find out."""

from __future__ import annotations

import datetime
import time
from pathlib import Path

import duckdb
import pytest

import tallyveil
from tallyveil.inference import DiscreteLaplaceLaw, ErrorLaw
from tests.gate.asking import Connect

FIRST = datetime.date(2025, 1, 1)
COUNT = "SELECT count(*) AS n, dp_interval_low(n), dp_interval_high(n) FROM visits"


@pytest.fixture
def days(tmp_path: Path) -> tallyveil.Connection:
    """The days of four months, each counted by a question of its own, at scale 2."""
    source = duckdb.connect()
    source.execute(
        "CREATE TABLE visits AS"
        " SELECT DATE '2025-01-01' + i::int % 500 AS day FROM range(9000) t(i)"
    )
    attributes = {"day": {"range": [FIRST, datetime.date(2026, 12, 31)]}}
    table = {"from": "visits", "budget": {"epsilon": 10.0}, "attributes": attributes}
    keys = {"tables": {"visits": table}, "defaults": {"epsilon": 0.5}}
    connection = tallyveil.connect(tallyveil.parse_policy(keys, base=tmp_path), source=source)
    for number in range(120):
        day = FIRST + datetime.timedelta(days=number)
        connection.execute(f"{COUNT} WHERE day = DATE '{day}'")
    return connection


def test_the_days_of_four_months_determine_them_and_their_quarter(
    days: tallyveil.Connection,
) -> None:
    days.execute("SET dp.source = history")
    start = time.process_time()
    [whole] = days.execute(f"{COUNT} WHERE day < DATE '2025-05-01'").fetchall()
    [quarter] = days.execute(f"{COUNT} WHERE date_trunc('quarter', day) = '2025-01-01'").fetchall()
    months = days.execute(
        "SELECT date_trunc('month', day), count(*) FROM visits"
        " WHERE day < DATE '2025-05-01' GROUP BY 1 ORDER BY 1"
    ).fetchall()
    assert time.process_time() - start < 5
    for (n, low, high), number in ((whole, 120), (quarter, 90)):
        half = ErrorLaw.of_sum({DiscreteLaplaceLaw(2.0): number}).half_width(0.95)
        assert max(abs(n - low - half), abs(high - n - half)) <= 1
    assert sum(n for _, n in months) == whole[0]
    assert sum(n for _, n in months[:3]) == quarter[0]
    [(one_more,)] = days.execute(
        "SELECT count(*) FROM visits WHERE day <= DATE '2025-05-01'"
    ).fetchall()
    assert one_more is None
    days.close()


@pytest.mark.parametrize(
    ("each", "before"),
    [
        pytest.param(False, True, id="grouped, after"),
        pytest.param(False, False, id="grouped, before"),
        pytest.param(True, False, id="one by one, before", marks=pytest.mark.slow),
    ],
)
def test_answers_about_more_attributes_take_no_room_from_those_that_determine_a_row(
    tmp_path: Path, each: bool, before: bool
) -> None:
    """Beside the days of a year, counts by hour and day: together they are more than is solved."""
    source = duckdb.connect()
    source.execute(
        "CREATE TABLE visits AS SELECT i % 24 AS h, i * 7 % 365 AS d FROM range(9000) t(i)"
    )
    attributes = {"h": {"range": [0, 99]}, "d": {"range": [0, 364]}}
    table = {"from": "visits", "budget": {"epsilon": 1e5}, "attributes": attributes}
    policy = tallyveil.parse_policy({"tables": {"visits": table}}, base=tmp_path)
    others = [f"SELECT count(*) FROM visits WHERE h >= {3 * n} AND d > {9 * n}" for n in range(20)]
    days = ["SELECT d, count(*) FROM visits GROUP BY d"]
    if each:
        days = [f"SELECT count(*) FROM visits WHERE d = {day}" for day in range(365)]
    with tallyveil.connect(policy, source=source) as connection:
        connection.execute("SET dp.epsilon = 0.5")
        for sql in [*others, *days] if before else [*days, *others]:
            connection.execute(sql)
        connection.execute("SET dp.source = history")
        found = connection.execute(
            "SELECT d // 7 AS week, count(*) FROM visits GROUP BY 1 ORDER BY 1"
        ).fetchall()
        [(year,)] = connection.execute("SELECT count(*) FROM visits").fetchall()
    assert len(found) == 53
    assert all(week is not None for _, week in found)
    # Noise of scale 2 on each of 365 days: beyond ten standard deviations once in 10^20.
    assert abs(year - 9000) < 10 * (365 * 8) ** 0.5


@pytest.mark.parametrize("ranges", [60, pytest.param(300, marks=pytest.mark.slow)])
def test_many_answers_about_one_attribute_leave_what_its_values_determine(
    tmp_path: Path, ranges: int
) -> None:
    source = duckdb.connect()
    source.execute("CREATE TABLE visits AS SELECT i * 7 % 365 AS d FROM range(9000) t(i)")
    table = {"budget": {"epsilon": 1e5}, "attributes": {"d": {"range": [0, 364]}}}
    policy = tallyveil.parse_policy(
        {"tables": {"visits": {"from": "visits", **table}}}, base=tmp_path
    )
    with tallyveil.connect(policy, source=source) as connection:
        connection.execute("SET dp.epsilon = 0.5")
        for n in range(ranges):
            low = 5 * n % 300
            connection.execute(
                f"SELECT count(*) FROM visits WHERE d BETWEEN {low} AND {low + 40 + n // 60}"
            )
        connection.execute("SELECT d, count(*) FROM visits GROUP BY d")
        connection.execute("SET dp.source = history")
        found = connection.execute(
            "SELECT d // 7 AS week, count(*) FROM visits GROUP BY 1"
        ).fetchall()
    assert len(found) == 53
    assert all(week is not None for _, week in found)


def test_groups_that_history_determines_are_found_among_those_that_it_does_not(
    connect: Connect,
) -> None:
    """Two answers about one group, between many about other people, and over other attributes."""
    connection = connect(budget={"epsilon": 100})
    for low in range(1, 20):
        connection.execute(f"SELECT count(*) FROM person WHERE age > {low} AND state = 'WY'")
    answers = [
        connection.execute(
            f"SELECT count(*) FROM person WHERE sex = 'F' AND age BETWEEN 0 AND {high}"
        ).fetchall()[0][0]
        for high in (9, 4)
    ]
    for high in range(30, 50):
        connection.execute(f"SELECT sex, count(*) FROM person WHERE age < {high} GROUP BY sex")
    connection.execute("SET dp.source = history")
    groups = connection.execute(
        "SELECT sex, count(*) FROM person WHERE age BETWEEN 5 AND 9 GROUP BY sex ORDER BY sex"
    ).fetchall()
    assert groups == [("F", answers[0] - answers[1]), ("M", None), ("other", None)]
