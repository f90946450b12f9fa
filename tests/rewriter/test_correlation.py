"""Queries over public tables about each record: as DuckDB answers on the raw rows, or refused."""

from __future__ import annotations

import pytest

from tallyveil.errors import StatementError
from tests.rewriter.surface import World
from tests.rewriter.world import normal


@pytest.fixture
def world(surface: World) -> World:
    return surface


# Every group of these has a record, or the statement says HAVING count(*) > 0.
ANSWERED = [
    "SELECT (SELECT max(region) FROM region WHERE code = state) AS r, count(*) FROM "
    "person GROUP BY ALL",
    "SELECT count(*), (SELECT max(pop) FROM region) FROM person GROUP BY ALL",
    "SELECT (SELECT max(region) FROM region WHERE code = state) AS r, count(*) FROM "
    "person GROUP BY (SELECT max(region) FROM region WHERE code = state)",
    "SELECT count(*) FROM person WHERE EXISTS (SELECT 1 FROM region r WHERE r.code = person.state)",
    "SELECT count(*) FROM person p WHERE NOT EXISTS (SELECT 1 FROM region WHERE code = "
    "p.state AND pop > 15)",
    "SELECT count(*) FROM person p WHERE NOT EXISTS (SELECT 1 FROM region WHERE code = "
    "state AND pop > age)",
    "SELECT sex, count(*) FILTER (WHERE EXISTS (SELECT 1 FROM region WHERE code = state "
    "AND region = 'south')) FROM person GROUP BY sex",
    "SELECT sum(CASE WHEN EXISTS (SELECT 1 FROM region WHERE code = state) THEN age "
    "ELSE 0 END), count(*) FROM person",
    "SELECT count(*) FROM person p WHERE age IN (SELECT low FROM band WHERE high > p.age)",
    "SELECT count(*) FROM person p WHERE age NOT IN (SELECT low FROM band WHERE high > p.age)",
    "SELECT count(*) FROM person p WHERE state NOT IN (SELECT code FROM region WHERE pop > p.age)",
    "SELECT count(*) FROM person p WHERE age > (SELECT max(pop) FROM region WHERE code "
    "= p.state) - 5",
    "SELECT sum((SELECT sum(pop) FROM region WHERE code = state)) FROM person",
    "SELECT (SELECT max(region) FROM region WHERE code = state) AS r, count(*) FROM "
    "person GROUP BY 1",
    "SELECT (SELECT label FROM band WHERE age BETWEEN low AND high AND low > 4) AS r, "
    "count(*) FROM person WHERE age < 12 GROUP BY r",
    "SELECT state, count(*), (SELECT max(pop) FROM region WHERE code = state) FROM "
    "person GROUP BY state",
    "SELECT state, count(*) FROM person GROUP BY state HAVING EXISTS (SELECT 1 FROM "
    "region WHERE code = state)",
    "SELECT state, sex, count(*) FROM person p GROUP BY 1, 2 HAVING count(*) > 0 ORDER "
    "BY (SELECT max(pop) FROM region WHERE code = p.state)",
    "SELECT count(*) FROM (SELECT * FROM person p WHERE EXISTS (SELECT 1 FROM region "
    "WHERE code = p.state)) t WHERE age > 4",
    "SELECT f, count(*) FROM (SELECT EXISTS (SELECT 1 FROM region WHERE code = state) "
    "AS f, age + 1 AS b FROM person) t WHERE EXISTS (SELECT 1 FROM band WHERE t.b "
    "BETWEEN low AND high) GROUP BY f",
    "SELECT count(*) FROM (SELECT age AS x, state FROM person UNION ALL SELECT age + 1, "
    "'AL' FROM person) t WHERE EXISTS (SELECT 1 FROM region WHERE code = t.state AND "
    "pop > t.x)",
    "SELECT count(*) FROM person p JOIN region r ON EXISTS (SELECT 1 FROM band WHERE "
    "low = p.age AND high > r.pop)",
    "SELECT count(*) FROM person p JOIN region r ON r.code = p.state WHERE NOT EXISTS "
    "(SELECT 1 FROM region q WHERE q.pop > r.pop AND q.code = r.code)",
    "SELECT count(*) FROM person WHERE EXISTS (SELECT 1 FROM (SELECT code FROM region "
    "WHERE code = person.state) x)",
    "SELECT count(*) FROM person WHERE EXISTS (SELECT 1 FROM region r WHERE r.code = "
    "person.state AND EXISTS (SELECT 1 FROM band WHERE low < r.pop AND high > "
    "person.age))",
    "SELECT count(*) FROM person WHERE EXISTS (SELECT 1 FROM region WHERE code = "
    "person.state UNION ALL SELECT 1 FROM band WHERE low = age)",
    "WITH r AS (SELECT code AS c FROM region WHERE pop > 10) SELECT count(*) FROM "
    "person WHERE EXISTS (SELECT 1 FROM r WHERE c = state)",
    "SELECT count(*) FROM person WHERE EXISTS (WITH r AS (SELECT code AS c FROM region "
    "WHERE pop > 10) SELECT 1 FROM r WHERE c = state)",
    "SELECT count(*) FROM person WHERE EXISTS (SELECT 1 FROM (VALUES ('AL'), ('WY')) "
    "v(s) WHERE s = state)",
    "SELECT count(*) FROM person WHERE EXISTS (SELECT 1 FROM state_name WHERE state = "
    "person.state)",
    "SELECT count(*) FROM person WHERE EXISTS (SELECT 1 FROM state_name WHERE state = state)",
    "SELECT count(*) FROM person p WHERE (SELECT count(*) FROM region WHERE code = p.state) = 2",
    "SELECT count(*) FILTER (WHERE (SELECT count(*) FROM region WHERE code = p.state) = 2), "
    "3 * count(p.state) - count(p.age) FILTER (WHERE sex = 'F' OR p.age < 3) FROM person p",
    "SELECT count(*) FROM person p WHERE (SELECT sum(r.pop * p.age) FROM region r WHERE "
    "r.code = p.state) > 100",
    "SELECT count(*) FROM person p WHERE EXISTS (SELECT 1 FROM region WHERE p.income < "
    "100 AND code = 'AK')",
    "SELECT count(*) FROM person p WHERE EXISTS (SELECT 1 FROM region WHERE code = "
    "p.state LIMIT 1)",
    "SELECT p.state, count(*), (SELECT n FROM by_state b WHERE b.state = p.state) FROM "
    "person p WHERE state IS NOT NULL GROUP BY state",
    "WITH t AS (SELECT state, count(*) c FROM person WHERE age > 3 GROUP BY state) "
    "SELECT state, count(*) - (SELECT c FROM t WHERE t.state = person.state) FROM "
    "person WHERE state IN ('AL','AK') GROUP BY state",
    "SELECT t.state, t.n, EXISTS (SELECT 1 FROM region WHERE code = t.state) FROM "
    "(SELECT state, count(*) AS n FROM person GROUP BY state) t",
    "SELECT count(*) FROM person WHERE state = ANY (SELECT code FROM region WHERE pop > "
    "person.age)",
    "SELECT stddev(age) FILTER (WHERE EXISTS (SELECT 1 FROM region WHERE code = state)) "
    "FROM person",
    "SELECT sex, count(*) FROM person WHERE EXISTS (SELECT 1 FROM region WHERE code = "
    "state) GROUP BY rollup(sex)",
    "SELECT EXISTS (SELECT 1 FROM region WHERE code = state), count(*) FROM person "
    "GROUP BY EXISTS (SELECT 1 FROM region WHERE code = state)",
    "SELECT count(*) FROM person WHERE EXISTS (SELECT age AS pop2 FROM region WHERE pop2 = pop)",
    "SELECT count(*) FROM person WHERE EXISTS (SELECT row_number() OVER (PARTITION BY "
    "code ORDER BY age) FROM region WHERE code = state)",
    "SELECT count(*) FROM adult a WHERE EXISTS (SELECT 1 FROM band WHERE low = a.half)",
]


@pytest.mark.parametrize("sql", ANSWERED)
def test_what_is_answered_is_what_the_raw_rows_answer(world: World, sql: str) -> None:
    assert normal(world.exact(sql)) == normal(world.direct(sql))


REFUSED = [
    (
        "SELECT state, count(*), (SELECT max(pop) FROM region WHERE pop < p.age) FROM "
        "person p GROUP BY state",
        "42803",
        "GROUP BY",
    ),
    (
        "SELECT count(*) FROM person WHERE EXISTS (SELECT 1 FROM (VALUES ('AL'), "
        "('WY')) v WHERE v.col0 = state)",
        "0A000",
        "is not clear",
    ),
    (
        "SELECT count(*) FROM person p WHERE (SELECT max(p.age) FROM region) = 2",
        "0A000",
        "own attributes",
    ),
    (
        "SELECT count(*) FROM person p WHERE (SELECT income FROM state_name WHERE "
        "name='Alaska') > 120",
        "22023",
        "stands inside a subquery",
    ),
    (
        "SELECT count(*) FROM person p WHERE EXISTS (SELECT 1 FROM region WHERE p.income > 100)",
        "22023",
        "bin of income",
    ),
    (
        "SELECT count(*) FROM person p WHERE EXISTS (SELECT p.income FROM region WHERE pop > 0)",
        "22023",
        "stands inside a subquery",
    ),
    (
        "SELECT count(*) FROM (SELECT income AS i FROM person) p WHERE EXISTS (SELECT 1 "
        "FROM region WHERE p.i + pop > 100)",
        "22023",
        "bin of income",
    ),
    (
        "SELECT count(*) FROM (SELECT income + 1 AS i FROM person) p WHERE EXISTS "
        "(SELECT 1 FROM region WHERE p.i > 100)",
        "22023",
        "bin of income",
    ),
    (
        "SELECT count(*) FROM (SELECT income AS i FROM person UNION ALL SELECT age FROM "
        "person) p WHERE EXISTS (SELECT 1 FROM region WHERE p.i > pop)",
        "22023",
        "bin of income",
    ),
    (
        "SELECT count(*) FROM person p WHERE EXISTS (SELECT 1 FROM region WHERE code = p.nothing)",
        "42703",
        "nothing",
    ),
    (
        "SELECT count(*) FROM person p WHERE EXISTS (SELECT 1 FROM region WHERE code = nothing)",
        "42703",
        "nothing",
    ),
    (
        "SELECT count(*) FROM person p WHERE EXISTS (SELECT 1 FROM region WHERE code = q.state)",
        "42P01",
        "q",
    ),
    (
        "SELECT count(*) FROM person p WHERE age > (SELECT pop FROM region WHERE code = "
        "p.state LIMIT 1)",
        "0A000",
        "LIMIT in",
    ),
    (
        "SELECT count(*) FROM person p WHERE age > (SELECT pop FROM region WHERE code = p.state)",
        "21000",
        "more than one row",
    ),
    (
        "SELECT count(*) FROM person p WHERE EXISTS (SELECT 1 FROM visit v WHERE "
        "v.state = p.state)",
        "0A000",
        "over protected",
    ),
    (
        "SELECT count(*) FROM person p WHERE EXISTS (SELECT 1 FROM by_state v WHERE "
        "v.state = p.state)",
        "0A000",
        "over protected",
    ),
    (
        "SELECT state, (SELECT count(*) FROM person q WHERE q.state = p.state) FROM "
        "person p GROUP BY state",
        "0A000",
        "over records cannot refer",
    ),
]


@pytest.mark.parametrize(("sql", "state", "words"), REFUSED)
def test_what_is_refused_says_why(world: World, sql: str, state: str, words: str) -> None:
    with pytest.raises(StatementError) as caught:
        world.plan(sql)
    assert caught.value.sqlstate == state
    assert words in str(caught.value.message) + str(caught.value.detail)


def test_only_the_attributes_that_are_mentioned_are_tied(world: World) -> None:
    plan = world.plan(
        "SELECT age, count(*) FROM person WHERE EXISTS (SELECT 1 FROM region WHERE code = state) "
        "AND EXISTS (SELECT 1 FROM band WHERE low <= age) GROUP BY age"
    )
    (column,) = plan.workloads["person"].columns
    assert set(column.axes) == {"state", "age"}
    assert column.largest == 1


def test_a_column_of_the_public_table_comes_first(world: World) -> None:
    inner = "SELECT count(*) FROM person WHERE EXISTS (SELECT 1 FROM state_name WHERE state = 'AL')"
    plan = world.plan(inner)
    assert plan.workloads["person"].columns[0].axes == ()
