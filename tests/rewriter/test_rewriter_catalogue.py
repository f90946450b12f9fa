"""Constructs one by one: answered as the database answers on the raw rows, or refused.

``fixtures/<dialect>_expressions.sql`` lists expressions, ``…_statements.sql`` statements. Each
line under "answered" is asked of both sides; each line under "refused" must raise.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from rewriter_oracles import DuckDBOracle, Oracle, PostgresOracle, agree
from rewriter_world import World

from tallyveil.errors import TallyveilError

_FIXTURES = Path(__file__).with_name("fixtures")


def _lines(name: str, section: str) -> list[str]:
    text = (_FIXTURES / name).read_text()
    part = text.split(f"-- {section}:")[1].split("\n-- ")[0]
    return [line for line in part.splitlines()[1:] if line]


def _grouped(expression: str) -> str:
    return f"select {expression} as k, count(*) as n from person group by 1 having count(*) > 0"


def _check(world: World, oracle: Oracle, sql: str) -> None:
    assert agree(world, oracle, sql, ordered=False), f"refused: {sql}"


@pytest.mark.parametrize("expression", _lines("postgres_expressions.sql", "answered"))
def test_postgres_expression(
    world: World, postgres_oracle: PostgresOracle, expression: str
) -> None:
    _check(world, postgres_oracle, _grouped(expression))


@pytest.mark.parametrize("statement", _lines("postgres_statements.sql", "answered"))
def test_postgres_statement(world: World, postgres_oracle: PostgresOracle, statement: str) -> None:
    _check(world, postgres_oracle, statement)


@pytest.mark.parametrize("expression", _lines("duckdb_expressions.sql", "answered"))
def test_duckdb_expression(world: World, duckdb_oracle: DuckDBOracle, expression: str) -> None:
    _check(world, duckdb_oracle, _grouped(expression))


@pytest.mark.parametrize("statement", _lines("duckdb_statements.sql", "answered"))
def test_duckdb_statement(world: World, duckdb_oracle: DuckDBOracle, statement: str) -> None:
    _check(world, duckdb_oracle, statement)


@pytest.mark.parametrize("dialect", ["postgres", "duckdb"])
def test_what_has_no_exact_meaning_is_refused(world: World, dialect: str) -> None:
    refused = _lines(f"{dialect}_statements.sql", "refused")
    refused += map(_grouped, _lines(f"{dialect}_expressions.sql", "refused"))
    answered = []
    for sql in refused:
        try:
            answered.append((sql, world.answer(sql, dialect)))  # type: ignore[arg-type]
        except TallyveilError:
            continue
    assert answered == []
