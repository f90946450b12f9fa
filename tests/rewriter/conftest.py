from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing

import duckdb
import psycopg
import pytest

from tests.rewriter.oracles import DuckDBOracle, PostgresOracle
from tests.rewriter.surface import World as Surface
from tests.rewriter.world import World, rows_of


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    """The public side, with rows that no test changes."""
    with closing(World(rows_of(random.Random(20), 400))) as made:
        yield made


@pytest.fixture(scope="session")
def surface() -> Iterator[Surface]:
    """Public tables and views, and protected rows beside them, that no test changes."""
    with closing(Surface(600)) as made:
        yield made


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
