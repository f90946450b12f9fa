"""The whole house behind a real socket: a DuckDB source, a policy, a gate and a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from tallyveil.gate import Gate
from tallyveil.policy import parse_policy
from tallyveil.proxy import Server, ServerThread, Tls, Trust
from tests.proxy.scram_users import with_passwords

ROWS = """
    CREATE TABLE people AS SELECT
        ['AL', 'AK', 'WY'][1 + i % 3] AS state,
        (i * 7) % 90 AS age,
        CASE WHEN i % 11 = 0 THEN NULL WHEN i % 2 = 0 THEN 'F' ELSE 'M' END AS sex,
        (i * 37) % 130000 AS income,
        i % 4 = 0 AS married,
        DATE '2020-01-01' + CAST(i % 400 AS INTEGER) AS moved,
        i AS pid
    FROM range(9000) t(i)
"""

ATTRIBUTES: dict[str, Any] = {
    "state": {"values": ["AL", "AK", "WY"]},
    "age": {"range": [0, 115]},
    "sex": {"values": ["F", "M"], "nullable": True},
    "income": {"bins": [0, 15000, 30000, 60000, 120000], "clamp": True},
    "married": {"values": [False, True]},
    "pid": {"range": [0, 20], "clamp": True},
}


@dataclass
class House:
    """A running gate and server over the table ``people``."""

    gate: Gate
    port: int

    @property
    def dsn(self) -> str:
        return self.address("alice")

    def address(self, user: str) -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/people"

    def connect(self, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(self.dsn, autocommit=True, **options)

    def remaining(self) -> float:
        return float(self.gate.accountant.balance("person").remaining)

    def spent(self) -> float:
        return float(self.gate.accountant.balance("person").spent)


@pytest.fixture
def source(database: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    return database.execute(ROWS)


@contextmanager
def houses(source: duckdb.DuckDBPyConnection, base: Path) -> Iterator[Callable[..., House]]:
    """Start houses, closed in the end; other keyword arguments go into the table's declaration."""
    with ExitStack() as running:

        def start(
            epsilon: float = 0.05,
            attributes: Any = ATTRIBUTES,
            analysts: Any = None,
            passwords: Any = None,
            tls: Tls | None = None,
            public: Any = None,
            **table: Any,
        ) -> House:
            declared = {"from": "people", "budget": {"epsilon": 3.0}, "attributes": attributes}
            keys = {"tables": {"person": declared | table}, "defaults": {"epsilon": epsilon}}
            shares = {"analysts": analysts} if analysts else {}
            tables = {"public": public} if public else {}
            gate = running.enter_context(
                closing(Gate(parse_policy(keys | shares | tables, base=base), source))
            )
            auth = Trust() if passwords is None else with_passwords(passwords)
            server = Server(gate.session, port=0, auth=auth, tls=tls)
            return House(gate, running.enter_context(ServerThread(server)).port)

        yield start


@pytest.fixture
def serve(source: duckdb.DuckDBPyConnection, tmp_path: Path) -> Iterator[Callable[..., House]]:
    with houses(source, tmp_path) as start:
        yield start


@pytest.fixture
def house(serve: Callable[..., House]) -> House:
    return serve()


@pytest.fixture(scope="module")
def serve_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., House]]:
    """As ``serve``, for a house that all tests of a file share."""
    with duckdb.connect(":memory:") as source:
        source.execute(ROWS)
        with houses(source, tmp_path_factory.mktemp("house")) as start:
            yield start


@pytest.fixture(scope="module")
def free_house(serve_all: Callable[..., House]) -> House:
    """For tests that spend nothing, and say so."""
    return serve_all()
