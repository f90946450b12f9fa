"""`tallyveil serve` in a process of its own, as it would run, and what it computes."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["computed", "served"]

_PROGRAM = [sys.executable, "-c", "from tallyveil.cli import main; main()"]
_OPTIONS = ["--port", "0", "--log-level", "error"]


@contextmanager
def served(policy: str, *options: str) -> Iterator[tuple[int, int]]:
    """Serve the policy file in another process; gives the port and the process."""
    command = [*_PROGRAM, "serve", policy, *_OPTIONS, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is None:
            raise RuntimeError("the server has no output")
        try:
            found = re.search(r":(\d+)/", process.stdout.readline())
            if found is None:
                raise RuntimeError("the server does not say its port")
            yield int(found[1]), process.pid
        finally:
            process.terminate()


def computed(pid: int | None) -> float:
    """Milliseconds that all threads of a process have computed, ended ones among them; NaN for no
    process, and where the system does not tell."""
    clock = ctypes.c_int()
    find = getattr(ctypes.CDLL(None), "clock_getcpuclockid", None)
    if pid is None or find is None or find(pid, ctypes.byref(clock)):
        return float("nan")
    return time.clock_gettime_ns(clock.value) / 1e6
