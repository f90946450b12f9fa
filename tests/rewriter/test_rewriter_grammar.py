"""Whatever statement the grammar gives: with Wx for the noisy answers, the answer is the raw one.

This is the rewriter's oracle. DuckDB answers the DuckDB dialect on the raw table, and a real
PostgreSQL the PostgreSQL dialect.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings

from tests.rewriter.grammar import statements
from tests.rewriter.oracles import DuckDBOracle, PostgresOracle, agree
from tests.rewriter.world import World

_SHORT = settings(suppress_health_check=list(HealthCheck), print_blob=True)
_LONG = settings(_SHORT, max_examples=4_000)

_answered: Counter[tuple[str, bool]] = Counter()


@_SHORT
@given(drawn=statements("duckdb"))
def test_duckdb(world: World, duckdb_oracle: DuckDBOracle, drawn: tuple[str, bool]) -> None:
    sql, ordered = drawn
    _answered["duckdb", agree(world, duckdb_oracle, sql, ordered=ordered)] += 1


@_SHORT
@given(drawn=statements("postgres"))
def test_postgres(world: World, postgres_oracle: PostgresOracle, drawn: tuple[str, bool]) -> None:
    sql, ordered = drawn
    _answered["postgres", agree(world, postgres_oracle, sql, ordered=ordered)] += 1


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_the_oracle_is_not_idle(dialect: str) -> None:
    """A refusal proves nothing: a good part of what was drawn has been answered."""
    answered, refused = _answered[dialect, True], _answered[dialect, False]
    if not answered + refused:
        pytest.skip("the oracle did not run")
    assert answered > 0.3 * (answered + refused)


@pytest.mark.slow
@_LONG
@given(drawn=statements("duckdb"))
def test_duckdb_long(world: World, duckdb_oracle: DuckDBOracle, drawn: tuple[str, bool]) -> None:
    sql, ordered = drawn
    agree(world, duckdb_oracle, sql, ordered=ordered)


@pytest.mark.slow
@_LONG
@given(drawn=statements("postgres"))
def test_postgres_long(
    world: World, postgres_oracle: PostgresOracle, drawn: tuple[str, bool]
) -> None:
    sql, ordered = drawn
    agree(world, postgres_oracle, sql, ordered=ordered)
