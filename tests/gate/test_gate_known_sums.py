"""A total of ROLLUP, CUBE or GROUPING SETS is reported no worse than what is known of it, and is
the sum of what is reported of its groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import tallyveil
from tallyveil.inference import DiscreteLaplaceLaw
from tests.gate.asking import Connect
from tests.pairs import alternately, one_in, pairs

Row = tuple[int, int, int, float]
"""The answer, the ends of its interval, and its standard deviation."""

BUDGET = {"epsilon": 1000}
SETS = {
    "rollup": "ROLLUP (state, sex)",
    "cube": "CUBE (state, sex)",
    "sets": "GROUPING SETS ((state, sex), (sex), ())",
}
AGGREGATES = ("count(*)", "sum(age)")


def asked(
    connection: tallyveil.Connection, aggregate: str, by: str = "", where: str = "true"
) -> dict[tuple[Any, ...], Row]:
    """By the keys, "all" where there is none."""
    keys = {"state", "sex"} if by else set()
    told = ", ".join(
        f"CASE grouping({key}) WHEN 1 THEN 'all' ELSE {key} END" if key in by else "'all'"
        for key in ("state", "sex")
    )
    rows = connection.execute(
        f"SELECT {told}, {aggregate} AS n, dp_interval_low(n), dp_interval_high(n), dp_stddev(n)"
        f" FROM person WHERE {where} {f'GROUP BY {by}' if keys else ''}"
    ).fetchall()
    return {tuple(row[:2]): tuple(row[2:]) for row in rows}


def no_worse(now: Row, before: Row, *, ends: bool = True) -> bool:
    """The ends of an interval are rounded, and so are answers, to add up."""
    wider = (now[2] - now[1]) - (before[2] - before[1])
    return (wider <= 1 or not ends) and now[3] <= before[3] * (1 + 1e-9)


def sums_agree(rows: dict[tuple[Any, ...], Row]) -> bool:
    """Of every group and the whole, as far as their parts are there."""
    fine = {keys: row[0] for keys, row in rows.items() if "all" not in keys}
    for (state, sex), row in rows.items():
        parts = [n for (a, b), n in fine.items() if state in (a, "all") and sex in (b, "all")]
        if "all" in (state, sex) and row[0] != sum(parts):
            return False
    return all(low <= n <= high for n, low, high, _ in rows.values())


def set_to(connection: tallyveil.Connection, **settings: object) -> None:
    for name, value in settings.items():
        connection.execute(f"SET dp.{name} = {value}")


@pytest.mark.parametrize(
    ("by", "aggregate"),
    alternately(SETS.values(), AGGREGATES),
)
def test_the_same_statement_again_says_the_same(connect: Connect, by: str, aggregate: str) -> None:
    """Also after a restart, and through another gate on the same ledger."""
    connection = connect(budget=BUDGET)
    first = asked(connection, aggregate, by)
    assert sums_agree(first)
    assert asked(connection, aggregate, by) == first
    other = connect(budget=BUDGET)
    assert asked(other, aggregate, by) == first
    other.close()
    connection.close()
    again = connect(budget=BUDGET)
    assert asked(again, aggregate, by) == first
    assert again.budget()[0]["spent"] == 0.1


@pytest.mark.parametrize(
    ("sets", "aggregate", "margin", "nonnegative"),
    one_in(2, pairs(SETS, AGGREGATES, ["", "sex", "state"], ["off", "on"])),
)
def test_a_margin_that_is_known_better_stays_so(
    connect: Connect, sets: str, aggregate: str, margin: str, nonnegative: str
) -> None:
    by = SETS[sets]
    connection = connect(budget=BUDGET)
    set_to(connection, epsilon=1, nonnegative=nonnegative)
    before = asked(connection, aggregate, margin)
    set_to(connection, epsilon=0.1)
    rows = asked(connection, aggregate, by)
    assert connection.budget()[0]["spent"] == 1.1
    assert sums_agree(rows)
    ends = nonnegative == "off"  # what is reported as 0 may have an interval of hardly any width
    known = [(rows[keys], row) for keys, row in before.items() if keys in rows]
    assert all(no_worse(now, row, ends=ends) for now, row in known)
    connection.close()
    again = connect(budget=BUDGET)
    set_to(again, nonnegative=nonnegative)
    for _ in range(2):
        repeated = asked(again, aggregate, by)
        assert sums_agree(repeated)
        assert all(no_worse(repeated[keys], row, ends=ends) for keys, row in rows.items())
    assert again.budget()[0]["spent"] == 1.1


def test_groups_move_to_a_total_that_is_known_better(connect: Connect) -> None:
    """Not the total to the sum of its groups. Eight tries, since noise may make both agree."""
    connection = connect(budget=BUDGET)
    for age in range(60, 68):
        where = f"age < {age}"
        set_to(connection, epsilon=1)
        [before] = asked(connection, "count(*)", where=where).values()
        set_to(connection, epsilon=0.1)
        rows = asked(connection, "count(*)", SETS["rollup"], where)
        assert sums_agree(rows)
        assert no_worse(rows["all", "all"], before)


def test_a_total_is_known_by_all_that_was_answered(connect: Connect) -> None:
    """Better than by the finest set alone, and than by what was known before."""
    connection = connect(budget=BUDGET)
    [before] = asked(connection, "count(*)").values()
    rows = asked(connection, "count(*)", SETS["rollup"])
    parts = sum("all" not in keys for keys in rows) * DiscreteLaplaceLaw(10.0).variance
    both = 1 / (1 / before[3] ** 2 + 1 / parts)
    assert rows["all", "all"][3] <= math.sqrt(both) * (1 + 1e-9)


def test_a_sum_that_was_reported_is_known_by_itself(connect: Connect) -> None:
    """It is what the statement said, in any process and whatever was answered since."""
    connection = connect(budget=BUDGET)
    set_to(connection, epsilon=1)
    rows = asked(connection, "count(*)", SETS["cube"])
    set_to(connection, epsilon=0.001, source="fresh")
    for age in range(60):
        connection.execute(f"SELECT state, count(*) FROM person WHERE age > {age} GROUP BY state")
    connection.close()
    again = connect(budget=BUDGET)
    set_to(again, source="history")
    for margin in ("", "sex", "state"):
        for keys, row in asked(again, "count(*)", margin).items():
            assert no_worse(row, rows[keys])


def test_a_target_met_before_is_met_by_the_sum(connect: Connect) -> None:
    connection = connect(budget=BUDGET)
    set_to(connection, half_width=4)
    before = asked(connection, "count(*)")
    set_to(connection, epsilon=0.1)
    rows = asked(connection, "count(*)", SETS["rollup"])
    assert rows["all", "all"][2] - rows["all", "all"][1] <= 8 + 1
    assert sums_agree(rows)
    assert no_worse(rows["all", "all"], before["all", "all"])


def test_several_aggregates_of_one_statement_stay_known(connect: Connect) -> None:
    connection = connect(budget=BUDGET)
    set_to(connection, epsilon=2)
    before = {one: asked(connection, one)["all", "all"] for one in AGGREGATES}
    set_to(connection, epsilon=0.2)
    sql = (
        "SELECT grouping(sex) AS g, count(*) AS n, sum(age) AS s, avg(age), dp_stddev(n),"
        " dp_stddev(s) FROM person GROUP BY ROLLUP (sex)"
    )
    for _ in range(2):
        rows = connection.execute(sql).fetchall()
        parts, [total] = [r for r in rows if not r[0]], [r for r in rows if r[0]]
        assert total[1] == sum(r[1] for r in parts)
        assert total[2] == sum(r[2] for r in parts)
        assert total[4] <= before["count(*)"][3] * (1 + 1e-9)
        assert total[5] <= before["sum(age)"][3] * (1 + 1e-9)


def test_more_groups_than_are_looked_at_together_add_up_to_sums_that_are_known(
    connect: Connect, source: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("estimator", "sums.nearest_integers"):
        monkeypatch.setattr(f"tallyveil.knowledge.{module}._ROWS", 200)
    source.execute("CREATE TABLE many AS SELECT i % 120 AS a, i % 2 AS b FROM range(3000) t(i)")
    attributes = {"a": {"range": [0, 119]}, "b": {"range": [0, 1]}}
    connection = connect(**{"from": "many", "attributes": attributes, "budget": BUDGET})
    set_to(connection, epsilon=1)
    ends = "count(*) AS n, dp_interval_low(n), dp_interval_high(n), dp_stddev(n) FROM person"
    before = {a: row for a, *row in connection.execute(f"SELECT a, {ends} GROUP BY a").fetchall()}
    set_to(connection, epsilon=0.1)
    for _ in range(2):
        rows = connection.execute(
            f"SELECT a, grouping(b), {ends} GROUP BY GROUPING SETS ((a, b), (a))"
        ).fetchall()
        parts = dict.fromkeys(before, 0)
        for a, _, n, *_ in (row for row in rows if not row[1]):
            parts[a] += n
        for a, _, *row in (row for row in rows if row[1]):
            assert no_worse(row, before[a])
            assert parts[a] == row[0]


@pytest.fixture
def exact(tmp_path: Path) -> Iterator[Callable[[], tallyveil.Connection]]:
    """Where the number of records of each sex is public."""
    with duckdb.connect() as source:
        source.execute(
            "CREATE TABLE people AS SELECT i % 2 AS sex, i % 7 AS day FROM range(3000) t(i)"
        )
        declared: dict[str, Any] = {
            "from": "people",
            "neighbours": "replace",
            "budget": {"epsilon": 100},
            "attributes": {"sex": {"values": [0, 1]}, "day": {"range": [0, 6]}},
            "invariants": [{"sql": "SELECT sex, count(*) FROM person GROUP BY sex"}],
        }
        policy = tallyveil.parse_policy(
            {"tables": {"person": declared}, "defaults": {"epsilon": 0.1}}, base=tmp_path
        )
        yield lambda: tallyveil.connect(policy, source=source)


def test_sums_that_are_public_are_exact(exact: Callable[[], tallyveil.Connection]) -> None:
    sql = (
        "SELECT grouping(sex), grouping(day), sex, day, count(*) AS n, dp_interval_low(n),"
        " dp_interval_high(n), dp_stddev(n) FROM person GROUP BY CUBE (sex, day)"
    )
    connection, before = exact(), dict[Any, Any]()
    for attempt in range(3):
        rows = connection.execute(sql).fetchall()
        told = {row[:4]: row[4:] for row in rows}
        assert told[1, 1, None, None] == (3000, 3000, 3000, 0)
        assert told[0, 1, 0, None] == (1500, 1500, 1500, 0)
        for sex in (0, 1):
            assert sum(told[0, 0, sex, day][0] for day in range(7)) == 1500
        for day in range(7):
            both = sum(told[0, 0, sex, day][0] for sex in (0, 1))
            assert told[1, 0, None, day][0] == both
        assert all(no_worse(told[keys], row) for keys, row in before.items())
        before = told
        if attempt == 1:
            connection.close()
            connection = exact()
    connection.close()


GROUPS, WORLDS = 100, 6
CONFIDENCES = (0.5, 0.8, 0.95, 0.99)
DEVIATIONS = 5.2  # of the normal law, beyond which is less than 10⁻⁶


def test_intervals_hold_the_true_totals_as_often_as_they_say(tmp_path: Path) -> None:
    """Of totals known by themselves and by their parts: 300 groups at each confidence, each a
    history of its own."""
    held = dict.fromkeys(CONFIDENCES, 0)
    with duckdb.connect() as source:
        source.execute(
            f"CREATE TABLE people AS SELECT i % {GROUPS} AS g, i % 7 % 2 AS a"
            f" FROM range({30 * GROUPS}) t(i)"
        )
        truth = np.array(
            source.execute("SELECT count(*) FROM people GROUP BY g ORDER BY g").fetchall()
        )[:, 0]
        attributes = {"g": {"range": [0, GROUPS - 1]}, "a": {"values": [0, 1]}}
        for number in range(WORLDS):
            base = tmp_path / str(number)
            base.mkdir()
            table = {"from": "people", "budget": BUDGET, "attributes": attributes}
            policy = tallyveil.parse_policy(
                {"tables": {"person": table}, "defaults": {"epsilon": 0.3}}, base=base
            )
            with tallyveil.connect(policy, source=source) as connection:
                set_to(connection, strategy="direct")
                connection.execute("SELECT g, count(*) FROM person GROUP BY g")
                set_to(connection, epsilon=0.5)
                for confidence in CONFIDENCES[number % 2 :: 2]:
                    set_to(connection, confidence=confidence)
                    rows = connection.execute(
                        "SELECT l, h FROM (SELECT g, grouping(g) AS x, grouping(a) AS y, count(*)"
                        " AS n, dp_interval_low(n) AS l, dp_interval_high(n) AS h FROM person"
                        " GROUP BY ROLLUP (g, a)) t WHERE x = 0 AND y = 1 ORDER BY g"
                    ).fetchall()
                    low, high = np.array(rows).T
                    held[confidence] += int(((low <= truth) & (truth <= high)).sum())
    total = WORLDS // 2 * GROUPS
    for confidence, number in held.items():
        allowed = DEVIATIONS * math.sqrt(total * confidence * (1 - confidence))
        assert number >= total * confidence - allowed, confidence
