"""Group keys above the aggregation: a finer time or a bin's inside is refused at every level, and
what the keys can tell is answered as the raw rows have it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from tallyveil.errors import BinCut
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.rewriter import Rewriter
from tallyveil.rewriter.private import above
from tests.pairs import one_in
from tests.rewriter.world import World

FIRST = dt.date(2020, 1, 1)
DAYS = tuple(FIRST + dt.timedelta(days=n) for n in range(10))
EDGES = (0, 100, 500, 1000)
DOMAIN = Domain(
    "p",
    (
        Attribute("ts", "range", "DATE", (*DAYS, None), null_cell=10, truncates="TIMESTAMP"),
        Attribute("income", "bins", "INTEGER", (*EDGES[:-1], None), edges=EDGES, null_cell=3),
        Attribute("joined", "range", "DATE", DAYS),
        Attribute("sex", "values", "VARCHAR", ("Female", "Male")),
    ),
)
ROWS = [
    (DAYS[n % 10], EDGES[n % 3], DAYS[n * 7 % 10], ("Female", "Male")[n % 2]) for n in range(60)
]

BY_DAY = "SELECT ts, count(*) AS n FROM p GROUP BY ts"
BY_BIN = "SELECT income, count(*) AS n FROM p GROUP BY income"
CUTTING = ("ts <= '2020-01-05 14:33:06'", "ts > '2020-01-05 14:33:06'",
    "ts < timestamp '2020-01-05 14:00'", "ts BETWEEN '2020-01-02 12:00' AND '2020-01-03 12:00'",
    "ts = '2020-01-05'", "ts IN ('2020-01-05', '2020-01-06')", "extract(hour FROM ts) = 0",
    "to_char(ts, 'HH24') = '00'", "ts + interval '1 hour' < '2020-01-05'", "ts = any(array["
    "timestamp '2020-01-05'])", "coalesce(ts, timestamp '2020-01-05 14:00') < '2020-01-05'",
    "CASE ts WHEN '2020-01-05' THEN true END", "ts IN (VALUES (timestamp '2020-01-05 14:00'))",
    "ts IS NOT DISTINCT FROM '2020-01-05'")  # fmt: skip
LEVELS = (
    "SELECT sum(n) FROM ({inner}) t WHERE {cut}",
    "WITH t AS ({inner}) SELECT sum(n) FILTER (WHERE {cut}) FROM t",
    "WITH t AS ({inner}), u AS (SELECT * FROM t) SELECT sum(n) FROM u WHERE {cut}",
    "SELECT sum(CASE WHEN {cut} THEN n ELSE 0 END) FROM ({inner}) t",
    "SELECT a.n FROM (SELECT count(*) AS n FROM p) a JOIN ({inner}) t ON {cut}",
    "SELECT {key}, sum(n) FROM ({inner}) t GROUP BY {key} HAVING {cut}",
    "SELECT {cut} AS c, sum(n) OVER () FROM ({inner}) t",
    "SELECT sum(n) OVER (PARTITION BY {cut}) FROM ({inner}) t",
    "SELECT n FROM ({inner}) t ORDER BY {cut}",
    "SELECT sum(n) FROM (SELECT {key}, n FROM ({inner}) x UNION ALL {inner}) t WHERE {cut}",
    "SELECT sum(n) FROM (SELECT DATE '2020-01-01' AS d, 0 AS m WHERE false UNION ALL {inner}) "
    "t({key}, n) WHERE {cut}",
    "SELECT (SELECT sum(n) FROM ({inner}) t WHERE {cut}) AS s",
    "SELECT 1 AS n FROM (SELECT DISTINCT {key} FROM p) t WHERE {cut}",
    "SELECT sum(n) FROM (SELECT max({key}) OVER () AS {key}, n FROM ({inner}) x) t WHERE {cut}",
    "SELECT n FROM {view} WHERE {cut}",
    "SELECT m FROM (SELECT * FROM ({inner}) x) t({key}, m) WHERE {cut}",
    "WITH t(a, b) AS (SELECT * FROM ({inner}) x) SELECT m FROM t AS u({key}, m) WHERE {cut}",
    "SELECT 1 FROM (SELECT {key}, count(*) FROM p AS x GROUP BY {key}) t WHERE {cut}",
)


@pytest.fixture(scope="module")
def days() -> Iterator[World]:
    made = World(ROWS, DOMAIN)
    views = {"by_day": BY_DAY, "by_bin": BY_BIN}
    made.rewriter = Rewriter({"p": DOMAIN}, views=views)
    yield made
    made.close()


@pytest.mark.parametrize("level", one_in(2, LEVELS))
def test_a_time_of_day_is_refused_at_every_level(days: World, level: str) -> None:
    for cut in CUTTING:
        sql = level.format(inner=BY_DAY, cut=cut, key="ts", view="by_day")
        if "DATE" in level:
            sql = sql.replace("DATE '2020-01-01'", "TIMESTAMP '2020-01-01'")
        with pytest.raises(BinCut) as caught:
            days.plan(sql)
        assert "ts" in caught.value.message, sql
        assert caught.value.position is not None, sql


@pytest.mark.parametrize("level", LEVELS)
def test_a_bin_is_not_cut_through_at_any_level(days: World, level: str) -> None:
    for cut in ("income > 150", "income = 100", "income + 1 < 101", "abs(income) < 100",
                "income::text = '100'", "income IN (VALUES (-1), (150))"):  # fmt: skip
        sql = level.format(inner=BY_BIN, cut=cut, key="income", view="by_bin")
        sql = sql.replace("DATE '2020-01-01'", "0")
        with pytest.raises(BinCut) as caught:
            days.plan(sql)
        assert "income" in caught.value.message, sql


@pytest.mark.parametrize(
    "outer",
    [
        "SELECT n FROM (SELECT *, lag(ts) OVER (ORDER BY ts) AS before FROM ({0}) x) t "
        "WHERE before <= '2020-01-05 14:33'",
        "SELECT 1 AS x WHERE (SELECT max(ts) FROM ({0}) t) <= '2020-01-05 14:33'",
        "SELECT max(ts) FROM ({0}) t HAVING max(ts) <= '2020-01-05 14:33'",
        "SELECT count(*) FROM p HAVING (SELECT max(ts) FROM ({0}) t) > '2020-01-05 14:33'",
        "SELECT n FROM ({0}) t JOIN (VALUES (timestamp '2020-01-05 14:00')) v(ts) USING (ts)",
        "SELECT a.n FROM ({0}) a JOIN ({0}) b USING (ts) JOIN ({0}) c USING (ts) "
        "JOIN (VALUES (timestamp '2020-01-05 14:00')) v(ts) USING (ts)",
        "SELECT a.n FROM ({0}) a JOIN (VALUES (timestamp '2020-01-05')) u(ts) USING (ts) "
        "JOIN (VALUES (timestamp '2020-01-05 14:00')) v(ts) USING (ts) JOIN ({0}) b USING (ts)",
        "SELECT n FROM ({0}) t JOIN (VALUES (timestamp '2020-01-05 14:00')) v(x) ON t.ts = v.x",
        "SELECT sum(n) OVER (ORDER BY ts RANGE BETWEEN interval '12 hours' PRECEDING AND "
        "CURRENT ROW) FROM ({0}) t",
        "SELECT sum(n) FROM ({0}) t, (SELECT joined, count(*) m FROM p GROUP BY joined) u "
        "WHERE t.ts = u.joined",
    ],
)
def test_what_only_picks_a_key_leaves_it_a_key(days: World, outer: str) -> None:
    with pytest.raises(BinCut):
        days.plan(outer.format(BY_DAY))


def raw(sql: str) -> list[Any]:
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE p (ts TIMESTAMP, income INTEGER, joined DATE, sex VARCHAR)"
        )
        connection.executemany("INSERT INTO p VALUES (?, ?, ?, ?)", ROWS)
        return connection.execute(sql).fetchall()


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT sum(n) FROM ({BY_DAY}) t WHERE ts < '2020-01-05'",
        f"SELECT sum(n) FROM ({BY_DAY}) t WHERE CAST(ts AS DATE) <= DATE '2020-01-05'",
        f"SELECT date_trunc('month', ts) AS m, sum(n) FROM ({BY_DAY}) t WHERE n > 0 GROUP BY 1",
        f"SELECT extract(day FROM ts) AS d, n FROM ({BY_DAY}) t WHERE n > 0 ORDER BY 1",
        f"SELECT sum(n) FROM ({BY_DAY}) t WHERE ts IS NOT NULL",
        f"SELECT count(ts), count(DISTINCT ts) FROM ({BY_DAY}) t WHERE n > 0",
        f"SELECT sum(n) FROM ({BY_DAY}) t WHERE ts IN (SELECT ts FROM ({BY_DAY}) u WHERE n > 3)",
        f"SELECT sum(a.n) FROM ({BY_DAY}) a JOIN ({BY_DAY}) b ON a.ts = b.ts",
        f"SELECT sum(a.n) FROM ({BY_DAY}) a JOIN ({BY_DAY}) b USING (ts)",
        f"SELECT sum(b.n) FROM ({BY_DAY}) a JOIN ({BY_DAY}) b ON b.ts <= a.ts",
        f"SELECT n FROM ({BY_DAY}) t WHERE ts = (SELECT max(ts) FROM ({BY_DAY}) u)",
        f"SELECT n, sum(n) OVER (ORDER BY ts) FROM ({BY_DAY}) t ORDER BY ts LIMIT 4",
        f"SELECT sum(n) OVER (PARTITION BY ts) FROM ({BY_DAY}) t WHERE n > 0 ORDER BY ts",
        f"SELECT DISTINCT ts IS NULL FROM ({BY_DAY}) t WHERE n > 0",
        f"SELECT coalesce(a.ts, b.ts) IS NULL FROM ({BY_DAY}) a FULL JOIN ({BY_DAY}) b "
        "ON a.ts = b.ts WHERE a.n > 0",
        f"SELECT sum(n) FROM ({BY_BIN}) t WHERE income < 100 OR income >= 500",
        f"SELECT income, sum(n) FROM ({BY_BIN}) t WHERE n > 0 GROUP BY income ORDER BY income",
        "SELECT sum(n) FROM (SELECT joined, count(*) n FROM p GROUP BY joined) t "
        "WHERE joined <= timestamp '2020-01-05 14:00' AND joined + 1 > DATE '2020-01-02'",
        "SELECT sum(n) FROM (SELECT CAST(ts AS DATE) AS day, count(*) n FROM p GROUP BY 1) t "
        "WHERE day <= timestamp '2020-01-05 14:00'",
        "SELECT sum(n) FROM (SELECT date_trunc('day', ts) AS ts, count(*) n FROM p GROUP BY 1) t "
        "WHERE ts <= timestamp '2020-01-05 14:00'",
        f"SELECT sum(ts) FROM (SELECT n AS ts FROM ({BY_DAY}) t) u WHERE ts > 3",
    ],
)  # fmt: skip
def test_what_the_keys_can_tell_is_answered(days: World, sql: str) -> None:
    assert sorted(days.answer(sql, "duckdb")[1]) == sorted(raw(sql))
    days.plan(sql)


def test_a_plan_is_not_kept_for_other_constants_above(days: World) -> None:
    sql = f"SELECT sum(n) FROM ({BY_DAY}) t WHERE ts < $1"
    types = days.rewriter.parameter_types(sql, "postgres")
    days.plan(sql, types=types, values=[dt.datetime(2020, 1, 5)])
    with pytest.raises(BinCut):
        days.plan(sql, types=types, values=[dt.datetime(2020, 1, 5, 14)])


def test_a_chain_of_joins_takes_work_in_proportion(
    days: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table is compared with what is on its left, not with each table there."""
    seen: list[object] = []

    def counted(*given: object) -> None:
        seen.append(given)

    monkeypatch.setattr(above, "check_cells", counted)
    counts = []
    for number in (10, 40):
        seen.clear()
        chain = "".join(f" JOIN ({BY_DAY}) t{n} USING (ts)" for n in range(1, number))
        days.plan(f"SELECT t0.n FROM ({BY_DAY}) t0{chain}")
        counts.append(len(seen))
    assert 0 < counts[1] <= 5 * counts[0]
