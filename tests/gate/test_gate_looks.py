"""Intervals over all looks hold for who goes on asking until they leave out a value, in SQL.

Each group of a GROUP BY is an analyst of their own, who asks for narrower and narrower intervals
until the interval does not hold 0, which is the truth. A check misses a correct implementation with
a probability below 10⁻⁶: 5.2 deviations of the normal law over all groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import tallyveil
from tests.gate.asking import Connect, ask

GROUPS = 500
DEVIATIONS = 5.2
NARROWER = (20, 16, 13, 10, 8, 6, 5, 4, 3)
NOBODY = (
    "SELECT n, dp_interval_low(n), dp_interval_high(n) FROM"
    " (SELECT g, count(*) FILTER (WHERE a = 1) AS n FROM person GROUP BY g) AS t ORDER BY g"
)
ENDS = "n, dp_interval_low(n) AS low, dp_interval_high(n) AS high"
BY_STATE = f"SELECT state, {ENDS} FROM (SELECT state, count(*) AS n FROM person GROUP BY 1) AS t"
TOTAL = f"SELECT {ENDS} FROM (SELECT count(*) AS n FROM person) AS t"


PURE = {"epsilon": 1e5}
ZCDP = {"rho": 1e5, "delta": 1e-6}


@contextmanager
def nobody(groups: int, budget: dict[str, float], base: Path) -> Iterator[tallyveil.Connection]:
    """A table of so many groups, in none of which anybody has a = 1."""
    axes = {"g": {"range": [0, groups - 1]}, "a": {"values": [0, 1]}}
    policy = tallyveil.parse_policy(
        {"tables": {"person": {"from": "people", "budget": budget, "attributes": axes}}}, base=base
    )
    with duckdb.connect() as source:
        source.execute(f"CREATE TABLE people AS SELECT i AS g, 0 AS a FROM range({groups}) t(i)")
        with tallyveil.connect(policy, source=source) as connection:
            yield connection


def never_left_out(connection: tallyveil.Connection, coverage: str, source: str) -> float:
    """In how many groups every interval held the truth, 0: deviations more than 95 %."""
    connection.execute(f"SET dp.coverage = {coverage}")
    connection.execute(f"SET dp.source = {source}")
    held: Any = True
    for half_width in NARROWER:
        value, low, high = np.array(ask(connection, NOBODY, half_width=half_width), dtype=float).T
        held &= (low <= 0) & (high >= 0)
        assert ((low <= value) & (value <= high)).all()
    return float((held.sum() - 0.95 * len(held)) / math.sqrt(0.95 * 0.05 * len(held)))


@pytest.mark.parametrize(
    ("budget", "source", "groups"),
    [
        (PURE, "auto", GROUPS),
        (ZCDP, "fresh", GROUPS),
        *(
            pytest.param(budget, source, 10 * GROUPS, marks=pytest.mark.slow)
            for budget in (PURE, ZCDP)
            for source in ("fresh", "auto")
        ),
    ],
)
def test_intervals_over_all_looks_hold_under_a_stopping_rule(
    budget: dict[str, float], tmp_path: Path, source: str, groups: int
) -> None:
    with nobody(groups, budget, tmp_path) as connection:
        assert never_left_out(connection, "always", source) >= -DEVIATIONS


@pytest.mark.parametrize("budget", [PURE, ZCDP])
@pytest.mark.parametrize("content", [1, 3])
def test_no_further_look_makes_an_interval_wider(
    budget: dict[str, float], content: int, tmp_path: Path
) -> None:
    """Except to hold the value reported, or where two intervals do not meet, so that one misses the
    truth: in 5 of 100 groups at most."""
    asked = NOBODY if content == 1 else NOBODY.replace("count(*)", f"sum({content})")
    wider = np.zeros(GROUPS, dtype=bool)
    with nobody(GROUPS, budget, tmp_path) as connection:
        connection.execute("SET dp.coverage = always")
        connection.execute("SET dp.source = fresh")
        connection.execute("SET dp.half_width = 60")
        before = np.array(connection.execute(NOBODY).fetchall(), dtype=float)
        for sql in (asked, NOBODY, asked, NOBODY):
            now = np.array(connection.execute(sql).fetchall(), dtype=float)
            now /= content if sql is asked else 1
            value, low, high = now.T
            wider |= (low < before[:, 1]) & (low < value) | (high > before[:, 2]) & (high > value)
            before = now
    assert wider.mean() <= 0.05 + DEVIATIONS * math.sqrt(0.05 * 0.95 / GROUPS)


@pytest.mark.parametrize("budget", [PURE, ZCDP])
def test_the_interval_of_one_look_does_not(budget: dict[str, float], tmp_path: Path) -> None:
    with nobody(GROUPS, budget, tmp_path) as connection:
        assert never_left_out(connection, "once", "fresh") < -DEVIATIONS


def test_it_takes_one_more_setting(connect: Connect) -> None:
    connection = connect()
    assert connection.execute("SHOW dp.coverage").fetchall() == [("once",)]
    once = connection.execute(BY_STATE).fetchall()
    connection.execute("SET dp.coverage = ALWAYS")
    cursor = connection.execute(BY_STATE)
    always = cursor.fetchall()
    assert (
        "answered from history, free; interval ±38 at 95 % over all looks"
        in cursor.notices[0].message
    )
    for (_, n, low, high), (_, same, lower, higher) in zip(once, always, strict=True):
        assert n == same
        assert lower < low <= n <= high < higher
    connection.execute("RESET dp.coverage")
    assert connection.execute(BY_STATE).fetchall() == once
    with pytest.raises(tallyveil.Error, match=r'invalid value for parameter "dp\.coverage"'):
        connection.execute("SET dp.coverage = sometimes")


def test_an_answer_that_follows_from_others_has_no_such_interval(connect: Connect) -> None:
    connection = connect(budget={"epsilon": 10.0})
    connection.execute(BY_STATE)
    connection.execute("SET dp.coverage = always")
    connection.execute("SET dp.half_width = 500")
    cursor = connection.execute(TOTAL)
    ((n, low, high),) = cursor.fetchall()
    assert (low, high) == (None, None)
    assert cursor.notices[0].hint is not None
    assert "SET dp.source = fresh buys an answer" in cursor.notices[0].hint
    ((n, low, high),) = ask(connection, TOTAL, source="fresh")
    assert low <= n <= high


def test_the_hint_counts_the_rows_without_such_an_interval(connect: Connect) -> None:
    connection = connect(budget={"epsilon": 10.0})
    connection.execute("SELECT sex, state, count(*) FROM person GROUP BY sex, state")
    connection.execute("SET dp.coverage = always")
    connection.execute("SET dp.source = history")
    hints = [connection.execute(sql).notices[0].hint or "" for sql in (TOTAL, BY_STATE)]
    connection.execute("SET dp.source = fresh")
    connection.execute("SELECT count(*) FROM person WHERE state = 'AL'")
    connection.execute("SET dp.source = history")
    hints.append(connection.execute(BY_STATE).notices[0].hint or "")
    first = "No interval over all looks: "
    assert [hint.removeprefix(first).partition(",")[0] for hint in hints] == [
        "the row itself was never answered",
        "none of the 5 different numbers in the result was ever answered",
        "4 of the 5 different numbers in the result were never answered",
    ]
    assert [" determine it." in hint for hint in hints] == [True, False, False]


def test_what_is_exact_stays_exact(connect: Connect) -> None:
    connection = connect()
    connection.execute("SET dp.coverage = always")
    assert connection.execute(f"{TOTAL[:-6]} WHERE false) AS t").fetchall() == [(0, 0, 0)]
    assert connection.budget()[0]["spent"] == 0


def test_each_set_of_grouping_sets_has_answers_of_its_own(connect: Connect) -> None:
    connection = connect()
    connection.execute("SET dp.coverage = always")
    rows = connection.execute(
        f"SELECT {ENDS} FROM (SELECT state, count(*) AS n FROM person GROUP BY ROLLUP (state)) AS t"
    ).fetchall()
    assert len(rows) == 6
    assert all(low <= n <= high for n, low, high in rows)


def test_it_needs_noise_that_is_added(connect: Connect) -> None:
    connection = connect(count_range=20)
    connection.execute("SET dp.coverage = always")
    for chosen in ("'fair(n=20)'", "weakly_honest", "'auto(properties=wh)'"):
        connection.execute(f"SET dp.mechanism = {chosen}")
        with pytest.raises(tallyveil.Error, match="needs additive noise"):
            connection.execute(TOTAL)
    connection.execute("RESET dp.mechanism")
    assert len(connection.execute(TOTAL).fetchall()) == 1
    assert "by laplace" in connection.explain(TOTAL)


def test_others_answers_and_a_restart_count(connect: Connect) -> None:
    """What one connection bought is a look of the next, which reads it from the ledger."""
    first, second = connect(), connect()
    found = []
    for connection in (first, second, first, connect()):
        connection.execute("SET dp.coverage = always")
        connection.execute("SET dp.source = fresh" if len(found) < 2 else "SET dp.source = history")
        found.append(
            ask(connection, f"{BY_STATE} ORDER BY state", epsilon=0.1 if not found else 0.6)
        )
    assert found[2] == found[3]
    assert found[1] != found[0]
    widths = [sum(high - low for _, _, low, high in rows) for rows in found]
    assert widths[3] < widths[0]
