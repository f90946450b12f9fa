"""Intervals, deviations and claims above the SELECT that aggregates: by aliases, subqueries, …"""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from tallyveil.errors import StatementError
from tallyveil.rewriter import Claim
from tests.rewriter.surface import World
from tests.rewriter.world import normal


@pytest.fixture
def world(surface: World) -> World:
    return surface


ANSWERED = [
    "SELECT n, dp_interval_low(n), dp_interval_high(n) FROM (SELECT count(*) AS n FROM person) t",
    "SELECT t.n, dp_interval_low(t.n) FROM (SELECT count(*) AS n FROM person) t",
    "WITH c AS (SELECT state, count(*) AS n FROM person GROUP BY state) SELECT state, "
    "n, dp_interval_high(n) AS h FROM c ORDER BY dp_interval_low(c.n)",
    "WITH c (s, m) AS (SELECT state, count(*) AS n FROM person GROUP BY state) SELECT "
    "s, m, dp_interval_high(m) AS h FROM c",
    "WITH c (s) AS (SELECT state, count(*) AS n FROM person GROUP BY state) SELECT *, "
    "dp_interval_high(n) AS h FROM c",
    "SELECT *, dp_interval_low(a) FROM (SELECT x, a FROM (SELECT state AS x, sum(age) "
    "AS a FROM person GROUP BY state) i) o WHERE dp_interval_low(a) > 10",
    "SELECT *, dp_interval_low(a) FROM (SELECT * FROM (SELECT state AS x, sum(age) AS a "
    "FROM person GROUP BY state) i) o",
    "SELECT o.*, dp_interval_low(b) FROM (SELECT *, a AS b FROM (SELECT state AS x, "
    "sum(age) AS a FROM person GROUP BY state) i) o",
    "WITH p AS (SELECT state, count(*) AS n FROM person GROUP BY state), v AS (SELECT "
    "state, sum(cost) AS n FROM visit GROUP BY state) SELECT p.state, p.n, "
    "dp_interval_low(p.n), v.n, dp_interval_high(v.n) FROM p JOIN v ON p.state = "
    "v.state",
    "WITH p AS (SELECT state, count(*) AS n FROM person GROUP BY state), v AS (SELECT "
    "state, sum(cost) AS c FROM visit GROUP BY state) SELECT *, dp_interval_low(n), "
    "dp_interval_high(c) FROM p LEFT JOIN v USING (state)",
    "WITH c AS (SELECT state, count(*) AS n FROM person GROUP BY state) SELECT a.state, "
    "dp_interval_low(a.n), dp_interval_low(b.n) FROM c a JOIN c b ON a.state = b.state",
    "SELECT n AS m, dp_interval_low(m) FROM (SELECT count(*) AS n FROM person) t",
    "SELECT n, dp_interval_low(n) FROM (SELECT state, count(*) AS n FROM person GROUP BY state)",
    "SELECT k, n, dp_interval_low(n) FROM (SELECT 'p' AS k, count(*) AS n FROM person "
    "UNION ALL SELECT 'v', count(*) AS m FROM visit) t",
    "SELECT state, n, dp_interval_low(n) FROM by_state",
    "SELECT max(dp_interval_low(n)), sum(dp_interval_high(n)) FROM by_state",
    "SELECT state, n, rank() OVER (ORDER BY dp_interval_low(n) DESC) FROM by_state",
    "SELECT r.region, n, dp_interval_low(n) FROM by_state b JOIN region r ON r.code = b.state",
    "SELECT n, dp_interval_low(n) FROM (SELECT count(*) + 10 AS n FROM person) t",
    "SELECT n, dp_interval_low(n) FROM (SELECT count(*) - count(sex) AS n FROM person) t",
    "SELECT n, dp_interval_low(n) FROM (SELECT (count(*)) AS n, state FROM person GROUP "
    "BY ROLLUP(state)) t",
    "SELECT n, dp_interval_low(n) FROM (SELECT count(*) AS n, state FROM person GROUP BY ALL) t",
    "SELECT n, dp_interval_low(n) FROM (SELECT count(*) AS n FROM person GROUP BY state "
    "ORDER BY n, state LIMIT 1) t",
    "SELECT count, dp_interval_low(count) FROM (SELECT count(*) AS count FROM person) t",
    "WITH a AS (SELECT count(*) AS n FROM person), b AS (SELECT n AS m FROM a) SELECT "
    "m, dp_interval_low(m), dp_interval_high(b.m), n FROM b, a",
    "SELECT state, count(*) AS n, dp_interval_low(n) FROM person GROUP BY state "
    "HAVING dp_interval_high(n) > 10 ORDER BY dp_interval_low(n), state",
    "SELECT state, CASE WHEN dp_interval_low(n) > 3 THEN 'many' END AS word FROM by_state",
    "SELECT dp_interval_low(n) - dp_interval_low(n) FROM (SELECT count(*) AS n FROM person) t",
]


@pytest.mark.parametrize("sql", ANSWERED)
def test_intervals_of_no_width_are_the_values(world: World, sql: str) -> None:
    without = re.sub(r"dp_interval_(low|high)", "", sql)
    assert normal(world.exact(sql)) == normal(world.direct(without))
    columns = [len(row) for row in world.direct(without)]
    assert [len(row) for row in world.exact(sql)] == columns


@pytest.mark.parametrize("sql", ANSWERED)
def test_claims_and_deviations_go_wherever_intervals_do(world: World, sql: str) -> None:
    """Without noise a claim has probability 1 or 0, and the deviation is 0."""
    asked = r"dp_interval_(?:low|high)\(([^()]*)\)"
    claim = re.sub(asked, r"dp_probability(\1, 7 - 2, NULL)", sql)
    assert normal(world.exact(claim)) == normal(
        world.direct(re.sub(asked, r"(CAST(\1 >= 5 AS INTEGER) + 0.0)", sql))
    )
    deviation = re.sub(asked, r"dp_stddev(\1)", sql)
    assert normal(world.exact(deviation)) == normal(world.direct(re.sub(asked, r"(0.0 * \1)", sql)))


REFUSED = [
    "SELECT n, dp_interval_low(n) FROM (SELECT 2 * count(*) AS n FROM person) t",
    "SELECT n, dp_interval_low(n) FROM (SELECT avg(age) AS n FROM person) t",
    "SELECT n, dp_interval_low(n) FROM (SELECT state AS n, count(*) FROM person GROUP BY ALL) t",
    "SELECT dp_interval_low(n + 1) FROM (SELECT count(*) AS n FROM person) t",
    "SELECT dp_interval_low(m) FROM (SELECT sum(n) AS m FROM by_state) t",
    "SELECT dp_interval_low(m) FROM (SELECT n + 1 AS m FROM by_state) t",
    "SELECT dp_interval_low(n) FROM (SELECT DISTINCT n FROM by_state) t",
    "SELECT dp_interval_low(n) FROM (SELECT n FROM by_state UNION SELECT n FROM by_state) t",
    "SELECT dp_interval_low(n) FROM (SELECT n FROM by_state UNION ALL SELECT 1) t",
    "SELECT dp_interval_low(pop) FROM region",
    "SELECT dp_interval_low(n) FROM by_state a, by_state b",
    "SELECT dp_interval_low(z) FROM by_state a",
    "SELECT dp_interval_low(3)",
    "SELECT dp_interval_low((SELECT count(*) FROM person))",
    "SELECT n, dp_interval_low(n) FROM (SELECT n FROM by_state GROUP BY n) t",
    "SELECT spent FROM (SELECT dp_interval_low(spent) AS spent FROM dp.budget) t",
]


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_no_aggregate_has_no_interval(world: World, sql: str) -> None:
    with pytest.raises(StatementError) as caught:
        world.plan(sql)
    assert caught.value.sqlstate in ("0A000", "42702")
    assert caught.value.position is not None
    assert "dp_interval_low takes" in caught.value.message or "ambiguous" in caught.value.message
    for name, more in (("dp_stddev", ""), ("dp_probability", ", 0, 5")):
        other = re.sub(
            r"dp_interval_low\(((?:[^()]|\([^()]*(?:\(\*\))?[^()]*\))*)\)",
            rf"{name}(\1{more})",
            sql,
        )
        assert name in other
        with pytest.raises(StatementError) as caught:
            world.plan(other)
        assert caught.value.sqlstate in ("0A000", "42702")
        assert f"{name} takes" in caught.value.message or "ambiguous" in caught.value.message


def test_they_are_asked_once(world: World) -> None:
    plan = world.plan(
        "WITH c AS (SELECT state, count(*) AS n FROM person GROUP BY state) "
        "SELECT a.n, dp_interval_low(a.n), dp_interval_low(b.n), dp_interval_high(b.n) "
        "FROM c a, c b"
    )
    (table,) = plan.noisy
    assert len(table.outputs) == 1
    plan = world.plan(
        "WITH c AS (SELECT state, count(*) AS n FROM person GROUP BY state) "
        "SELECT dp_probability(a.n, 1, 2), dp_probability(b.n, 2 - 1, 2.0), dp_stddev(b.n), "
        "dp_probability(b.n, 1, 3) FROM c a, c b"
    )
    (table,) = plan.noisy
    assert table.deviations == (0,)
    assert table.claims == (Claim(0, Fraction(1), Fraction(2)), Claim(0, Fraction(1), Fraction(3)))
