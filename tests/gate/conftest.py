"""A gate over a small table in an open DuckDB connection, without a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tallyveil
from tallyveil.gate import Gate
from tests.gate.many_sessions import PATIENCE

ATTRIBUTES: dict[str, Any] = {
    "state": {"values": ["AL", "AK", "WY"], "other": True, "nullable": True},
    "age": {"range": [0, 99], "clamp": True, "nullable": True},
    "sex": {"values": ["F", "M"], "other": True},
}


@pytest.fixture
def source(database: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    return database.execute(
        "CREATE TABLE people AS SELECT ['AL', 'AK', 'WY'][1 + i % 3] AS state, "
        "i % 80 AS age, CASE WHEN i % 2 = 0 THEN 'F' ELSE 'M' END AS sex FROM range(3000) t(i)"
    )


@pytest.fixture
def connect(
    source: duckdb.DuckDBPyConnection, tmp_path: Path
) -> Iterator[Callable[..., tallyveil.Connection]]:
    opened: list[tallyveil.Connection] = []

    def make(
        defaults: Any = None, analysts: Any = None, user: str | None = None, **table: Any
    ) -> tallyveil.Connection:
        """Other keyword arguments go into the table's declaration."""
        declared = {"from": "people", "budget": {"epsilon": 1.0}, "attributes": ATTRIBUTES}
        keys = {"tables": {"person": declared | table}, "defaults": defaults or {"epsilon": 0.1}}
        shares = {"analysts": analysts} if analysts else {}
        policy = tallyveil.parse_policy(keys | shares, base=tmp_path)
        # The time a statement may take goes by while other work has the processors.
        gate = Gate(policy, source, time_limit=PATIENCE)
        opened.append(tallyveil.Connection(gate, user))
        return opened[-1]

    yield make
    for connection in opened:
        connection.close()
