"""Intervals of averages, shares and differences hold the truth as often as they say.

Each group of a GROUP BY is a history of its own: other people, and noise independent of that of
the others. With 3,000 groups, more misses than `MOST` have a probability below 10⁻⁷ for each of the
checks if intervals are right, and fewer than `FEWEST` if they miss less than half as often as they
may; there are fewer than 60 checks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from scipy import stats

import tallyveil
from tallyveil.gate import Gate
from tests.gate.many_sessions import PATIENCE

GROUPS = 3000
LEVELS = (0.8, 0.95)
MOST = {level: stats.binom.isf(1e-7, GROUPS, 1 - level) for level in LEVELS}
FEWEST = {level: stats.binom.ppf(1e-7, GROUPS, (1 - level) / 2) for level in LEVELS}
QUOTIENTS = {
    "average": "avg(v)",
    "share": "100.0 * count(*) FILTER (WHERE a) / count(*)",
    "ratio": "sum(v) FILTER (WHERE a)::float8 / nullif(sum(v) FILTER (WHERE NOT a), 0)",
    "difference": "count(*) FILTER (WHERE a) - count(*) FILTER (WHERE NOT a)",
    "lift": "avg(v) FILTER (WHERE a) - avg(v) FILTER (WHERE NOT a)",
}
EARLIER = (
    "SELECT g, v < 7, count(*) FROM t GROUP BY 1, 2",
    "SELECT g, sum(v * 2) FROM t WHERE a GROUP BY g",
)
EPSILON: dict[str, Any] = {"budget": {"epsilon": 100.0}, "defaults": {"epsilon": 0.25}}
RHO: dict[str, Any] = {"budget": {"rho": 100.0, "delta": 1e-9}, "defaults": {"rho": 0.01}}


def connection(
    base: Path, source: duckdb.DuckDBPyConnection, declared: dict[str, Any], **table: Any
) -> tallyveil.Connection:
    attributes = {
        "g": {"range": [0, GROUPS - 1]},
        "v": {"range": [0, 19]},
        "a": {"values": [True, False]},
    }
    own = {"from": "r", "budget": declared["budget"], "attributes": attributes} | table
    keys = {"tables": {"t": own}, "defaults": declared["defaults"]}
    return tallyveil.Connection(
        Gate(tallyveil.parse_policy(keys, base=base), source, time_limit=PATIENCE)
    )


def table() -> duckdb.DuckDBPyConnection:
    source = duckdb.connect()
    source.execute(
        f"CREATE TABLE r AS SELECT i % {GROUPS} AS g, (i // {GROUPS} * 7 + i) % 20 AS v,"
        f" (i // {GROUPS} * 3 + i % 5) % 7 < 3 AS a FROM range({GROUPS * 120}) x(i)"
    )
    return source


def misses(answers: tallyveil.Connection, source: Any, name: str, level: float) -> tuple[int, int]:
    """In how many groups an interval leaves out the truth, and in how many it has no ends."""
    sql = QUOTIENTS[name]
    answers.execute(f"SET dp.confidence = {level}")
    # Beside its parts a difference is computed from them, else it is a number of its own.
    beside = sql.replace(" - ", ", ") if name == "difference" else "0"
    found = answers.execute(
        f"SELECT g, {beside}, {sql}, dp_interval_low({sql}), dp_interval_high({sql})"
        " FROM t GROUP BY g ORDER BY g"
    ).fetchall()
    truth = source.execute(f"SELECT {sql} FROM r AS t GROUP BY g ORDER BY g").fetchall()
    low, value, high = (
        np.array([row[place] for row in found], dtype=float) for place in (-2, -3, -1)
    )
    true = np.array(truth, dtype=float)[:, 0]
    known, near = ~np.isnan(low), 1e-9 * np.abs(true)
    shown = known & ~np.isnan(value)
    assert (low[shown] <= value[shown]).all()
    assert (value[shown] <= high[shown]).all()
    held = (low - near <= true) & (true <= high + near)
    return int((known & ~held).sum()), int((~known).sum())


def check(answers: tallyveil.Connection, source: Any, name: str) -> None:
    for level in LEVELS:
        missed, unbounded = misses(answers, source, name, level)
        assert missed <= MOST[level], (name, level, missed)
        if name != "lift":  # the ends of two intervals, added
            assert missed >= FEWEST[level], (name, level, missed)
            assert unbounded < GROUPS / 100


@pytest.mark.parametrize(
    ("declared", "name"), [(EPSILON, "average"), (RHO, "share")], ids=["epsilon", "rho"]
)
def test_intervals_hold_the_truth_as_often_as_they_say(
    tmp_path: Path, declared: dict[str, Any], name: str
) -> None:
    with table() as source, connection(tmp_path, source, declared) as answers:
        check(answers, source, name)


@pytest.mark.slow
@pytest.mark.parametrize("history", [False, True], ids=["fresh", "history"])
@pytest.mark.parametrize("declared", [EPSILON, RHO], ids=["epsilon", "rho"])
def test_all_intervals_with_and_without_history(
    tmp_path: Path, declared: dict[str, Any], history: bool
) -> None:
    with table() as source, connection(tmp_path, source, declared) as answers:
        for sql in EARLIER if history else ():
            answers.execute(sql)
        for name in QUOTIENTS:
            check(answers, source, name)


@pytest.mark.slow
@pytest.mark.parametrize("declared", [EPSILON, RHO], ids=["epsilon", "rho"])
def test_with_exact_counts(tmp_path: Path, declared: dict[str, Any]) -> None:
    exact = [{"sql": "SELECT g, count(*) FROM t GROUP BY g"}]
    with (
        table() as source,
        connection(tmp_path, source, declared, neighbours="replace", invariants=exact) as answers,
    ):
        for name in ("average", "share", "lift"):
            check(answers, source, name)


@pytest.mark.slow
def test_simultaneous_intervals_hold_together(tmp_path: Path) -> None:
    """Of 400 results of 3,000 groups, at 80 %, as many as 124 may have any interval that leaves out
    the truth, with a probability of 10⁻⁶ for more."""
    results, wrong = 400, 0
    most = stats.binom.isf(1e-6, results, 0.2)
    with table() as source, connection(tmp_path, source, EPSILON) as answers:
        answers.execute("SET dp.simultaneous = on")
        answers.execute("SET dp.source = fresh")
        answers.execute("SET dp.epsilon = 0.2")
        truth = np.array(
            source.execute("SELECT avg(v) FROM r WHERE g < 100 GROUP BY g ORDER BY g").fetchall()
        )[:, 0]
        answers.execute("SET dp.confidence = 0.8")
        for _ in range(results):
            found = answers.execute(
                "SELECT dp_interval_low(avg(v)), dp_interval_high(avg(v)) FROM t WHERE g < 100"
                " GROUP BY g ORDER BY g"
            ).fetchall()
            low, high = np.array(found, dtype=float).T
            wrong += bool(((truth < low) | (high < truth)).any())
    assert wrong <= most
