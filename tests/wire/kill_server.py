"""A server to be killed, of a directory; it prints its port."""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb

from tallyveil.gate import Gate
from tallyveil.policy import parse_policy
from tallyveil.proxy import Server, run

PROGRAM = "from tests.wire.kill_server import main; main()"
TABLE = {
    "from": "people",
    "budget": {"epsilon": 100.0},
    "attributes": {"age": {"range": [0, 99]}},
}


def opened(directory: str | Path) -> Gate:
    with duckdb.connect(":memory:") as source:
        source.execute("CREATE TABLE people AS SELECT i % 100 AS age FROM range(1000) t(i)")
        policy = parse_policy(
            {"tables": {"person": TABLE}, "defaults": {"epsilon": 0.01}}, base=Path(directory)
        )
        return Gate(policy, source)


def main() -> None:
    server = Server(opened(sys.argv[1]).session, port=0)
    run(server, ready=lambda server: print(server.port, flush=True))
