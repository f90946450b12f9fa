"""Locks on single bytes of a file, which end with the process that has them, however it ends.

On Linux they belong to the open file, elsewhere to the process, which loses all of them when it
closes any descriptor of the file. SQLite's own locks are on other bytes.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from typing import Final

__all__ = ["is_locked", "lock", "unlock"]

_FIRST: Final = 1 << 40  # beyond all bytes of the file, and beyond those that SQLite locks


if sys.platform == "linux":
    _SET, _GET = fcntl.F_OFD_SETLK, fcntl.F_OFD_GETLK
    _LAYOUT: Final = "hhqqi"  # type, whence, start, length, process

    def _flock(kind: int, number: int) -> bytes:
        return struct.pack(_LAYOUT, kind, os.SEEK_SET, _FIRST + number, 1, 0)

    def _kind(flock: bytes) -> int:
        found: int = struct.unpack(_LAYOUT, flock)[0]
        return found

else:
    _SET, _GET = fcntl.F_SETLK, fcntl.F_GETLK
    _LAYOUT: Final = "qqihh"  # start, length, process, type, whence

    def _flock(kind: int, number: int) -> bytes:
        return struct.pack(_LAYOUT, _FIRST + number, 1, 0, kind, os.SEEK_SET)

    def _kind(flock: bytes) -> int:
        found: int = struct.unpack(_LAYOUT, flock)[3]
        return found


def lock(file: int, number: int) -> None:
    """Lock the byte of this number. It is a shared lock, for which the file need not be writable.
    Raises OSError."""
    fcntl.fcntl(file, _SET, _flock(fcntl.F_RDLCK, number))


def unlock(file: int, number: int) -> None:
    """Raises OSError."""
    fcntl.fcntl(file, _SET, _flock(fcntl.F_UNLCK, number))


def is_locked(file: int, number: int) -> bool:
    """Whether somebody else has locked the byte. Raises OSError."""
    return _kind(fcntl.fcntl(file, _GET, _flock(fcntl.F_WRLCK, number))) != fcntl.F_UNLCK
