"""Notices where noise decides what a statement shows, against the intervals of its parts."""

from __future__ import annotations

import re

import pytest

import tallyveil
from tests.gate.asking import Connect

GROUPS = "FROM person GROUP BY sex, state"  # six of 500 records, nine empty ones
LOW = "HAVING dp_interval_low({}) > 0"
TABLE = f"(SELECT sex, state, count(*) AS n, sum(age) AS s {GROUPS}) AS t"

RATIOS = {  # the statement, its denominator, and the statement that the hint leads to
    f"SELECT avg(age) {GROUPS}": ("count(age)", f"SELECT avg(age) {GROUPS} {LOW}"),
    f"SELECT sex, stddev(age) {GROUPS}": ("count(age)", f"SELECT stddev(age) {GROUPS} {LOW}"),
    f"SELECT 100.0 * count(*) FILTER (WHERE age < 9) / count(*) {GROUPS}": (
        "count(*)",
        f"SELECT 100.0 * count(*) FILTER (WHERE age < 9) / count(*) {GROUPS} {LOW}",
    ),
    f"SELECT sex, s // n FROM {TABLE}": (
        "count(*)",
        f"SELECT s // n FROM {TABLE} WHERE dp_interval_low(n) > 0",
    ),
    f"SELECT sum(age) % count(*) {GROUPS}": (
        "count(*)",
        f"SELECT sum(age) % count(*) {GROUPS} {LOW}",
    ),
}

UNCERTAIN = (
    "SELECT age, count(*) FROM person GROUP BY age ORDER BY 2 DESC LIMIT 10",
    "SELECT age, count(*) AS n FROM person GROUP BY age ORDER BY n DESC LIMIT 7 OFFSET 3",
    "SELECT * FROM (SELECT age, count(*) AS n FROM person GROUP BY age) ORDER BY n DESC LIMIT 10",
    "WITH t AS (SELECT age, count(*) AS n FROM person GROUP BY age)"
    " SELECT age FROM t WHERE age > -1 ORDER BY n DESC FETCH FIRST 10 ROWS ONLY",
)
CERTAIN = (
    "SELECT state, count(*) FROM person GROUP BY state ORDER BY 2 DESC LIMIT 3",
    "SELECT age, count(*) FROM person GROUP BY age ORDER BY 2 DESC",
    "SELECT age, count(*) FROM person GROUP BY age ORDER BY 1 DESC LIMIT 10",
    "SELECT age, count(*) FROM person GROUP BY age ORDER BY 2 DESC LIMIT 200",
    "SELECT age, count(*) FROM person GROUP BY age LIMIT 10",
)


def told(cursor: tallyveil.Cursor, about: str) -> list[str]:
    return [notice.message for notice in cursor.notices if about in notice.message]


@pytest.mark.parametrize("sql", RATIOS)
def test_a_denominator_that_may_be_0_is_announced(connect: Connect, sql: str) -> None:
    connection = connect(budget={"epsilon": 10})
    denominator, hint = RATIOS[sql]
    messages = told(connection.execute(sql), "denominator")
    connection.execute("SET dp.source = history")
    ends = f"dp_interval_low({denominator}), dp_interval_high({denominator})"
    rows = connection.execute(f"SELECT {ends} {GROUPS}").fetchall()
    unsafe = sum(low <= 0 <= high for low, high in rows)
    assert unsafe  # all nine empty groups miss with probability 0.05⁹
    assert messages == [
        "a ratio or an average may be far off: the interval of its denominator includes 0"
        f" in {unsafe} of 15 rows"
    ]
    followed = connection.execute(hint.format(denominator))
    assert len(followed.fetchall()) == sum(low > 0 for low, _ in rows)
    assert not told(followed, "denominator")
    free = connection.execute(sql)
    assert told(free, "denominator") == messages
    assert told(free, "free")
    connection.execute("SET dp.notices = off")
    assert not connection.execute(sql).notices


@pytest.mark.parametrize("sql", UNCERTAIN)
def test_an_order_that_noise_decides_is_announced(connect: Connect, sql: str) -> None:
    """Ages have 37 or 38 records each, far fewer apart than the intervals are wide."""
    connection = connect()
    assert told(connection.execute(sql), "first") == [
        "which rows come first is uncertain: the intervals of rows 10 and 11 in this order overlap"
    ]
    connection.execute("SET dp.notices = off")
    assert not connection.execute(sql).notices


@pytest.mark.parametrize("sql", CERTAIN)
def test_an_order_that_noise_does_not_decide_is_not(connect: Connect, sql: str) -> None:
    assert not told(connect().execute(sql), "first")


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT s / n AS r FROM {TABLE} WHERE r > 0",  # an alias, which DuckDB finds in WHERE
        f"SELECT sum(s) / sum(n) FROM {TABLE}",
        f"SELECT count(*) / sum(count(*)) OVER () {GROUPS}",
        f"SELECT n / m FROM {TABLE} JOIN (SELECT count(*) AS m FROM person) AS o ON true",
        f"SELECT s / n FROM {TABLE} WHERE n > (SELECT avg(n) FROM {TABLE})",
        f"SELECT (SELECT t.s / o.n FROM {TABLE.replace('AS t', 'AS o')} LIMIT 1) FROM {TABLE}",
    ],
)
def test_what_cannot_be_checked_by_itself_is_answered(connect: Connect, sql: str) -> None:
    assert told(connect(budget={"epsilon": 10}).execute(sql), "cost")


def test_both_are_announced_once_a_statement(connect: Connect) -> None:
    sql = (
        "SELECT age, avg(age), stddev(age) FROM person GROUP BY age ORDER BY count(*) DESC LIMIT 5"
    )
    both = f"({sql}) UNION ALL ({sql})"
    for statement in (sql, both):
        cursor = connect(budget={"epsilon": 10}).execute(statement)
        assert len(told(cursor, "denominator")) == len(told(cursor, "first")) == 1
        assert re.search(r"in \d+ of (101|202) rows", told(cursor, "denominator")[0])
