"""Constructs one by one: answered as the database answers on the raw rows, or refused.

``fixtures/expressions.sql`` lists expressions, ``statements.sql`` statements. Those "answered" are
asked of tallyveil and of the dialect's own database; those "refused" raise.
"""

from __future__ import annotations

import pytest

from tallyveil.errors import TallyveilError
from tallyveil.rewriter import Dialect
from tests.pairs import one_in
from tests.rewriter.listed import GROUPED, grouped, listed
from tests.rewriter.oracles import DuckDBOracle, Oracle, PostgresOracle, agree
from tests.rewriter.world import World

_PARTS = 10  # of a list, a test each

# Not told apart after parsing: date_part and extract, a sign + and none, N'…' and '…'.
_SAME_TREE = ("date_part", "N'abc'")


def _answered(dialect: Dialect, *, named: bool) -> list[str]:
    expressions = listed("expressions.sql", "answered", dialect)
    statements = listed("statements.sql", "answered", dialect)
    return [*grouped(expressions, named=named), *statements]


def _check(world: World, oracle: Oracle, sql: str, *, named: bool = False) -> None:
    ordered = oracle.dialect == "postgres" and "order by" in sql.split("from")[-1]
    assert agree(world, oracle, sql, ordered=ordered, named=named), f"refused: {sql}"


@pytest.mark.parametrize("part", one_in(2, range(_PARTS)))
def test_postgres(world: World, postgres_oracle: PostgresOracle, part: int) -> None:
    """Its names for columns too."""
    for sql in _answered("postgres", named=False)[part::_PARTS]:
        same_tree = any(word in sql for word in _SAME_TREE)
        _check(world, postgres_oracle, sql, named=not same_tree)


@pytest.mark.parametrize("part", one_in(2, range(_PARTS), first=1))
def test_duckdb(world: World, duckdb_oracle: DuckDBOracle, part: int) -> None:
    for sql in _answered("duckdb", named=True)[part::_PARTS]:
        _check(world, duckdb_oracle, sql)


@pytest.mark.parametrize("dialect", ["postgres", "duckdb"])
def test_what_has_no_exact_meaning_is_refused(world: World, dialect: Dialect) -> None:
    refused = listed("statements.sql", "refused", dialect)
    refused += map(GROUPED.format, listed("expressions.sql", "refused", dialect))
    answered = []
    for sql in refused:
        try:
            answered.append((sql, world.answer(sql, dialect)))
        except TallyveilError:
            continue
    assert answered == []
