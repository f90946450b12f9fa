"""The bytes that clients make the server keep for them: counted, bounded, and given back.

Counted are prepared statements, bound parameters, cursors, savepoints, and the rows of results
that were not fetched yet. A connection has a bound, an analyst has a half of what the server keeps,
and all together have a bound; but a little is every connection's own, so that who takes all keeps
nobody else from asking.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from tallyveil.proxy.errors import OutOfMemory, TooMuchKept

__all__ = ["ConnectionMemory", "ServerMemory", "size_of"]

OWN: Final = 1 << 18
"""Bytes that a connection may take whatever the others have taken."""

MUCH: Final = 1 << 23
"""Bytes that are worth returning to the system."""

_HINT: Final = (
    "Fetch results to their end or close their portals, DEALLOCATE what is prepared, "
    "or ask for less with LIMIT."
)


class ServerMemory:
    """What all connections hold together, at most ``most`` bytes; threads may share it.

    ``given`` is called when much has been given back.
    """

    def __init__(self, most: int, given: Callable[[], None] = lambda: None) -> None:
        self._given: Final = given
        self._since = 0
        self._most: Final = most
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()

    @property
    def held(self) -> int:
        """Bytes, those that are connections' own left out."""
        return self._held.total()

    def take(self, analyst: str, size: int) -> None:
        """Raises OutOfMemory if that is too much."""
        with self._lock:
            if self._held.total() + size > self._most:
                raise OutOfMemory(
                    "the server keeps as much for its clients as it may",
                    detail=f"It may keep {self._most} bytes.",
                    hint=f"{_HINT} Or try again later.",
                )
            if self._held[analyst] + size > self._most // 2:
                raise OutOfMemory(
                    f'the server keeps as much for "{analyst}" as it may for one analyst',
                    detail=f"It may keep {self._most // 2} bytes.",
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
    """What one connection holds, at most ``most`` bytes; used by one thread at a time.

    ``analyst`` is set once it is known.
    """

    def __init__(self, memory: ServerMemory, most: int) -> None:
        self.analyst = ""
        self._memory: Final = memory
        self._most: Final = most
        self._size = self._shared = 0

    def take(self, size: int) -> None:
        """Raises TooMuchKept or OutOfMemory, and takes nothing then."""
        if self._size + size > self._most:
            raise TooMuchKept(
                "this connection has the server keep too much",
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
    """Bytes of a parameter, the elements of arrays included."""
    size = sys.getsizeof(value)
    if isinstance(value, list | tuple):
        size += sum(map(size_of, value))
    return size
