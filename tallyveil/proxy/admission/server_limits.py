"""The limits of one server, and of one connection to it."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from typing import Self

__all__ = ["ServerLimits"]


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Sizes in bytes, times in seconds.

    Connections: at most ``max_connections`` authenticated clients, and at most
    ``max_user_connections`` of one user (None for half of all). Beside them at most
    ``max_waiting`` sockets that are not authenticated yet, including cancel requests and TLS
    handshakes. One more replaces the oldest socket of the address that has most of them.

    Times: ``startup_timeout`` limits how long a socket may take to authenticate. ``close_timeout``
    limits how long a client may take to read its last answer, and how long its statements may run
    after the end of its stream. ``send_timeout`` limits how long it may read nothing of a waiting
    answer, ``idle_timeout`` (None for no limit) how long it may send nothing.

    Messages: ``max_message`` limits one message of an authenticated client, ``read_ahead`` the
    bytes stored of later messages while one is answered, ``write_ahead`` the bytes that wait for a
    client that reads slowly (a single row may be larger).

    Memory: ``connection_memory`` limits what the server stores for one client: prepared statements,
    parameters, cursors, savepoints, and results not fetched yet; ``memory`` limits it for all.

    Threads: ``threads`` run statements, each statement on one of them, and one analyst's on at
    most ``analyst_threads``. An analyst who has none gets one beyond that number. At most ``heavy``
    statements that take long compute at a time.
    """

    max_connections: int = 100
    max_user_connections: int | None = None
    max_waiting: int = 100
    startup_timeout: float = 10.0
    close_timeout: float = 5.0
    send_timeout: float = 300.0
    idle_timeout: float | None = None
    max_message: int = 1 << 20
    read_ahead: int = 1 << 16
    write_ahead: int = 1 << 16
    connection_memory: int = 1 << 27
    memory: int = 1 << 29
    threads: int = 16
    analyst_threads: int = 8
    heavy: int = max(1, min(4, (os.cpu_count() or 1) // 2))

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.default is None:
                continue
            if not 0 < value < float("inf"):
                raise ValueError(f"{field.name} must be positive and finite, not {value!r}")
            if str(field.type).startswith("int") and not isinstance(value, int):
                raise ValueError(f"{field.name} must be a whole number, not {value!r}")

    def shared_by(self, processes: int) -> Self:
        """The limits of each of several processes: ``max_waiting``, ``memory`` and ``heavy`` are
        divided. Limits on clients stay, since the supervisor counts them over all processes."""
        return replace(
            self,
            max_waiting=-(-self.max_waiting // processes),
            memory=-(-self.memory // processes),
            heavy=-(-self.heavy // processes),
        )
