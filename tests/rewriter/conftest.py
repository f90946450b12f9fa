from __future__ import annotations

import random
from collections.abc import Iterator

import duckdb
import psycopg
import pytest

from tests.rewriter.oracles import DuckDBOracle, PostgresOracle
from tests.rewriter.world import World, rows_of


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    """The public side, with rows that no test changes."""
    made = World(rows_of(random.Random(20), 400))
    yield made
    made.close()


@pytest.fixture(scope="session")
def duckdb_oracle(world: World) -> Iterator[DuckDBOracle]:
    with duckdb.connect() as connection:
        yield DuckDBOracle(connection, world)


@pytest.fixture(scope="session")
def postgres_connection(postgres_uri: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_uri, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def postgres_oracle(postgres_connection: psycopg.Connection, world: World) -> PostgresOracle:
    return PostgresOracle(postgres_connection, world)
