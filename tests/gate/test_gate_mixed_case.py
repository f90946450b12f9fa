"""Attributes whose names have capitals: quoted in PostgreSQL's dialect, in any case in DuckDB's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

import tallyveil
from tallyveil.errors import PolicyError, UndefinedColumn
from tallyveil.gate import Gate
from tallyveil.rewriter import Dialect

ATTRIBUTES: dict[str, Any] = {
    "City": {"values": ["Paris", "Lyon"]},
    "nAge": {"range": [0, 60]},
}

DUCKDB = """
SELECT City, count(*) FROM people GROUP BY city ORDER BY CITY
SELECT "city", count(*) FROM people GROUP BY ALL ORDER BY 1
SELECT count(*) FROM people WHERE NAGE < 10 AND nage > 3
SELECT lower(City) AS city, count(*) FROM people GROUP BY City ORDER BY city
SELECT region, count(*) FROM people p JOIN region r ON p.city = r.city GROUP BY region ORDER BY 1
SELECT count(*) FROM (SELECT city c, nage FROM people) t WHERE C = 'Paris' AND nAge > 3
SELECT sum(nAge) FILTER (WHERE "CITY" = 'Lyon') FROM people
""".strip().splitlines()
POSTGRES = """
SELECT "City", count(*) FROM people GROUP BY "City" ORDER BY 1
SELECT count(*) FROM people WHERE "nAge" < 10
SELECT p."City" AS city, count(*) FROM people p GROUP BY p."City" ORDER BY city
SELECT "City" AS "CITY", count(*) FROM people GROUP BY 1 ORDER BY "CITY"
SELECT lower("City") AS city, count(*) FROM people GROUP BY city ORDER BY 1
SELECT DISTINCT "City" FROM people ORDER BY 1
""".strip().splitlines()


@pytest.fixture(scope="module")
def raw() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE people AS SELECT ['Paris', 'Lyon'][1 + i % 2] AS \"City\", "
            'i % 50 AS "nAge" FROM range(1000) t(i)'
        )
        connection.execute(
            "CREATE TABLE region AS FROM (VALUES ('Paris', 'north'), ('Lyon', 'south')) "
            "v(city, region)"
        )
        yield connection


@pytest.fixture(scope="module")
def gate(
    raw: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gate]:
    """At an ε so large that the noise is 0."""
    policy = tallyveil.parse_policy(
        {
            "tables": {"people": {"budget": {"epsilon": 1e6}, "attributes": ATTRIBUTES}},
            "public": {"region": {"from": "region"}},
            "defaults": {"epsilon": 10_000},
        },
        base=tmp_path_factory.mktemp("mixed"),
    )
    opened = Gate(policy, raw)
    yield opened
    opened.close()


def answer(gate: Gate, sql: str, dialect: Dialect, parameters: tuple[Any, ...] = ()) -> list[Any]:
    session = gate.session("alice", "people", dialect)
    try:
        (statement,) = session.parse(sql)
        return list(session.execute(statement, parameters).rows)
    finally:
        session.close()


@pytest.mark.parametrize("sql", DUCKDB)
def test_duckdb_takes_them_in_any_case(
    gate: Gate, raw: duckdb.DuckDBPyConnection, sql: str
) -> None:
    assert answer(gate, sql, "duckdb") == raw.execute(sql).fetchall()


@pytest.mark.parametrize("sql", POSTGRES)
def test_postgresql_takes_them_quoted(gate: Gate, raw: duckdb.DuckDBPyConnection, sql: str) -> None:
    assert answer(gate, sql, "postgres") == raw.execute(sql).fetchall()


def test_without_quotes_postgresql_says_so(gate: Gate) -> None:
    with pytest.raises(UndefinedColumn) as caught:
        answer(gate, "SELECT count(*) FROM people WHERE city = 'Paris'", "postgres")
    assert '"City"' in (caught.value.hint or "")
    assert caught.value.position == 35


@pytest.mark.parametrize("dialect", ["postgres", "duckdb"])
def test_what_a_warning_says_to_ask_can_be_asked(gate: Gate, dialect: Dialect) -> None:
    session = gate.session("alice", "people", dialect)
    (statement,) = session.parse("SELECT count(*) FROM people WHERE \"City\" = 'paris'")
    (warning,) = [n for n in session.execute(statement).notices if n.severity == "WARNING"]
    session.close()
    asked = (warning.hint or "").partition("? ")[2].removesuffix(" lists the declared values.")
    assert answer(gate, asked, dialect) == [("Paris",), ("Lyon",)]


def test_a_parameter_takes_its_type_beside_one(gate: Gate) -> None:
    sql = "SELECT count(*) FROM people WHERE {} = $1"
    assert answer(gate, sql.format("nage"), "duckdb", (7,)) == [(20,)]
    assert gate.rewriter.parameter_types(sql.format("NAGE"), "duckdb") == ("INTEGER",)
    assert gate.rewriter.parameter_types(sql.format('"nAge"'), "postgres") == ("INTEGER",)


def test_two_names_that_differ_in_case_alone_are_a_mistake() -> None:
    attributes = {"City": {"values": ["a"]}, "city": {"values": ["b"]}}
    with pytest.raises(PolicyError, match="differs from City in more than upper and lower case"):
        tallyveil.parse_policy(
            {"tables": {"t": {"budget": {"epsilon": 1}, "attributes": attributes}}}
        )
