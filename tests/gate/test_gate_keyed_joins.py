"""Joins along a declared key: against DuckDB on the raw rows, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import tallyveil
from tallyveil.errors import TallyveilError
from tests.gate.shared_units import Unit, policy_of, statement, tables

_SEX, _AGE, _KIND, _DAY = ["F", "M"], [0, 1, 2, None], ["a", "b"], [1, 2, 3]


@pytest.fixture(scope="module")
def source() -> duckdb.DuckDBPyConnection:
    """Units whose rows are all counted, so that DuckDB answers about the same."""
    rolled, people, database = random.Random(0), [], duckdb.connect()
    for _ in range(60):
        persons = ((rolled.choice(_SEX), rolled.choice(_AGE)),) * rolled.randrange(2)
        visits = [(rolled.choice(_KIND), rolled.choice(_DAY)) for _ in range(rolled.randrange(3))]
        people.append(Unit(persons, tuple(visits)))
    tables(database, people)
    database.execute("DELETE FROM person WHERE pid IS NULL; DELETE FROM visit WHERE pid IS NULL")
    database.execute(
        "CREATE OR REPLACE TABLE person AS SELECT *, (SELECT count(*) FROM visit WHERE visit.pid ="
        " person.pid) AS visits, (SELECT count(*) FROM visit WHERE visit.pid = person.pid AND day >"
        " 1) AS late FROM person"
    )
    return database


@pytest.fixture(scope="module")
def connection(
    source: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tallyveil.Connection]:
    views = {"adult": {"sql": "SELECT * FROM person WHERE age > 1"}}
    policy = policy_of(tmp_path_factory.mktemp("joins"), per_unit=True, views=views, public=_PUBLIC)
    source.execute("CREATE TABLE region AS SELECT * FROM (VALUES ('F', 'x'), ('M', 'y')) t(s, r)")
    source.execute("CREATE VIEW adult AS SELECT * FROM person WHERE age > 1")
    with tallyveil.connect(policy, source=source) as connection:
        connection.execute("SET dp.epsilon = 500")  # no noise, but with a probability of e^-100
        yield connection


_PUBLIC = {"region": {"from": "region"}}
_JOINED = "FROM visit v JOIN person p ON v.pid = p.pid"
_STATEMENTS = [
    f"SELECT count(*) {_JOINED}",
    f"SELECT p.sex, v.kind, count(*) AS n {_JOINED} GROUP BY p.sex, v.kind",
    "SELECT sex, sum(age) AS s FROM visit, person WHERE person.pid = visit.pid GROUP BY sex",
    "SELECT count(*) FROM person p, visit v WHERE (v.pid = p.pid AND (p.sex = 'F' OR day = 1))",
    "SELECT count(*) FROM person JOIN visit USING (pid) WHERE kind = 'a' AND age IS NULL",
    "SELECT count(p.age), count(*) FROM person p RIGHT JOIN visit v ON p.pid = v.pid",
    "SELECT p.sex, count(*) AS n FROM visit v LEFT JOIN person p ON v.pid = p.pid AND v.day > 1"
    " WHERE v.kind = 'b' GROUP BY p.sex",
    "SELECT count(*) FROM visit v LEFT JOIN person p ON v.pid = p.pid WHERE p.sex IS NULL",
    "SELECT count(*) FROM visit AS v JOIN adult AS a ON a.pid = v.pid WHERE v.day < 3",
    "SELECT kind, avg(age) AS a FROM (SELECT v.kind, p.age FROM visit v JOIN person p USING (pid))"
    " AS j GROUP BY kind",
    "WITH f AS (SELECT * FROM person WHERE sex = 'F'), w AS (SELECT * FROM visit WHERE day > 1)"
    " SELECT kind, count(*) AS n FROM w JOIN f ON w.pid = f.pid GROUP BY kind",
    f"SELECT r.r, count(*) AS n {_JOINED} JOIN region r ON r.s = p.sex GROUP BY r.r",
    "SELECT count(*) FROM region r JOIN visit v ON r.s = 'F' JOIN person p ON v.pid = p.pid"
    " AND p.sex = r.s",
    "SELECT count(*) FROM visit v JOIN (SELECT * FROM person JOIN region ON s = sex) p"
    " ON v.pid = p.pid WHERE p.r = 'x'",
    "SELECT count(*) FROM visit v JOIN person p ON v.pid = p.pid JOIN person q ON v.pid = q.pid"
    " WHERE p.sex = 'F' AND q.age = 1",
    "SELECT k, count(*) AS n FROM (SELECT kind AS k FROM visit UNION ALL SELECT p.sex FROM visit v"
    " JOIN person p ON v.pid = p.pid) AS u GROUP BY k",
    "SELECT (SELECT count(*) FROM person) AS p, count(*) AS v FROM visit",
    "SELECT visits, late, count(*) AS n FROM person GROUP BY visits, late",
    f"SELECT count(*) {_JOINED} WHERE p.visits > 1 AND v.day = 2",
]


@pytest.mark.parametrize("sql", _STATEMENTS)
def test_a_join_is_that_of_the_raw_rows(
    connection: tallyveil.Connection, source: duckdb.DuckDBPyConnection, sql: str
) -> None:
    expected = {row for row in source.execute(sql).fetchall() if row[-1]}
    assert {row for row in connection.execute(sql).fetchall() if row[-1]} == expected


def test_statements_at_random_are_answered_as_on_the_raw_rows(
    connection: tallyveil.Connection, source: duckdb.DuckDBPyConnection
) -> None:
    rolled = random.Random(1)
    for _ in range(15):
        sql = statement(rolled, per_unit=True)
        expected = {row for row in source.execute(sql).fetchall() if row[-1]}
        assert {row for row in connection.execute(sql).fetchall() if row[-1]} == expected, sql


@pytest.mark.parametrize(
    "joined",
    [
        "visit v JOIN person p ON v.pid = p.pid AND v.day > 1",
        "visit v JOIN person p USING (pid)",
        "visit v, (SELECT * FROM person) p WHERE (p.pid = v.pid) AND v.kind = 'a'",
    ],
)
def test_the_columns_of_a_join_are_known_without_a_charge(
    connection: tallyveil.Connection, joined: str
) -> None:
    before = connection.budget()
    cursor = connection.execute(f"SELECT * FROM (SELECT p.*, v.kind FROM {joined}) AS t LIMIT 0")
    assert [name for name, *_ in cursor.description or ()] == [
        "sex", "age", "band", "visits", "late", "kind",
    ]  # fmt: skip
    assert connection.budget() == before


@pytest.mark.parametrize(
    ("sql", "message", "hint"),
    [
        (
            "FROM visit v JOIN person p ON v.kind = p.sex",
            "along their key only",
            "ON v.pid = p.pid",
        ),
        ("FROM visit v JOIN person p ON v.pid > p.pid", "along their key only", "ON v.pid = p.pid"),
        ("FROM person p CROSS JOIN visit v", "along their key only", "ON p.pid = v.pid"),
        ("FROM visit v, person p WHERE v.pid = p.pid OR day = 1", "along their key only", "ON v."),
        ("FROM visit v JOIN person p ON v.pid = v.pid", "along their key only", "ON v.pid = p.pid"),
        ("FROM (SELECT kind FROM visit) v JOIN person p ON v.pid = p.pid", "key only", "SELECT *"),
        ("FROM visit v JOIN visit w ON v.pid = w.pid", "many rows", "one protected table"),
        ("FROM visit v JOIN person p USING (pid) JOIN visit w USING (pid)", "many rows", "one"),
        (
            "FROM person p LEFT JOIN visit v ON v.pid = p.pid",
            "without a record",
            "LEFT JOIN person",
        ),
        (
            "FROM visit v FULL JOIN person p ON v.pid = p.pid",
            "without a record",
            "LEFT JOIN person",
        ),
        ("FROM visit v JOIN person p USING (pid) WHERE pid = 3", '"pid" does not exist', "kind"),
        ("FROM visit WHERE \"person.sex\" = 'F'", "does not exist", "attributes of visit are kind"),
        ('FROM visit WHERE "person.pid found"', "does not exist", "attributes of visit are kind"),
        ("FROM visit WHERE pid IN (SELECT pid FROM person)", "only counted", "count(DISTINCT pid)"),
        (f"{_JOINED} GROUP BY v.pid", "only counted", "count(DISTINCT pid)"),
    ],
)
def test_no_other_join_is_answered_and_the_key_is_never_shown(
    connection: tallyveil.Connection, sql: str, message: str, hint: str
) -> None:
    before = connection.budget()
    with pytest.raises(TallyveilError) as refused:
        connection.execute(f"SELECT count(*) {sql}")
    assert message in refused.value.message
    assert hint in (refused.value.hint or "")
    assert connection.budget() == before


def test_cautions_and_refusals_name_the_attribute_of_the_head(
    connection: tallyveil.Connection,
) -> None:
    connection.execute(f"SELECT count(*) {_JOINED} WHERE p.sex = 'f'")
    (caution,) = (one for one in connection.notices if "not a declared value" in one.message)
    assert caution.hint == (
        "Did you mean 'F'? SELECT DISTINCT person.sex FROM person lists the declared values."
    )
    with pytest.raises(TallyveilError, match=r"cuts through a bin of person\.band") as refused:
        connection.execute(f"SELECT count(*) {_JOINED} WHERE p.band > 1")
    assert "use person.band <" in (refused.value.hint or "")


def test_tables_without_a_key_are_told_which_would_allow_the_join(
    source: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    table = {"privacy_unit": {"column": "pid", "max_rows": 1}, "budget": {"epsilon": 1}}
    declared = {
        "visit": table | {"attributes": {"day": {"range": [1, 3]}}},
        "person": table | {"attributes": {"sex": {"values": ["F", "M"]}}},
    }
    policy = tallyveil.parse_policy({"tables": declared}, base=tmp_path)
    sql = "SELECT count(*) FROM visit v JOIN person p ON v.pid = p.pid"
    with tallyveil.connect(policy, source=source) as own, pytest.raises(TallyveilError) as refused:
        own.execute(sql)
    assert '[tables.visit.keys] pid = "person.pid"' in (refused.value.hint or "")
