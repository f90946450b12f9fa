"""The change counter of a ledger's file, read without SQLite and without a lock.

Every transaction of any process that changes a SQLite file increments a counter in its header
("File change counter" in SQLite's description of the format), except with a write-ahead log.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tallyveil.locks import Rank, ranked_lock

__all__ = ["Header"]

_START: Final = 18
_LENGTH: Final = 10
_COUNT: Final = 6  # where the counter starts in the bytes read
_LOG: Final = 2  # their first byte if the file has a write-ahead log


class Header:
    """The header of the file at ``path``, which SQLite has open; close it after SQLite.

    Closing any descriptor of a file releases all locks of this process on it, also SQLite's. So
    there is one descriptor for each file, which is closed with its last `Header`.
    """

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        with _lock:
            stat = path.stat()
            self._key = stat.st_dev, stat.st_ino
            found = _open.get(self._key)
            self._file, users = found or (os.open(path, os.O_RDONLY | os.O_CLOEXEC), 0)
            _open[self._key] = self._file, users + 1

    def read(self) -> int | None:
        """The counter, which each commit increments. None if the file has a write-ahead log or has
        lost its header. Raises OSError."""
        found = os.pread(self._file, _LENGTH, _START)
        logged = len(found) < _LENGTH or _LOG in found[:2]
        return None if logged else int.from_bytes(found[_COUNT:], "big")

    def close(self) -> None:
        with _lock:
            file, users = _open.pop(self._key)
            if users > 1:
                _open[self._key] = file, users - 1
            else:
                os.close(file)


_lock: Final = ranked_lock(Rank.LEAF)
_open: Final[dict[tuple[int, int], tuple[int, int]]] = {}
"""For each device and inode the descriptor, and the number of headers that share it."""
