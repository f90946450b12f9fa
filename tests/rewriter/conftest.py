from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

# The helpers beside this file, under names of their own: importlib mode adds no folder to the path.
for _name in ("world", "grammar", "oracles", "plans", "surface", "listed"):
    _spec = importlib.util.spec_from_file_location(
        f"rewriter_{_name}", Path(__file__).with_name(f"{_name}.py")
    )
    assert _spec is not None
    assert _spec.loader is not None
    _module = importlib.util.module_from_spec(_spec)
    sys.modules[_spec.name] = _module
    _spec.loader.exec_module(_module)

import random  # noqa: E402
from collections.abc import Iterator  # noqa: E402

import duckdb  # noqa: E402
import psycopg  # noqa: E402
import pytest  # noqa: E402
from rewriter_oracles import DuckDBOracle, PostgresOracle  # noqa: E402
from rewriter_world import World, rows_of  # noqa: E402


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
