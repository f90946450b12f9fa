"""Constructs one by one: answered as the database answers on the raw rows, or refused.

``fixtures/expressions.sql`` lists expressions, ``statements.sql`` statements. Those "answered" are
asked of tallyveil and of the dialect's own database; those "refused" raise.
"""

from __future__ import annotations

import pytest
from rewriter_listed import grouped, listed
from rewriter_oracles import DuckDBOracle, Oracle, PostgresOracle, agree
from rewriter_world import World

from tallyveil.errors import TallyveilError
from tallyveil.rewriter import Dialect


def _answered(dialect: Dialect) -> list[str]:
    expressions = listed("expressions.sql", "answered", dialect)
    return [*map(grouped, expressions), *listed("statements.sql", "answered", dialect)]


def _check(world: World, oracle: Oracle, sql: str) -> None:
    assert agree(world, oracle, sql, ordered=False), f"refused: {sql}"


@pytest.mark.parametrize("sql", _answered("postgres"))
def test_postgres(world: World, postgres_oracle: PostgresOracle, sql: str) -> None:
    _check(world, postgres_oracle, sql)


@pytest.mark.parametrize("sql", _answered("duckdb"))
def test_duckdb(world: World, duckdb_oracle: DuckDBOracle, sql: str) -> None:
    _check(world, duckdb_oracle, sql)


@pytest.mark.parametrize("dialect", ["postgres", "duckdb"])
def test_what_has_no_exact_meaning_is_refused(world: World, dialect: Dialect) -> None:
    refused = listed("statements.sql", "refused", dialect)
    refused += map(grouped, listed("expressions.sql", "refused", dialect))
    answered = []
    for sql in refused:
        try:
            answered.append((sql, world.answer(sql, dialect)))
        except TallyveilError:
            continue
    assert answered == []
