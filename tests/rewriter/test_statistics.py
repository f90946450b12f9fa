"""Distinct counts, quantiles and fixed values: which histograms they are, without noise."""

from __future__ import annotations

import pytest

from tallyveil.errors import FeatureNotSupported
from tests.rewriter.surface import World
from tests.rewriter.world import normal


@pytest.fixture
def world(surface: World) -> World:
    return surface


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(DISTINCT age), approx_count_distinct(sex) FROM person",
        "SELECT sex, count(DISTINCT age), count(*), count(DISTINCT state) FROM person GROUP BY sex",
        "SELECT sex, count(DISTINCT age / 5) FROM person WHERE age > 3 AND state <> 'AL' "
        "GROUP BY 1",
        "SELECT age % 3 AS third, count(DISTINCT (sex, state)) FROM person GROUP BY third",
        "SELECT count(DISTINCT age) FILTER (WHERE married), count(DISTINCT married) FROM person",
        "SELECT count(DISTINCT CASE WHEN age > 9 THEN state END) + 1 FROM person HAVING "
        "count(DISTINCT age) > 2",
        "SELECT region, count(DISTINCT sex), count(DISTINCT state) FROM person JOIN (VALUES "
        "('AL', 'S'), ('AK', 'N')) AS r(code, region) ON state = code GROUP BY region",
        "SELECT sex, state, count(DISTINCT age) FROM person GROUP BY ROLLUP (sex, state)",
        "SELECT avg(d) FROM (SELECT sex, count(DISTINCT age) AS d FROM person GROUP BY sex) t",
        "SELECT (SELECT count(DISTINCT age) FROM person) - count(DISTINCT state) FROM person",
        "SELECT quantile_disc(age, 0.5), quantile_disc(age, 0.9) FROM person",
        "SELECT sex, quantile_disc(age + 0.25, 0.3) FROM person GROUP BY sex",
        "SELECT sex, quantile_disc(age, 0.3) FILTER (WHERE age > 9) FROM person GROUP BY sex",
        "SELECT quantile_disc(born, 0.25), quantile(born, 0.7) FROM person WHERE sex = 'F'",
        "SELECT percentile_disc(0.3) WITHIN GROUP (ORDER BY -age) FROM person",
        "SELECT sex, min(sex), max(upper(sex)), count(*) FROM person GROUP BY sex "
        "HAVING count(*) > 0",
        "SELECT min(age), max(age * 2) FROM person WHERE age = 4",
        "SELECT min(age) FILTER (WHERE age = 4), count(*) FROM person",
    ],
)
def test_they_are_those_of_the_raw_rows(world: World, sql: str) -> None:
    assert normal(world.exact(sql, "duckdb")) == normal(world.direct(sql))


def test_a_continuous_quantile_is_a_value(world: World) -> None:
    """What it lies between are values too, so the lower one is an answer of the same rank."""
    found = world.exact("SELECT sex, median(age), quantile_cont(age, 0.3) FROM person GROUP BY sex")
    lower = world.direct(
        "SELECT sex, quantile_disc(age, 0.5), quantile_disc(age, 0.3) FROM person GROUP BY sex"
    )
    assert normal(found) == normal(lower)


def test_postgresql_writes_them_otherwise(world: World) -> None:
    sql = "SELECT percentile_cont(0.3) WITHIN GROUP (ORDER BY age DESC) FROM person"
    (histogram,) = world.plan(sql).histograms["person"]
    assert str(histogram.q) == "7/10"


def test_equal_ones_are_one_histogram(world: World) -> None:
    """Also with several names and values, and in several SELECTs."""
    plan = world.plan(
        "SELECT count(DISTINCT age), count(DISTINCT age + 1), count(DISTINCT -age) FROM person "
        "UNION ALL SELECT count(DISTINCT age), 0, 0 FROM person WHERE sex = sex OR sex IS NULL"
    )
    assert len(plan.histograms["person"]) == 1


def test_a_value_that_is_not_fixed_is_refused(world: World) -> None:
    for sql in [
        "SELECT state, max(sex) FROM person GROUP BY state",
        "SELECT min(CASE WHEN age = 4 THEN 1 END) FROM person",
    ]:
        with pytest.raises(FeatureNotSupported, match="several values"):
            world.plan(sql)
