"""A gate and its server as a process of their own, with bounds on memory given in MiB."""

from __future__ import annotations

import sys

import duckdb

from tallyveil.gate import Gate
from tallyveil.policy import parse_policy
from tallyveil.proxy import Server, ServerLimits, leave, run

PROGRAM = "from tests.proxy.memory_server import main; main()"


def main() -> None:
    folder, connection, memory = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    source = duckdb.connect(":memory:")
    source.execute("CREATE TABLE people AS SELECT i % 90 AS age FROM range(900) t(i)")
    table = {"from": "people", "budget": {"epsilon": 3.0}, "attributes": {"age": {"range": [0, 9]}}}
    gate = Gate(parse_policy({"tables": {"person": table}}, base=folder), source, time_limit=60.0)
    limits = ServerLimits(connection_memory=connection << 20, memory=memory << 20)
    server = Server(gate.session, port=0, limits=limits)
    run(server, ready=lambda server: print(server.port, flush=True))
    gate.close()
    leave()
