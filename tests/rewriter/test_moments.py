"""Variances and deviations: which linear queries they are, and what noise makes of them."""

from __future__ import annotations

import math

import pytest

from tallyveil.errors import InvalidParameterValue
from tests.rewriter.surface import World
from tests.rewriter.world import normal


@pytest.fixture
def world(surface: World) -> World:
    return surface


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT variance(pop), stddev_pop(age * pop) FROM person JOIN region ON state = code",
        "SELECT label, stddev(age - low), avg(age - low) FROM person JOIN band "
        "ON age BETWEEN low AND high GROUP BY label",
        "SELECT sex, var_pop(h) FROM (SELECT age AS h, sex FROM person UNION ALL "
        "SELECT age + 100, sex FROM person) t GROUP BY sex",
        "SELECT half, round(stddev(age), 3) FROM adult GROUP BY half HAVING var_pop(age) >= 0 "
        "AND count(*) > 1",
        "SELECT (SELECT stddev(cost) FROM visit) - stddev(age) FROM person WHERE age > 3",
        "SELECT var_samp(CASE WHEN age < 9 THEN 1000.25 ELSE 1000.75 END) FROM person",
        "SELECT sex, regr_slope(age, age * age), regr_intercept(age, age * age), "
        "regr_r2(age, age * age) FROM person WHERE age < 12 GROUP BY sex",
        "SELECT regr_avgx(y, x), regr_avgy(y, x), regr_sxx(y, x), regr_syy(y, x), regr_sxy(y, x), "
        "regr_count(y, x), regr_slope(y, x), regr_intercept(y, x), corr(y, x), covar_pop(y, x), "
        "covar_samp(y, x) FROM (SELECT CASE WHEN sex = 'F' THEN age * 2.5 WHEN sex = 'M' THEN "
        "3.25 - age END AS y, CASE WHEN age > 3 THEN age END AS x FROM person) AS t",
        "SELECT regr_avgx(age, x) FILTER (WHERE married), corr(x, age), avg(age), "
        "regr_count(x, age) FILTER (WHERE married) "
        "FROM (SELECT *, extract(day FROM born) AS x FROM person) AS t",
        "SELECT sex, corr(age, pop) FROM person JOIN region ON state = code GROUP BY sex",
        "SELECT sex, skewness(age * age), kurtosis(age * 1.5), kurtosis(age) FILTER (WHERE age > 9)"
        " FROM person GROUP BY sex",
        "SELECT corr(n, m), regr_slope(n, m), skewness(m) FROM (SELECT state, sex, count(*) AS n, "
        "sum(age) AS m FROM person GROUP BY state, sex) AS t",
        "SELECT state, count_if(sex = 'F'), count_if(age > 5) FILTER (WHERE married) FROM person "
        "GROUP BY state HAVING count_if(age > 3) > 2 ORDER BY count_if(sex = 'F')",
        "SELECT state, bool_or(n > 25), bool_and(n > 25) FROM (SELECT state, sex, count(*) AS n "
        "FROM person GROUP BY state, sex) AS t GROUP BY state",
        "SELECT count_if(n > 71) FROM (SELECT state, count(*) AS n FROM person GROUP BY state) t",
    ],
)
def test_they_are_those_of_the_raw_rows(world: World, sql: str) -> None:
    assert normal(world.exact(sql)) == normal(world.direct(sql))


def test_values_are_taken_from_the_middle_of_those_that_pass(world: World) -> None:
    plan = world.plan("SELECT var_pop(age + 1000) FROM person WHERE age >= 10 AND sex = 'F'")
    count, total, squares = plan.workloads["person"].columns
    # Ages 10 to 19, from 14 on: the middle of the domain, however far from 0.
    assert [count.largest, total.largest, squares.largest] == [1, 5, 25]
    filtered = world.plan("SELECT stddev(age) FILTER (WHERE age < 3) FROM person")
    assert [c.largest for c in filtered.workloads["person"].columns] == [1, 1, 1]


def test_a_sum_that_is_asked_anyway_is_not_asked_again(world: World) -> None:
    apart = world.plan("SELECT stddev(age), var_samp(age), count(age) FROM person")
    with_average = world.plan("SELECT avg(age), stddev(age) FROM person")
    other_filter = world.plan("SELECT avg(age) FILTER (WHERE married), stddev(age) FROM person")
    found = [len(p.workloads["person"].columns) for p in (apart, with_average, other_filter)]
    assert found == [3, 3, 5]


def test_a_constant_has_no_slope(world: World) -> None:
    """NULL as in PostgreSQL, whatever the noise of a denominator; regr_r2 is 1 of a constant y."""
    assert world.exact(
        "SELECT corr(age, 3), regr_slope(age, 3), regr_intercept(age, 3), regr_r2(age, 3), "
        "regr_r2(3, age), skewness(3), kurtosis(3), regr_sxx(age, 3), covar_pop(age, 3) FROM person"
    ) == [(None, None, None, None, 1.0, None, None, 0.0, 0.0)]
    empty = "SELECT regr_avgx(age, age), regr_sxx(age, age), covar_samp(age, age), "
    empty += "regr_count(age, age), kurtosis(age) FROM person WHERE age > 18 AND age < 19"
    assert world.exact(empty) == [(None, None, None, 0, None)]


def test_noise_takes_no_correlation_beyond_1(world: World) -> None:
    _, rows = world.cursor.rows(
        "SELECT __correlation(10, 0e0, 0e0, 4e0, 9e0, 4e0), __slope(10, 0e0, 0e0, -4e0, 3e0), "
        "__correlation(10, 0e0, 0e0, 4e0, -9e0, 4e0), __determination(10, 0e0, 0e0, 4e0, -9e0, 4e0)"
    )
    assert rows == [(1.0, None, -1.0, 1.0)]


def test_a_pair_shares_its_sums_with_averages(world: World) -> None:
    plan = world.plan("SELECT avg(age), corr(age, age * age), var_pop(age * age) FROM person")
    # n, Σ age, Σ (age² − d), and the three sums of squares and products; var_pop adds none.
    assert len(plan.workloads["person"].columns) == 6


def test_squares_that_do_not_add_up_exactly_are_refused(world: World) -> None:
    world.plan("SELECT var_pop(CASE WHEN married THEN 134217728 ELSE 0 END) FROM person")
    with pytest.raises(InvalidParameterValue, match="from 0 to 134217730 are too far") as caught:
        world.plan("SELECT var_pop(CASE WHEN married THEN 134217730 ELSE 0 END) FROM person")
    assert caught.value.position == 8
    with pytest.raises(InvalidParameterValue, match="inf"):
        world.plan("SELECT var_pop(CASE WHEN married THEN 'inf'::double ELSE 0 END) FROM person")


@pytest.mark.parametrize(
    ("n", "s", "q", "lost", "expected"),
    [
        (10, 0.0, -3.0, 1, 0.0),  # less than no spread, by noise
        (10, 20.0, 40.0, 0, 0.0),
        (1, 2.0, 50.0, 0, 46.0),
        (1, 2.0, 50.0, 1, None),
        (0, 2.0, 50.0, 0, None),
        (-4, 2.0, 50.0, 0, None),
        (10, None, 50.0, 0, None),
        (10, 2.0, None, 0, None),
        (None, 2.0, 50.0, 0, None),
    ],
)
def test_what_noise_makes_of_it(
    world: World, n: int | None, s: float | None, q: float | None, lost: int, expected: float | None
) -> None:
    written = ["NULL" if value is None else str(value) for value in (n, s, q, lost)]
    _, rows = world.cursor.rows(
        f"SELECT __variance({', '.join(written)}), sqrt(__variance({', '.join(written)}))"
    )
    assert rows == [(expected, None if expected is None else math.sqrt(expected))]
