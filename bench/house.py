"""A gate and its server in a process of its own, as it would run: python -m bench.house POLICY."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tallyveil import load_policy
from tallyveil.gate import Gate
from tallyveil.proxy import Server, run

__all__ = ["served"]


@contextmanager
def served(policy: str) -> Iterator[tuple[int, int]]:
    """Serve the policy file in another process; gives the port and the process."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.house", policy], stdout=subprocess.PIPE, text=True
    ) as process:
        if process.stdout is None:
            raise RuntimeError("the server has no output")
        try:
            yield int(process.stdout.readline()), process.pid
        finally:
            process.terminate()


def main(policy: str) -> None:
    gate = Gate(load_policy(policy))
    run(Server(gate.session, port=0), ready=lambda server: print(server.port, flush=True))
    gate.close()


if __name__ == "__main__":
    main(sys.argv[1])
