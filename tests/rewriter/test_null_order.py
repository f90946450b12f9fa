"""Where the first rows by an average would be groups without one, a caution suggests NULLS LAST."""

from __future__ import annotations

import pytest

from tallyveil.rewriter import Dialect
from tests.rewriter.world import World

FIRST = (
    "SELECT sex, avg(age) FROM person GROUP BY sex ORDER BY 2 DESC LIMIT 2",
    "SELECT sex, avg(age) AS years FROM person GROUP BY sex ORDER BY years DESC LIMIT 2",
    "SELECT sex FROM person GROUP BY sex ORDER BY sex, avg(age) DESC FETCH FIRST 2 ROWS ONLY",
    "SELECT sex FROM person GROUP BY sex ORDER BY 1 + stddev(age) NULLS FIRST LIMIT 2",
    "SELECT sex, avg(age) FILTER (WHERE age > 9) FROM person GROUP BY 1 ORDER BY 2 DESC LIMIT 2",
)
LAST = (
    "SELECT sex, avg(age) FROM person GROUP BY sex ORDER BY 2 LIMIT 2",
    "SELECT sex, avg(age) FROM person GROUP BY sex ORDER BY 2 DESC",
    "SELECT sex, avg(age) FROM person GROUP BY sex ORDER BY 2 DESC NULLS LAST LIMIT 2",
    "SELECT sex, avg(age) FROM person GROUP BY sex ORDER BY 1 DESC LIMIT 2",
    "SELECT sex, count(*) FROM person GROUP BY sex ORDER BY 2 DESC LIMIT 2",
    "SELECT sex FROM person GROUP BY sex ORDER BY coalesce(avg(age), 0) DESC LIMIT 2",
)


def cautioned(world: World, sql: str, dialect: Dialect = "postgres") -> bool:
    return "NULLS LAST" in str([caution.hint for caution in world.plan(sql, dialect).cautions])


@pytest.mark.parametrize("sql", FIRST)
def test_nulls_that_come_first_are_cautioned_about(world: World, sql: str) -> None:
    assert cautioned(world, sql)


@pytest.mark.parametrize("sql", LAST)
def test_nulls_that_come_last_are_not(world: World, sql: str) -> None:
    assert not cautioned(world, sql)


def test_duckdb_puts_them_last(world: World) -> None:
    assert not cautioned(world, FIRST[0], "duckdb")
