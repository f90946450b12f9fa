"""Connections to one table of records in memory, on one ledger, however often it is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

import tallyveil
from tallyveil.gate import Gate
from tests.gate.many_sessions import PATIENCE

__all__ = ["Open", "on_one_ledger"]

Open = Callable[..., tallyveil.Connection]


@contextmanager
def on_one_ledger(
    folder: Path, table: str, records: str, attributes: dict[str, Any]
) -> Iterator[Open]:
    """``opened(budget, **keys)``: a connection at a cost of 1, to 2,000 ``records`` of numbers i,
    beside a public table of the numbers 0 to 31."""
    with duckdb.connect() as source:
        source.execute(f"CREATE TABLE people AS SELECT {records} FROM range(2000) r(i)")
        connections: list[tallyveil.Connection] = []

        def opened(budget: dict[str, Any], **more: Any) -> tallyveil.Connection:
            declared = {"from": "people", "budget": budget, "attributes": attributes, **more}
            keys = {
                "tables": {table: declared},
                "public": {"keys": {"from": "SELECT i AS k FROM range(32) r(i)"}},
                "defaults": {next(iter(budget)): 1},
                "ledger": str(folder / "ledger"),
            }
            policy = tallyveil.parse_policy(keys, base=folder)
            connections.append(tallyveil.Connection(Gate(policy, source, time_limit=PATIENCE)))
            return connections[-1]

        yield opened
        for connection in connections:
            connection.close()
