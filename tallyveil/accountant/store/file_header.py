"""The change counter of a ledger's file, read without SQLite and without a lock, and which charges
are still being answered.

Every transaction of any process that changes a SQLite file increments a counter in its header
("File change counter" in SQLite's description of the format), except with a write-ahead log.

For each charge there is a byte that whoever answers it keeps locked until it has reported the
answer (`byte_locks`). So others know, without a clock, whether it may still come.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Final

from tallyveil.accountant.store import byte_locks
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
            self._key = os.getpid(), stat.st_dev, stat.st_ino
            found = _open.get(self._key)
            self._file, users = found or (os.open(path, os.O_RDONLY | os.O_CLOEXEC), 0)
            _open[self._key] = self._file, users + 1
        self._held = Counter[int]()

    def read(self) -> int | None:
        """The counter, which each commit increments. None if the file has a write-ahead log or has
        lost its header. Raises OSError."""
        found = os.pread(self._file, _LENGTH, _START)
        logged = len(found) < _LENGTH or _LOG in found[:2]
        return None if logged else int.from_bytes(found[_COUNT:], "big")

    def hold(self, charge_id: int) -> None:
        """Mark the charge as being answered, until `let_go` or the end of this process. Raises
        OSError."""
        with _lock:
            self._held[charge_id] += 1
            _answering[self._key, charge_id] += 1
            byte_locks.lock(self._file, charge_id)

    def let_go(self, charge_id: int) -> None:
        """End one `hold`. Raises OSError."""
        with _lock:
            self._held[charge_id] -= 1
            _answering[self._key, charge_id] -= 1
            if not _answering[self._key, charge_id]:
                del _answering[self._key, charge_id]
                byte_locks.unlock(self._file, charge_id)

    def is_held(self, charge_id: int) -> bool:
        """Whether anybody, in this process or another, is answering the charge. Raises OSError."""
        return (self._key, charge_id) in _answering or byte_locks.is_locked(self._file, charge_id)

    def is_shared(self, charge_id: int) -> bool:
        """Whether anybody else holds what this header holds. Raises OSError."""
        own = _answering[self._key, charge_id] > self._held[charge_id]
        return own or byte_locks.is_locked(self._file, charge_id)

    def close(self) -> None:
        for charge_id in [*self._held.elements()]:
            self.let_go(charge_id)
        with _lock:
            file, users = _open.pop(self._key)
            if users > 1:
                _open[self._key] = file, users - 1
            else:
                os.close(file)


_lock: Final = ranked_lock(Rank.LEAF)
_open: Final[dict[tuple[int, int, int], tuple[int, int]]] = {}
"""By process, device and inode the descriptor, and the number of headers that share it."""
_answering: Final = Counter[tuple[tuple[int, int, int], int]]()
"""How often each charge is held in this process, whose own locks do not show."""
