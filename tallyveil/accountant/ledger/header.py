"""How far a ledger's file has come, read without SQLite and without a lock.

Every transaction that changes a SQLite file counts on by one in the file's header, whoever commits
it ("File change counter" in SQLite's description of the format). With a write-ahead log it would
stand still.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tallyveil.locks import Rank, ranked_lock

__all__ = ["Header"]

_START: Final = 18
_LENGTH: Final = 10
_COUNT: Final = 6  # where the counter starts in these
_LOG: Final = 2  # what they start with if the file has a write-ahead log


class Header:
    """Of the file at ``path``, which SQLite has open; close it after that.

    Closing any descriptor of a file takes the locks away that this process has on it, those of
    SQLite too. So there is one for each file, which is closed with its last `Header`.
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
        """Another number after each commit: one more. None if the file has a write-ahead log, or
        no header any more. Raises OSError."""
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
"""By device and inode the descriptor, and how many share it."""
