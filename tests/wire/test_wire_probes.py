"""Queries without rows, by which clients learn of columns: PostgreSQL's columns and types, free."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tallyveil.proxy.protocol import messages as m
from tests.proxy.raw_client import RawClient

PERSON = """CREATE TEMPORARY TABLE person
    (state text, age int, sex text, income int, married boolean, pid int)"""

PROBES = [
    "SELECT * FROM person LIMIT 0",
    "SELECT * FROM person FETCH FIRST 0 ROWS ONLY",
    "SELECT * FROM person WHERE 1=0",
    "SELECT * FROM person WHERE (1 = 0)",
    "SELECT * FROM person WHERE false",
    "SELECT * FROM person WHERE 1 <> 1 LIMIT 0",
    "SELECT * FROM person WHERE age > 3 AND 0 = 1",
    'SELECT * FROM person AS "Custom SQL Query" WHERE NOT (1 = 1)',
    "SELECT * FROM (SELECT * FROM person) t LIMIT 0",
    "SELECT * FROM (SELECT * FROM person LIMIT 0) t",
    "SELECT * FROM (SELECT * FROM person LIMIT 0) t WHERE age > 3 ORDER BY 1",
    "SELECT * FROM (SELECT state, count(*) AS n FROM person GROUP BY state) q01 WHERE (0 = 1)",
    'SELECT "person"."state" AS "state" FROM "person" "person" LIMIT 0',
    'SELECT "t"."state" FROM person "t" LIMIT 0',
    "SELECT age + 1 AS x, income / 2, upper(state), sex IS NULL FROM person LIMIT 0",
    "SELECT max(age), count(DISTINCT state) FROM person LIMIT 0",
    "SELECT state, row_number() OVER (ORDER BY age) FROM person LIMIT 0",
    "SELECT a.state, b.age FROM person a JOIN person b ON a.state = b.state LIMIT 0",
    "WITH q AS (SELECT * FROM person) SELECT * FROM q WHERE 0=1",
    "SELECT state FROM person WHERE 1=0 UNION ALL SELECT sex FROM person WHERE 1=0",
    "SELECT * FROM person p(a, b) LIMIT 0",
    "SELECT count(*) FROM (SELECT * FROM person LIMIT 0) t",
    "SELECT state, count(*) FROM person WHERE 1=0 GROUP BY state",
    "SELECT sex, EXISTS (SELECT 1 FROM person WHERE 1=0) AS e FROM (SELECT 'F' AS sex) t",
]  # fmt: skip


def test_columns_and_types_are_postgresqls(house: Any, postgres: psycopg.Connection[Any]) -> None:
    def described(connection: psycopg.Connection[Any], sql: str) -> Any:
        cursor = connection.execute(sql.encode())
        columns = [(c.name, c.type_code) for c in cursor.description or ()]
        return columns, cursor.fetchall(), cursor.statusmessage

    postgres.execute(PERSON)
    with house.connect() as connection:
        for sql in PROBES:
            assert described(connection, sql) == described(postgres, sql), sql
    postgres.execute("DROP TABLE person")
    assert house.spent() == 0


def test_describe_knows_them_before_anything_runs(house: Any) -> None:
    with RawClient(house.port) as client:
        client.start()
        sql = b"SELECT * FROM person WHERE age = $1 LIMIT 0"
        client.send(m.Parse("p", sql), m.Describe("S", "p"), m.Sync())
        answer = dict(client.until("Z"))
        assert answer["t"] == [23]
        assert [column[:2] for column in answer["T"]][:3] == [
            ("state", 25),
            ("age", 23),
            ("sex", 25),
        ]
    assert house.spent() == 0


NO_PROBES = [
    "SELECT * FROM person LIMIT 1",
    "SELECT * FROM person LIMIT 0 + 1",
    "SELECT * FROM person WHERE 1 = 1",
    "SELECT * FROM person WHERE 0 = 1 OR age = 3",
    "SELECT * FROM person WHERE age = 1000",
    "SELECT * FROM person WHERE age IS NULL",
    "SELECT * FROM (SELECT * FROM person) a FULL JOIN (SELECT 1 WHERE 1=0) b ON true",
    "SELECT * FROM (SELECT state FROM person WHERE 1=0) a RIGHT JOIN person b ON true",
    "SELECT state FROM person WHERE 1=0 UNION ALL SELECT state FROM person",
    "SELECT state FROM person EXCEPT SELECT state FROM person WHERE 1=0",
]  # fmt: skip


@pytest.mark.parametrize("sql", NO_PROBES)
def test_what_could_have_a_row_is_refused(free_house: Any, sql: str) -> None:
    with free_house.connect() as connection, pytest.raises(psycopg.Error) as refused:
        connection.execute(sql.encode())
    assert refused.value.sqlstate == "0A000"
    assert free_house.spent() == 0


ABOUT = "dp_interval_low(n), dp_interval_high(n) AS u, dp_stddev(n), dp_probability(n, 0, 9) + 1"
ABOUT_ANSWERS = [
    f"SELECT count(*) AS n, {ABOUT} FROM person",
    f"SELECT sum(age * 0.5) AS n, {ABOUT} FROM person",
    f"SELECT state, sum(0.5) AS n, {ABOUT} FROM person GROUP BY state",
    f"SELECT state, count(*) AS n, {ABOUT} FROM person GROUP BY ROLLUP (state) ORDER BY 3",
    f"SELECT state, {ABOUT} FROM (SELECT state, count(*) AS n FROM person GROUP BY state) t",
    f"WITH t AS (SELECT state, count(*) AS n FROM person GROUP BY state) SELECT *, {ABOUT} FROM t",
    "SELECT state, dp_stddev(count(*) - 1) AS s, dp_interval_high(count(*)) FROM person"
    " GROUP BY state HAVING dp_stddev(count(*)) < 9 ORDER BY s",
    f"SELECT count(*) AS n, {ABOUT} FROM person UNION ALL"
    f" SELECT count(age) AS n, {ABOUT} FROM person",
    "SELECT state, count(*) AS n, dp_stddev(count(*)), dp_interval_low(n) FROM person"
    " GROUP BY state",
]


@pytest.mark.parametrize("sql", ABOUT_ANSWERS)
def test_functions_of_answers_have_columns_too(free_house: Any, sql: str) -> None:
    with free_house.connect() as connection, RawClient(free_house.port) as client:
        client.start()
        client.send(m.Parse("p", sql.encode()), m.Describe("S", "p"), m.Sync())
        columns = [column[:2] for column in dict(client.until("Z"))["T"]]
        probes = [f"SELECT * FROM ({sql}) t LIMIT 0", f"SELECT * FROM ({sql}) t WHERE 1=0"]
        if sql.endswith("person GROUP BY state"):
            probes.append(sql.replace("GROUP BY", "WHERE FALSE GROUP BY"))
        if "ORDER" not in sql:
            probes.append(f"{sql} LIMIT 0")
        for probe in probes:
            cursor = connection.execute(probe.encode())
            found = [(column.name, column.type_code) for column in cursor.description or ()]
            assert found == columns, probe
            assert cursor.fetchall() == []
    assert free_house.spent() == 0


@pytest.mark.parametrize(
    ("item", "sqlstate"),
    [
        ("dp_stddev(nope)", "42703"),
        ("dp_stddev()", "0A000"),
        ("dp_probability(count(*), 0)", "0A000"),
        ("dp_probability(count(*), 0, age)", "0A000"),
        ("dp_stddev(dp_stddev(count(*)))", "0A000"),
    ],
)
def test_mistakes_in_functions_of_answers_are_reported(
    free_house: Any, item: str, sqlstate: str
) -> None:
    with free_house.connect() as connection, pytest.raises(psycopg.Error) as refused:
        connection.execute(f"SELECT {item} FROM person LIMIT 0".encode())
    assert refused.value.sqlstate == sqlstate


def test_a_total_of_no_records_is_still_a_row(free_house: Any) -> None:
    with free_house.connect() as connection:
        for sql, rows in {
            "SELECT count(*) FROM person WHERE 1=0": [(0,)],
            "SELECT state, count(*) FROM person WHERE false GROUP BY ROLLUP (state)": [(None, 0)],
            "SELECT state, count(*) FROM person WHERE false GROUP BY state": [],
        }.items():
            assert connection.execute(sql.encode()).fetchall() == rows
    assert free_house.spent() == 0


def test_no_column_of_the_source_is_found_by_probing(free_house: Any) -> None:
    """The source has it, and the policy does not declare it."""
    with free_house.connect() as connection:
        for column in ("moved", "no_such"):
            with pytest.raises(psycopg.errors.UndefinedColumn):
                connection.execute(f"SELECT {column} FROM person LIMIT 0".encode())


def test_a_column_may_name_its_schema(house: Any) -> None:
    """As SQLAlchemy writes columns of a table with a schema."""
    with house.connect() as connection:
        rows = connection.execute(
            "SELECT dp.attributes.attribute FROM dp.attributes"
            " WHERE dp.attributes.table_name = 'person' ORDER BY dp.attributes.attribute"
        ).fetchall()
        assert ("age",) in rows
        assert rows == sorted(rows)
        counted = connection.execute(
            "SELECT public.person.state, count(*) FROM public.person GROUP BY public.person.state"
        ).fetchall()
        assert len(counted) == 3
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT dq.attributes.attribute FROM dp.attributes")


MISTAKES = [
    "SELECT nope FROM {t} WHERE 1=0",
    "SELECT p.nope FROM {t} p WHERE 1=0",
    "SELECT q.age FROM {t} p WHERE 1=0",
    "SELECT age FROM {t} WHERE nope = 1 LIMIT 0",
    "SELECT age FROM {t} WHERE 1=0 ORDER BY nope",
    "SELECT age FROM {t} WHERE 1=0 ORDER BY 7",
    "SELECT age FROM {t} WHERE 1=0 GROUP BY 7",
    "SELECT age, age FROM {t} WHERE 1=0 GROUP BY state",
    "SELECT DISTINCT age FROM {t} WHERE 1=0 ORDER BY state",
    "SELECT 1 FROM {t} p, {t} p WHERE 1=0",
    "SELECT max(count(*)) FROM {t} LIMIT 0",
    "SELECT 1 FROM {t} WHERE count(*) > 1 LIMIT 0",
    "SELECT age, count(*) FROM {t} GROUP BY 7",
    "SELECT age, count(*) FROM {t} GROUP BY 1 ORDER BY 7",
    "SELECT age, count(*) FROM {t} GROUP BY 0.7",
    "SELECT age, count(*) FROM {t} GROUP BY 1 ORDER BY 1.5",
    "SELECT x.n FROM (SELECT age, count(*) AS k FROM {t} GROUP BY age) x",
    "SELECT DISTINCT count(*) FROM {t} GROUP BY age ORDER BY age",
]

# Of these DuckDB names no part of the statement, or PostgreSQL does not.
_NO_PLACE = ("max(count(*))", "WHERE count(*)", "{t} p, {t} p")


@pytest.mark.parametrize("sql", MISTAKES)
def test_mistakes_in_names_are_told_as_postgresql_does(
    free_house: Any, postgres: psycopg.Connection[Any], sql: str
) -> None:
    def refused(connection: psycopg.Connection[Any]) -> tuple[str | None, str | None]:
        with pytest.raises(psycopg.Error) as error:
            connection.execute(sql.format(t="person").encode())
        placed = not any(part in sql for part in _NO_PLACE)
        return error.value.sqlstate, error.value.diag.statement_position if placed else None

    postgres.execute(PERSON.replace("TABLE", "TABLE IF NOT EXISTS"))
    with free_house.connect() as connection:
        assert refused(connection) == refused(postgres)
