"""Joins with public tables, subqueries, views and unions below the aggregation, and refusals."""

from __future__ import annotations

import pytest
from sqlglot import exp, parse_one

from tallyveil.errors import StatementError, StatementTooComplex
from tallyveil.rewriter.resolve.records import mark_records, yields_records
from tests.rewriter.surface import World
from tests.rewriter.world import normal


@pytest.fixture
def world(surface: World) -> World:
    return surface


# Every group of these has a record, or the statement says HAVING count(*) > 0.
ANSWERED = [
    # joins with public tables
    "SELECT count(*) FROM person p JOIN region r ON p.state = r.code",
    "SELECT region, count(*) FROM person JOIN region ON state = code GROUP BY region",
    "SELECT region, count(*), sum(pop) FROM person LEFT JOIN region ON state = code "
    "AND pop > 10 GROUP BY 1 HAVING count(*) > 0 AND count(pop) > 0",
    "SELECT r.region, count(r.code), count(*) FROM region r RIGHT JOIN person ON state = r.code "
    "GROUP BY r.region",
    "SELECT count(*), sum(age * pop) FROM person, region WHERE state = code AND pop < 30",
    "SELECT count(*) FROM person CROSS JOIN region",
    "SELECT count(*) FROM region r JOIN person p ON p.state = r.code WHERE r.pop > 10",
    "SELECT name, count(*) FROM person JOIN state_name USING (state) GROUP BY name",
    "SELECT state, name, count(*) FROM person LEFT JOIN state_name USING (state) GROUP BY 1, 2",
    "SELECT state, count(*) FROM state_name JOIN person USING (state) GROUP BY state",
    "SELECT label, count(*) FROM person JOIN band ON age BETWEEN low AND high GROUP BY label",
    "SELECT label, region, avg(age) FROM person JOIN band ON age >= low AND age <= high "
    "JOIN region ON code = state GROUP BY ALL HAVING count(*) > 0",
    "SELECT count(*) FROM region, band, person WHERE code = state AND age = low",
    "SELECT income < 250, count(*) FROM person JOIN band ON income >= 100 AND age = low GROUP BY 1",
    "SELECT r.region, count(*) FROM person p JOIN (SELECT code, upper(region) AS region FROM "
    "region WHERE pop > 5) r ON r.code = p.state GROUP BY 1",
    "SELECT t.n, count(*) FROM person JOIN (SELECT code, count(*) AS n FROM region GROUP BY code) "
    "AS t (c, n) ON c = state GROUP BY 1",
    "SELECT v.b, count(*) FROM person JOIN (VALUES ('AL', 1), ('AK', 2)) AS v (a, b) ON a = state "
    "GROUP BY 1",
    "SELECT count(*) FROM person p LEFT JOIN region r ON r.code = p.state LEFT JOIN band b "
    "ON b.low = r.pop WHERE b.label IS NULL",
    # after a comma, USING sees what follows it
    "SELECT count(*) FROM person p, state_name a JOIN state_name b USING (state)",
    "SELECT count(*) FROM state_name a, state_name b JOIN person p USING (state)",
    "SELECT count(*), sum(pop) FROM state_name JOIN person p USING (state), region WHERE pop > 10",
    "SELECT count(*) FROM region r, band b JOIN person ON code = state AND age > low",
    "SELECT name, count(*) FROM person, region LEFT JOIN state_name s ON code = s.state GROUP BY 1",
    # noisy rows joined with public ones
    "SELECT n.state, n.c, s.name FROM (SELECT state, count(*) AS c FROM person GROUP BY state) n "
    "JOIN state_name s ON s.state = n.state",
    "SELECT s.name, coalesce(n.c, 0) FROM state_name s LEFT JOIN (SELECT state, count(*) AS c "
    "FROM person WHERE age > 3 GROUP BY state) n USING (state)",
    # public tables alone
    "SELECT region, sum(pop) OVER (ORDER BY pop) FROM region ORDER BY 1",
    "SELECT r.*, b.label FROM region r JOIN band b ON pop = low * 2",
    "SELECT count(DISTINCT code), max(pop), median(pop) FROM region",
    # subqueries, common tables, views
    "SELECT h, count(*) FROM (SELECT age // 2 AS h, sex FROM person WHERE age > 3) t "
    "WHERE sex = 'F' GROUP BY h HAVING count(*) > 0",
    "SELECT count(*) FROM (SELECT a + 1 AS b FROM (SELECT age + 1 AS a FROM person) x) y "
    "WHERE b > 6",
    "WITH a AS (SELECT * FROM person WHERE age > 3), b AS (SELECT a.* FROM a WHERE sex = 'F') "
    "SELECT count(*), sum(age) FROM b",
    "WITH a (x, y) AS (SELECT age, state FROM person) SELECT y, sum(x) FROM a GROUP BY y",
    "WITH p AS (SELECT code AS c FROM region WHERE pop > 5) SELECT count(*) FROM person JOIN p "
    "ON c = state",
    "WITH a AS (SELECT age FROM person), n AS (SELECT count(*) AS n FROM a), "
    "m AS (SELECT count(*) AS m FROM a WHERE age > 3) SELECT n, m, n - m FROM n, m",
    "SELECT half, count(*) FROM adult GROUP BY half",
    "SELECT region, sum(age) FROM placed GROUP BY region",
    "SELECT sum(n) FROM by_state",
    "WITH a AS (SELECT * FROM adult) SELECT half, count(*) FROM a GROUP BY half",
    "WITH b AS (SELECT n / 2 AS h FROM by_state) SELECT sum(h) FROM b JOIN b AS c USING (h)",
    "SELECT one, count(*) FROM (SELECT 1 AS one, 'x' AS two FROM person) t GROUP BY one, two",
    "SELECT t.b >= 250, count(*) FROM (SELECT income AS b FROM person WHERE age > 2) t "
    "WHERE b >= 100 GROUP BY 1",
    "SELECT count(*) FROM (SELECT age FROM person ORDER BY age) t",
    "SELECT state, (SELECT count(*) FROM person) - count(*) FROM person GROUP BY state",
    # UNION ALL
    "SELECT count(*), sum(age) FROM (SELECT age FROM person UNION ALL SELECT age + 1 FROM person "
    "WHERE sex = 'F') t WHERE age > 5",
    "SELECT k, count(*) FROM (SELECT 1 AS k, age FROM person WHERE age < 9 UNION ALL "
    "SELECT 2, age FROM person UNION ALL SELECT 2, NULL FROM adult) t GROUP BY k",
    "SELECT x, count(*) FROM (SELECT age AS x FROM person UNION ALL SELECT 0.5 FROM person) t "
    "GROUP BY x HAVING count(*) > 0",
    "SELECT region, count(*) FROM (SELECT state FROM person UNION ALL SELECT 'AL' FROM person "
    "WHERE married) t JOIN region ON code = state GROUP BY region",
    "SELECT half, count(*) FROM (SELECT half FROM (SELECT age // 3 AS half FROM person UNION ALL "
    "SELECT age // 2 FROM person) u) t GROUP BY half",
    # subqueries over public tables
    "SELECT count(*) FROM person WHERE state IN (SELECT code FROM region WHERE pop > 15)",
    "SELECT count(*) FROM person WHERE state NOT IN (SELECT state FROM state_name)",
    "SELECT count(*) FROM person WHERE EXISTS (SELECT 1 FROM region WHERE pop > 35)",
    "SELECT count(*) FILTER (WHERE age > (SELECT min(high) FROM band)) FROM person",
    "SELECT sum((SELECT max(low) FROM band) - age) FROM person",
    # GROUP BY ALL takes columns of HAVING for keys
    "SELECT age % 2 AS k, count(*) FROM person GROUP BY ALL HAVING age % 2 = 1",
    "SELECT age % 2 AS k, count(*) AS n FROM person GROUP BY ALL HAVING k = 1 AND n > 0",
    "SELECT state, count(*) FROM person GROUP BY ALL HAVING lower(sex) = 'f' AND sum(age) > 3",
    "SELECT h % 2, count(*) FROM (SELECT age // 5 AS h FROM person) t GROUP BY ALL HAVING h > 1",
    "SELECT count(*) FROM (SELECT age AS h FROM person UNION ALL SELECT age + 1 FROM person) t "
    "GROUP BY ALL HAVING h > 15",
    # what DuckDB calls count(*) as well
    "SELECT sex, count() AS n, count() FILTER (WHERE age > 3) FROM person GROUP BY sex",
    # a name that is an attribute's and an item's
    "SELECT married, count(*) AS sex, rank() OVER (ORDER BY sex, married) FROM person "
    "GROUP BY married, sex",
    "SELECT state, count(*) AS n, rank() OVER (ORDER BY n DESC, state) FROM person GROUP BY state",
    "SELECT state, count(*) FROM person GROUP BY state HAVING EXISTS (SELECT 1 FROM region "
    "WHERE code = state)",
    "SELECT upper(state) AS state, count(*) FROM person WHERE state IN (SELECT state FROM "
    "state_name) GROUP BY person.state",
    # several blocks
    "SELECT 'a' AS which, count(*) FROM person UNION ALL SELECT 'v', count(*) FROM visit",
    "SELECT (SELECT count(*) FROM person WHERE age < 9) * 1.0 / (SELECT count(*) FROM person)",
    "WITH p AS (SELECT state, count(*) AS n FROM person GROUP BY state), v AS (SELECT state, "
    "sum(cost) AS c FROM visit GROUP BY state) SELECT state, n, c FROM p JOIN v USING (state)",
]


@pytest.mark.parametrize("sql", ANSWERED)
def test_what_is_answered_is_what_the_raw_rows_answer(world: World, sql: str) -> None:
    assert normal(world.exact(sql)) == normal(world.direct(sql))


REFUSED = [
    ("SELECT count(*) FROM person RIGHT JOIN region ON state = code", "0A000", "without a record"),
    ("SELECT count(*) FROM region LEFT JOIN person ON state = code", "0A000", "without a record"),
    ("SELECT count(*) FROM person FULL JOIN region ON state = code", "0A000", "without a record"),
    ("SELECT count(*) FROM person p JOIN person q ON p.age = q.age", "0A000", "records with"),
    ("SELECT count(*) FROM person JOIN visit USING (state)", "0A000", "records with records"),
    ("SELECT count(*) FROM person JOIN by_state USING (state)", "0A000", "over protected"),
    ("SELECT count(*) FROM person NATURAL JOIN region", "0A000", "not answered"),
    ("SELECT count(*) FROM person JOIN region ON income >= pop", "22023", "bin of income"),
    ("SELECT count(*) FROM person JOIN region ON income > 50", "22023", "bin of income"),
    ("SELECT count(*) FROM (SELECT income + 1 AS i FROM person) t WHERE i > 3", "22023", "bin"),
    ("SELECT count(*) FROM (SELECT income AS i FROM person) t WHERE i > 100", "22023", "bin"),
    (
        "SELECT count(*) FROM (SELECT income AS i FROM person UNION ALL SELECT age FROM person) t "
        "WHERE i > 100",
        "22023",
        "bin",
    ),
    ("SELECT count(*) FROM (SELECT * FROM person LIMIT 5) t", "0A000", "LIMIT below"),
    ("SELECT count(*) FROM (SELECT * FROM person OFFSET 5) t", "0A000", "OFFSET below"),
    (
        "SELECT count(*) FROM (SELECT * FROM person ORDER BY age LIMIT 5) t",
        "0A000",
        "LIMIT below",
    ),
    ("SELECT count(*) FROM (SELECT DISTINCT state FROM person) t", "0A000", "distinct values"),
    (
        "WITH d AS (SELECT DISTINCT state FROM person) SELECT count(*) FROM d",
        "0A000",
        "distinct values",
    ),
    ("SELECT count(*) FROM (SELECT rank() OVER () AS r FROM person) t", "0A000", "window"),
    ("SELECT count(*) FROM (SELECT age FROM person UNION SELECT 1) t", "0A000", "UNION of"),
    (
        "SELECT count(*) FROM (SELECT age FROM person UNION SELECT age FROM person) t",
        "0A000",
        "UNION of records",
    ),
    (
        "SELECT count(*) FROM (SELECT age FROM person EXCEPT SELECT age FROM person) t",
        "0A000",
        "EXCEPT of records",
    ),
    (
        "SELECT count(*) FROM (SELECT age FROM person UNION ALL SELECT pop FROM region) t",
        "0A000",
        "belong to no record",
    ),
    (
        "SELECT count(*) FROM (SELECT state FROM person UNION ALL SELECT state FROM visit) t",
        "0A000",
        "two protected tables",
    ),
    ("SELECT count(*) FROM person WHERE age IN (SELECT age FROM person)", "0A000", "protected"),
    (
        "SELECT count(*) FROM person WHERE age > (SELECT avg(age) FROM person)",
        "0A000",
        "protected",
    ),
    ("SELECT t.age FROM (SELECT age FROM person) t", "0A000", "rows of a protected table"),
    ("SELECT * FROM adult", "0A000", "rows of a protected table"),
    ("SELECT age FROM person UNION ALL SELECT age FROM person", "0A000", "rows of a protected"),
    ("SELECT sum(count(*)) FROM person", "42803", "aggregate"),
    ("SELECT count(*) FROM (SELECT age FROM person) t WHERE sex = 'F'", "42703", "sex"),
    ("SELECT count(*) FROM person p JOIN state_name s ON true WHERE state = 'AL'", "42702", "amb"),
    ("SELECT count(*) FROM (SELECT state FROM person GROUP BY 1) t", "0A000", "distinct values"),
    ("SELECT count(*) FROM (SELECT x.* FROM person) t", "42P01", 'table "x"'),
    ("SELECT count(*) FROM (person)", "0A000", "in brackets"),
    ("SELECT count(*) FROM person JOIN region USING (nothing)", "42703", "USING"),
    (
        "SELECT count(*) FROM person, region JOIN state_name USING (state)",
        "42703",
        "follows the last",
    ),
    (
        "SELECT count(*) FROM person p JOIN state_name a ON true JOIN state_name b USING (state)",
        "42702",
        "more than once",
    ),
    ("SELECT count(*) FROM person JOIN band b ON q.low = 1", "42P01", "q"),
    ("SELECT count(*) FROM person JOIN dp.budget ON true", "0A000", "schema dp"),
]


@pytest.mark.parametrize(("sql", "state", "words"), REFUSED)
def test_what_is_refused_says_why(world: World, sql: str, state: str, words: str) -> None:
    with pytest.raises(StatementError) as caught:
        world.plan(sql)
    assert caught.value.sqlstate == state
    assert words in str(caught.value)


def test_common_tables_that_grow_without_end_are_refused(world: World) -> None:
    items = ["c0 AS (SELECT age, age AS b FROM person)"]
    for n in range(1, 40):
        items.append(f"c{n} AS (SELECT age + b AS age, b + age AS b FROM c{n - 1})")
    with pytest.raises(StatementTooComplex):
        world.plan(f"WITH {', '.join(items)} SELECT sum(age) FROM c39")


def test_a_record_that_matches_twice_counts_twice(world: World) -> None:
    plan = world.plan("SELECT count(*) FROM person JOIN region ON state = code")
    column = plan.workloads["person"].columns[0]
    assert column.axes == ("state",)
    assert column.largest == 2


def test_groups_that_count_the_same_records_are_paid_for_once(world: World) -> None:
    plan = world.plan("SELECT region, count(*) FROM person JOIN region ON state = code GROUP BY 1")
    column = plan.workloads["person"].columns[0]
    assert plan.noisy[0].height == 3  # south and deep both stand for AL
    cells = column.factors[0].cells.tolist()
    assert (column.height, len(set(cells))) == (2, len(cells))


def test_a_starred_column_has_its_own_tables_type(world: World) -> None:
    source = "(SELECT code, pop * 0.5{} AS age FROM region) r ON r.code = p.state"
    sql = f"SELECT sum(age / 2) FROM (SELECT r.* FROM person p JOIN {source}) t"
    theirs = world.direct(sql.format(""))  # DuckDB divides without truncating
    assert normal(world.exact(sql.format("::float8"), "postgres")) == normal(theirs)


def test_a_star_has_a_column_of_using_once(world: World) -> None:
    sql = "SELECT count(*) FROM (SELECT * FROM person JOIN state_name USING (state)) t WHERE {}"
    sql = sql.format("t.state = 'AL' AND name = 'Alabama'")
    assert normal(world.exact(sql, "postgres")) == normal(world.direct(sql))


def test_a_view_means_the_same_in_every_dialect(world: World) -> None:
    sql = "SELECT half, count(*) FROM adult GROUP BY half"
    assert normal(world.exact(sql, "postgres")) == normal(world.exact(sql, "duckdb"))
    assert world.plan("SELECT count(*) FROM person WHERE age / 2 = 2.5", "duckdb").private


def test_a_query_that_nobody_looked_at_is_not_taken_for_public() -> None:
    query = parse_one("SELECT 1", into=exp.Select)
    with pytest.raises(KeyError):
        yields_records(query)
    mark_records(query)
    assert not yields_records(query)
