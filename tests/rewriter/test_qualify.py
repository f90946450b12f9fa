"""QUALIFY, DuckDB's condition on windows, over noisy rows as DuckDB has it over the raw ones."""

from __future__ import annotations

import pytest

from tallyveil.errors import StatementError
from tests.rewriter.surface import World
from tests.rewriter.world import normal

GROUPED = "SELECT state, sex, count(*) AS n FROM person GROUP BY state, sex"
BEST = "row_number() OVER (PARTITION BY state ORDER BY n DESC, sex) = 1"


@pytest.mark.parametrize(
    "sql",
    [
        f"{GROUPED} QUALIFY row_number() OVER (PARTITION BY state ORDER BY count(*) DESC, sex) = 1",
        f"{GROUPED} QUALIFY {BEST}",
        f"SELECT * FROM ({GROUPED}) AS t QUALIFY {BEST}",
        f"WITH c AS ({GROUPED}) SELECT state, n FROM c WHERE n > 3 "
        "QUALIFY n = max(n) OVER (PARTITION BY state)",
        "SELECT state, avg(age) AS m, rank() OVER (ORDER BY count(*) DESC) AS r FROM person "
        "GROUP BY state QUALIFY r <= 2 AND m > 1",
        "SELECT state, count(*) FROM person GROUP BY state HAVING count(*) > 10 "
        "QUALIFY count(*) > avg(count(*)) OVER () ORDER BY 2 LIMIT 1",
        "SELECT state FROM person GROUP BY state QUALIFY row_number() OVER (ORDER BY avg(age)) = 1",
        "SELECT region, row_number() OVER (ORDER BY pop) AS r FROM region QUALIFY r < 3",
        "SELECT count(*) FROM person AS p JOIN (SELECT code FROM region QUALIFY row_number() OVER "
        "(PARTITION BY code ORDER BY pop) = 1) AS r ON p.state = r.code",
    ],
)
def test_it_keeps_the_rows_that_duckdb_keeps(surface: World, sql: str) -> None:
    assert normal(surface.exact(sql)) == normal(surface.direct(sql))


def test_group_by_all_may_stand_beside_it(surface: World) -> None:
    grouped = surface.exact(f"{GROUPED} QUALIFY {BEST}")
    named = GROUPED.replace("state, sex", "ALL").replace("SELECT ALL", "SELECT state, sex")
    assert normal(surface.exact(f"{named} QUALIFY {BEST}")) == normal(grouped)


@pytest.mark.parametrize(
    ("sql", "state", "message"),
    [
        ("SELECT state FROM person QUALIFY row_number() OVER () = 1", "0A000", "rows of a prot"),
        ("SELECT DISTINCT state FROM person QUALIFY count(*) OVER () > 1", "0A000", "rows of"),
        (
            "SELECT count(*) FROM (SELECT state FROM person QUALIFY row_number() OVER "
            "(PARTITION BY state) = 1) AS t",
            "0A000",
            "QUALIFY below the aggregation",
        ),
        (f"{GROUPED} QUALIFY row_number() OVER (ORDER BY age) = 1", "42803", 'column "age"'),
        (f"{GROUPED} QUALIFY n > 3", "42P20", "QUALIFY needs a window"),
    ],
)
def test_of_records_it_is_refused(surface: World, sql: str, state: str, message: str) -> None:
    with pytest.raises(StatementError, match=message) as caught:
        surface.plan(sql)
    assert caught.value.sqlstate == state


@pytest.mark.parametrize("rank", ["row_number() OVER (ORDER BY n DESC) <= 3", "3 >= r"])
def test_a_rank_that_noise_decides_is_checked(surface: World, rank: str) -> None:
    plan = surface.plan(
        "SELECT age, count(*) AS n, rank() OVER (ORDER BY count(*) DESC) AS r FROM person "
        f"GROUP BY age QUALIFY {rank}"
    )
    assert [(check.about, check.last) for check in plan.checks] == [("rank", 3)]
    assert "OFFSET 2" in plan.checks[0].sql
