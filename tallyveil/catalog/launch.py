"""A separate program that gives up privileges, limits its resources, and executes another program.

Run it as ``python -I -S launch.py UID GID PARENT PROGRAM ARGUMENT…``; - for UID and GID keeps the
user. A process with threads cannot do this safely between fork and exec.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from typing import Final

__all__: list[str] = []

MEMORY: Final = 64 << 20
"""The most bytes of data of one process. A statement that needs more fails alone. `pool.LINKS`
times this is the most that all of them take, apart from what they share."""

FILE: Final = 64 << 20
"""The most bytes of one file."""

NICE: Final = 5
"""The niceness: counts have priority over questions about the catalogs."""

_PR_SET_PDEATHSIG: Final = 1


def _bound(kind: int, size: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        size = min(size, hard)
    resource.setrlimit(kind, (size, size))


def _end_with(parent: int) -> None:
    """On Linux, have the system end this process when its parent ends, in whatever way."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT, 0, 0, 0)
        if os.getppid() != parent:
            raise SystemExit("the parent process has ended")


def main(uid: str, gid: str, parent: str, program: str, *arguments: str) -> None:
    if sys.platform != "darwin":  # macOS neither enforces this limit nor allows to set it
        _bound(resource.RLIMIT_DATA, MEMORY)
    _bound(resource.RLIMIT_FSIZE, FILE)
    _bound(resource.RLIMIT_CORE, 0)
    if "initdb" not in program:
        with contextlib.suppress(OSError):
            os.nice(NICE)
    if uid != "-":
        os.setgroups([])
        os.setgid(int(gid))
        os.setuid(int(uid))
    _end_with(int(parent))
    os.umask(0o077)
    os.execv(program, [program, *arguments])


if __name__ == "__main__":
    main(*sys.argv[1:])
