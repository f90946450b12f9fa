"""A program of its own: gives rights up, bounds what it may take, and becomes another program.

Run as ``python -I -S launch.py UID GID PARENT PROGRAM ARGUMENT…``, with - for who keeps their own.
In a process with threads none of this can be done between fork and exec.
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

MEMORY: Final = 512 << 20
"""Bytes of addresses of one process: what a statement takes beyond is refused to it alone."""

FILE: Final = 64 << 20
"""Bytes of one file."""

NICE: Final = 5
"""Counts go first."""

_PR_SET_PDEATHSIG: Final = 1


def _bound(kind: int, size: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        size = min(size, hard)
    resource.setrlimit(kind, (size, size))


def _end_with(parent: int) -> None:
    """On Linux, have the system end this process when who started it ends, however that is."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT, 0, 0, 0)
        if os.getppid() != parent:
            raise SystemExit("who started this has ended")


def main(uid: str, gid: str, parent: str, program: str, *arguments: str) -> None:
    if sys.platform != "darwin":  # where it does not hold, and cannot be set
        _bound(resource.RLIMIT_AS, MEMORY)
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
