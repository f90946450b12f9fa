"""Limits on the memory that the server occupies for its clients.

It counts prepared statements, bound parameters, cursors, savepoints, and the rows of results that
were not fetched yet. Each connection has a limit, all connections together have a limit, and one
analyst may use half of that. A small part of each connection is not counted against the shared
limits, so that a client that uses up all memory cannot keep others from asking.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from tallyveil.proxy.protocol_errors import OutOfMemory, TooMuchKept

__all__ = ["ConnectionMemory", "ServerMemory", "size_of"]

OWN: Final = 1 << 18
"""Bytes that every connection may occupy, whatever the others occupy."""

MUCH: Final = 1 << 23
"""Freed bytes that are worth returning to the operating system."""

_HINT: Final = (
    "Fetch all rows of results or close their portals, DEALLOCATE prepared statements, "
    "or ask for fewer rows with LIMIT."
)


class ServerMemory:
    """The memory of all connections together, at most ``most`` bytes; threads may share it.

    ``given`` is called after every `MUCH` bytes freed.
    """

    def __init__(self, most: int, given: Callable[[], None] = lambda: None) -> None:
        self._given: Final = given
        self._since = 0
        self._most: Final = most
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()

    @property
    def held(self) -> int:
        """Bytes occupied, without the `OWN` bytes of each connection."""
        return self._held.total()

    def take(self, analyst: str, size: int) -> None:
        """Occupy ``size`` bytes. Raises OutOfMemory if that exceeds a limit."""
        with self._lock:
            if self._held.total() + size > self._most:
                raise OutOfMemory(
                    "the server has no memory left for its clients",
                    detail=f"The limit for all clients together is {self._most} bytes.",
                    hint=f"{_HINT} Or try again later.",
                )
            if self._held[analyst] + size > self._most // 2:
                raise OutOfMemory(
                    f'the server has no memory left for the connections of "{analyst}"',
                    detail=f"The limit for one analyst is {self._most // 2} bytes.",
                    hint=_HINT,
                )
            self._held[analyst] += size

    def give(self, analyst: str, size: int) -> None:
        with self._lock:
            self._held[analyst] -= size
            if not self._held[analyst]:
                del self._held[analyst]
            self._since += size
            if self._since < MUCH:
                return
            self._since = 0
        self._given()


class ConnectionMemory:
    """The memory of one connection, at most ``most`` bytes; used by one thread at a time.

    The owner sets ``analyst`` once the user is authenticated.
    """

    def __init__(self, memory: ServerMemory, most: int) -> None:
        self.analyst = ""
        self._memory: Final = memory
        self._most: Final = most
        self._size = self._shared = 0

    def take(self, size: int) -> None:
        """Occupy ``size`` bytes. Raises TooMuchKept or OutOfMemory, and then occupies nothing."""
        if self._size + size > self._most:
            raise TooMuchKept(
                "this connection occupies too much memory of the server",
                detail="Prepared statements, parameters, cursors, savepoints and results not yet "
                f"fetched may take {self._most} bytes.",
                hint=_HINT,
            )
        shared = max(0, self._size + size - OWN)
        if shared > self._shared:
            self._memory.take(self.analyst, shared - self._shared)
        self._size, self._shared = self._size + size, shared

    def give(self, size: int) -> None:
        self._size -= size
        shared = max(0, self._size - OWN)
        if shared < self._shared:
            self._memory.give(self.analyst, self._shared - shared)
        self._shared = shared

    def give_all(self) -> None:
        self.give(self._size)


def size_of(value: Any) -> int:
    """The bytes of a parameter, including the elements of arrays."""
    size = sys.getsizeof(value)
    if isinstance(value, list | tuple):
        size += sum(map(size_of, value))
    return size
