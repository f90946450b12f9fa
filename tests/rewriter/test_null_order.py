"""Where the first rows would be groups without a value, a caution suggests NULLS LAST or nullif."""

from __future__ import annotations

import pytest

from tallyveil.rewriter import Dialect
from tests.rewriter.world import World

MEANS = "SELECT sex, avg(age) AS m FROM person GROUP BY sex"
SUMS = "SELECT sex, sum(age) AS s, count(*) AS n FROM person GROUP BY sex"
FIRST = (
    "SELECT sex, avg(age) FROM person GROUP BY sex ORDER BY 2 DESC LIMIT 2",
    "SELECT sex, avg(age) AS years FROM person GROUP BY sex ORDER BY years DESC LIMIT 2",
    "SELECT sex FROM person GROUP BY sex ORDER BY sex, avg(age) DESC FETCH FIRST 2 ROWS ONLY",
    "SELECT sex FROM person GROUP BY sex ORDER BY 1 + stddev(age) NULLS FIRST LIMIT 2",
    "SELECT sex, avg(age) FILTER (WHERE age > 9) FROM person GROUP BY 1 ORDER BY 2 DESC LIMIT 2",
    f"SELECT sex FROM ({MEANS}) AS q ORDER BY m DESC LIMIT 2",
    f"SELECT * FROM ({MEANS}) AS q ORDER BY 2 DESC LIMIT 2",
    f"SELECT sex FROM ({MEANS} ORDER BY m DESC) AS q LIMIT 2",
    f"SELECT x FROM ({MEANS}) AS q (y, x) ORDER BY round(x) DESC LIMIT 2",
    f"SELECT * FROM (SELECT q.m AS x FROM ({MEANS}) AS q) AS r ORDER BY x DESC LIMIT 2",
    f"{MEANS} UNION ALL {MEANS} ORDER BY m DESC LIMIT 2",
    f"WITH q AS ({SUMS}) SELECT sex, s * 1.0 / n AS m FROM q ORDER BY m DESC LIMIT 2",
    f"WITH q AS ({SUMS}), r AS (SELECT s / n AS m FROM q) SELECT m FROM r ORDER BY m DESC LIMIT 2",
    f"SELECT sex, s / nullif(n, 0) FROM ({SUMS}) AS q ORDER BY 2 DESC LIMIT 2",
    f"SELECT sex, CASE WHEN n > 0 THEN s / n END FROM ({SUMS}) AS q ORDER BY 2 DESC LIMIT 2",
    f"SELECT max(s) / sum(n) FROM ({SUMS}) AS q GROUP BY sex ORDER BY 1 DESC LIMIT 2",
    "SELECT sex, 100.0 * count(*) FILTER (WHERE age = 1) / count(*) AS r FROM person GROUP BY sex"
    " ORDER BY r DESC LIMIT 2",
    "SELECT sex, rank() OVER (ORDER BY avg(age) DESC) FROM person GROUP BY sex ORDER BY 2 LIMIT 2",
    f"SELECT sex, row_number() OVER (ORDER BY s / n DESC) FROM ({SUMS}) AS q",
    "SELECT sex, avg(age) FROM person GROUP BY sex HAVING count(*) < 9 ORDER BY 2 DESC LIMIT 2",
    "SELECT sex, avg(age) FROM person GROUP BY sex HAVING sum(age) > 9 ORDER BY 2 DESC LIMIT 2",
)
LAST = (
    "SELECT sex, avg(age) FROM person GROUP BY sex ORDER BY 2 LIMIT 2",
    "SELECT sex, avg(age) FROM person GROUP BY sex ORDER BY 2 DESC",
    "SELECT sex, avg(age) FROM person GROUP BY sex ORDER BY 2 DESC NULLS LAST LIMIT 2",
    "SELECT sex, avg(age) FROM person GROUP BY sex ORDER BY 1 DESC LIMIT 2",
    "SELECT sex, count(*) FROM person GROUP BY sex ORDER BY 2 DESC LIMIT 2",
    "SELECT sex FROM person GROUP BY sex ORDER BY coalesce(avg(age), 0) DESC LIMIT 2",
    "SELECT sex, avg(age) FROM person GROUP BY sex HAVING count(*) > 9 ORDER BY 2 DESC LIMIT 2",
    f"SELECT sex, s / n FROM ({SUMS}) AS q WHERE 9 < n AND sex <> 'F' ORDER BY 2 DESC LIMIT 2",
    f"SELECT sex, s / n FROM ({SUMS}) AS q WHERE dp_interval_low(s) > 0 ORDER BY 2 DESC LIMIT 2",
    f"SELECT sex, s / n FROM ({SUMS}) AS q WHERE dp_interval_low(n) > 0 ORDER BY 2 DESC LIMIT 2",
    f"SELECT sex, m FROM ({MEANS}) AS q WHERE m IS NOT NULL ORDER BY 2 DESC LIMIT 2",
    f"SELECT sex FROM ({MEANS}) AS q ORDER BY m DESC NULLS LAST LIMIT 2",
    f"SELECT sex FROM ({MEANS}) AS q ORDER BY m IS NULL LIMIT 2",
    f"SELECT * FROM ({MEANS}) AS q ORDER BY 1 DESC LIMIT 2",
    f"SELECT sex FROM ({MEANS} ORDER BY m DESC) AS q ORDER BY sex LIMIT 2",
    f"SELECT sex, s / greatest(n, 1) FROM ({SUMS}) AS q ORDER BY 2 DESC LIMIT 2",
    f"SELECT sex, s / 7 FROM ({SUMS}) AS q ORDER BY 2 DESC LIMIT 2",
    f"SELECT sex, CASE WHEN n > 0 THEN s / n ELSE 0 END FROM ({SUMS}) AS q ORDER BY 2 DESC LIMIT 2",
    f"SELECT sex, coalesce(m, 0) AS x FROM ({MEANS}) AS q ORDER BY x DESC LIMIT 2",
    f"SELECT sex, n / sum(n) OVER () FROM ({SUMS}) AS q ORDER BY 2 DESC LIMIT 2",
    f"SELECT sex, n * 1.0 / t FROM ({SUMS}) AS q CROSS JOIN (SELECT count(*) AS t FROM person) AS o"
    " ORDER BY 2 DESC LIMIT 2",
    "SELECT sex, count(*) * 1.0 / (SELECT count(*) FROM person) FROM person GROUP BY sex"
    " ORDER BY 2 DESC LIMIT 2",
    f"SELECT sex, rank() OVER (ORDER BY n DESC) FROM ({SUMS}) AS q",
    f"SELECT sex, rank() OVER (ORDER BY s / n DESC NULLS LAST) FROM ({SUMS}) AS q",
)
INFINITE = (
    f"WITH q AS ({SUMS}) SELECT sex, s * 1.0 / n AS m FROM q ORDER BY m DESC LIMIT 1",
    f"SELECT sex, rank() OVER (ORDER BY s / n DESC) FROM ({SUMS}) AS q",
)
FINITE = (
    f"SELECT sex, s / nullif(n, 0) AS m FROM ({SUMS}) AS q ORDER BY m DESC LIMIT 1",
    f"SELECT sex, s / n AS m FROM ({SUMS}) AS q ORDER BY m LIMIT 1",
    f"SELECT sex, s // n AS m FROM ({SUMS}) AS q ORDER BY m DESC LIMIT 1",
    f"SELECT sex, s / n AS m FROM ({SUMS}) AS q WHERE n > 0 ORDER BY m DESC LIMIT 1",
)


def cautioned(
    world: World, sql: str, dialect: Dialect = "postgres", advice: str = "NULLS LAST"
) -> bool:
    return advice in str([caution.hint for caution in world.plan(sql, dialect).cautions])


@pytest.mark.parametrize("sql", FIRST)
def test_nulls_that_come_first_are_cautioned_about(world: World, sql: str) -> None:
    assert cautioned(world, sql)


@pytest.mark.parametrize("sql", LAST)
def test_nulls_that_come_last_are_not(world: World, sql: str) -> None:
    assert not cautioned(world, sql)


def test_duckdb_puts_them_last(world: World) -> None:
    assert not cautioned(world, FIRST[0], "duckdb")


@pytest.mark.parametrize("sql", INFINITE)
def test_quotients_by_0_that_duckdb_puts_first_are_cautioned_about(world: World, sql: str) -> None:
    assert cautioned(world, sql, "duckdb", "nullif")
    assert not cautioned(world, sql, "postgres", "nullif")


@pytest.mark.parametrize("sql", FINITE)
def test_other_quotients_are_not(world: World, sql: str) -> None:
    assert not cautioned(world, sql, "duckdb", "nullif")
