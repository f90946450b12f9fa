"""The places for clients that are logged in, counted over all server processes.

Processes that serve together share a file in memory. It has a row for each place, with the user and
the number of the process, so that the places of a process that was killed can be given back. It
also has the number of sockets of each process, by which they share out new clients.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from itertools import accumulate
from typing import Final

from tallyveil.catalog import Databases
from tallyveil.proxy.admission.server_limits import ServerLimits
from tallyveil.proxy.interruption import MOST_WORKERS
from tallyveil.proxy.protocol_errors import TooManyConnections

__all__ = ["ConnectionSlots", "shared_file"]

LOOK: Final = 0.01
LOOKS: Final = 10
"""Seconds between two looks for a free place, and how many looks there are before the last."""

_CLOSED: Final = 2**32 - 1
"""The number of sockets of a process that accepts no clients."""


def shared_file() -> int:
    """The descriptor of a file, without a name, for the places that several processes share. None
    of them accepts clients yet."""
    descriptor, path = tempfile.mkstemp()
    os.unlink(path)
    os.write(descriptor, _CLOSED.to_bytes(4) * MOST_WORKERS)
    return descriptor


class ConnectionSlots:
    """The places as seen by the process with the number ``worker``; threads may share it.

    ``file`` is a `shared_file`, or None for a single process. A thread waits for the file's lock
    while it holds this object's: a file is locked for a process, not for one of its threads, and
    other processes hold it only while they read and write a row.
    """

    def __init__(self, limits: ServerLimits, worker: int = 0, file: int | None = None) -> None:
        self._all: Final = limits.max_connections
        self._each: Final = limits.max_user_connections or -(-limits.max_connections // 2)
        self._worker, self._file = worker, file
        self._lock = threading.Lock()
        sizes = 4 * MOST_WORKERS, Databases.SIZE, 8 * self._all, self._all
        ends = tuple(accumulate(sizes))
        if file is not None:
            os.ftruncate(file, ends[-1])
        memory = memoryview(bytearray(ends[-1]) if file is None else mmap.mmap(file, ends[-1]))
        parts = [memory[end - size : end] for size, end in zip(sizes, ends, strict=True)]
        self._sockets, self._users = parts[0].cast("I"), parts[2].cast("Q")
        self._databases, self._workers = Databases(parts[1]), parts[3]

    def take(self, user: str, database: str) -> str:
        """Take a place, and return the catalogs' database that stands for ``database``. Blocks
        for a moment if there is none: another process may not know yet that a client has left.

        Raises TooManyConnections.
        """
        for _ in range(0 if self._file is None else LOOKS):
            with suppress(TooManyConnections):
                return self._take(user, database)
            time.sleep(LOOK)
        return self._take(user, database)

    def _take(self, user: str, database: str) -> str:
        number = _number(user)
        with self._locked():
            users = self._users.tolist()
            if 0 not in users:
                raise TooManyConnections(
                    "sorry, too many clients already",
                    detail=f"At most {self._all} clients may be connected.",
                )
            if users.count(number) >= self._each:
                raise TooManyConnections(
                    f'too many connections for user "{user}"',
                    detail=f"At most {self._each} may be open at a time.",
                )
            place = users.index(0)
            self._workers[place], self._users[place] = self._worker, number
            return self._databases.take(database)

    def give(self, user: str) -> None:
        """Give back a place that this process took for the user."""
        row = self._worker, _number(user)
        with self._locked():
            places = zip(self._workers, self._users, strict=True)
            self._users[next(place for place, each in enumerate(places) if each == row)] = 0

    # Sockets

    def begin(self, worker: int) -> None:
        """The process accepts clients from now on. It has none."""
        self._sockets[worker] = 0

    def end(self, worker: int) -> None:
        """The process accepts no more clients."""
        self._sockets[worker] = _CLOSED

    def count(self, change: int) -> None:
        """This process has more sockets, or fewer."""
        if self._sockets[self._worker] != _CLOSED:
            self._sockets[self._worker] += change

    def others_have_fewer(self) -> bool:
        """Whether another process that accepts clients has fewer sockets than this one."""
        return min(self._sockets) < self._sockets[self._worker]

    def forget(self, worker: int) -> None:
        """The process has ended: give its places back."""
        self.end(worker)
        with self._locked():
            for place, owner in enumerate(self._workers):
                if owner == worker:
                    self._users[place] = 0

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock:
            if self._file is None:
                yield
                return
            fcntl.lockf(self._file, fcntl.LOCK_EX)  # until the process ends at the latest
            try:
                yield
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN)


def _number(user: str) -> int:
    """A number that stands for the user, and is not 0."""
    return int.from_bytes(blake2b(user.encode(), digest_size=8).digest()) or 1
