"""A supervisor and its workers over the fake gate: python supervised.py COUNT [LIMIT=VALUE …].

It prints the port, and then its events, as JSON lines.
"""

from __future__ import annotations

import json
import logging
import signal
import socket
import sys
from typing import Any

from tallyveil.events import LOGGER
from tallyveil.proxy import Server, ServerLimits, run
from tallyveil.proxy.processes import WorkerListener, WorkerSupervisor
from tests.proxy.fake_session import Sessions


class Printed(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print(json.dumps([record.getMessage(), getattr(record, "fields", {})]), flush=True)


def supervise(count: int, given: dict[str, int]) -> None:
    LOGGER.addHandler(Printed())
    LOGGER.setLevel(logging.INFO)
    command = [sys.executable, "-P", "-m", "tests.proxy.supervised", "worker"]
    supervisor = WorkerSupervisor(command, given, count, "127.0.0.1", 0, ServerLimits(**given))
    run(supervisor, ready=lambda s: print(json.dumps(["port", s.port])), reload=supervisor.reload)


def work(job: dict[str, Any], end: int) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    names = ("max_connections", "max_user_connections")
    limits = ServerLimits(**{name: job[name] for name in names if name in job})
    listener = WorkerListener(job, socket.socket(fileno=end), limits)
    run(Server(Sessions(), listener=listener, limits=limits))


def main() -> None:
    if sys.argv[1] == "worker":
        work(json.load(sys.stdin), int(sys.argv[2]))
    else:
        chosen = dict(each.split("=") for each in sys.argv[2:])
        supervise(int(sys.argv[1]), {name: int(value) for name, value in chosen.items()})


if __name__ == "__main__":
    main()
