"""Intervals, deviations and claims above the SELECT that aggregates: by aliases, subqueries, …"""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from tallyveil.errors import StatementError
from tallyveil.rewriter import Claim
from tests.pairs import one_in
from tests.rewriter.listed import statements
from tests.rewriter.surface import World
from tests.rewriter.world import normal


@pytest.fixture
def world(surface: World) -> World:
    return surface


ANSWERED, REFUSED = statements("intervals_above.sql")


@pytest.mark.parametrize("sql", one_in(2, ANSWERED, first=1))
def test_intervals_of_no_width_are_the_values(world: World, sql: str) -> None:
    without = re.sub(r"dp_interval_(low|high)", "", sql)
    assert normal(world.exact(sql)) == normal(world.direct(without))
    columns = [len(row) for row in world.direct(without)]
    assert [len(row) for row in world.exact(sql)] == columns


@pytest.mark.parametrize("sql", one_in(2, ANSWERED))
def test_claims_and_deviations_go_wherever_intervals_do(world: World, sql: str) -> None:
    """Without noise a claim has probability 1 or 0, and the deviation is 0."""
    asked = r"dp_interval_(?:low|high)\(([^()]*)\)"
    claim = re.sub(asked, r"dp_probability(\1, 7 - 2, NULL)", sql)
    assert normal(world.exact(claim)) == normal(
        world.direct(re.sub(asked, r"(CAST(\1 >= 5 AS INTEGER) + 0.0)", sql))
    )
    deviation = re.sub(asked, r"dp_stddev(\1)", sql)
    assert normal(world.exact(deviation)) == normal(world.direct(re.sub(asked, r"(0.0 * \1)", sql)))


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


SEVERAL, NOT_SEVERAL = statements("intervals_of_several.sql")


@pytest.mark.parametrize("sql", one_in(2, SEVERAL))
def test_intervals_of_several_of_no_width_are_the_values(world: World, sql: str) -> None:
    without = re.sub(r"dp_interval_(low|high)", "", sql)
    assert normal(world.exact(sql)) == normal(world.direct(without))


@pytest.mark.parametrize("sql", NOT_SEVERAL)
def test_what_is_no_quotient_has_no_interval(world: World, sql: str) -> None:
    with pytest.raises(StatementError, match="dp_interval_low takes") as caught:
        world.plan(sql)
    assert caught.value.sqlstate == "0A000"
    assert caught.value.position is not None
