"""A supervisor and its workers over the fake gate: python supervised.py COUNT [LIMIT=VALUE …].

It prints the port, and then its events, as JSON lines.
"""

from __future__ import annotations

import json
import logging
import signal
import socket
import sys

from tallyveil.events import LOGGER
from tallyveil.proxy import Server, ServerLimits, run
from tallyveil.proxy.processes import Assigned, WorkerSupervisor
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


def work(end: int) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    job = json.load(sys.stdin)
    entrance = Assigned(job["worker"], job["port"], socket.socket(fileno=end))
    limits = {
        name: job[name] for name in ("max_connections", "max_user_connections") if name in job
    }
    run(Server(Sessions(), entrance=entrance, limits=ServerLimits(**limits)))


def main() -> None:
    if sys.argv[1] == "worker":
        work(int(sys.argv[2]))
    else:
        chosen = dict(each.split("=") for each in sys.argv[2:])
        supervise(int(sys.argv[1]), {name: int(value) for name, value in chosen.items()})


if __name__ == "__main__":
    main()
