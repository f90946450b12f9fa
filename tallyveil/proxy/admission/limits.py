"""What one server, and one connection to it, may take."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from typing import Self

__all__ = ["ServerLimits"]


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Sizes in bytes, times in seconds.

    ``max_connections`` authenticated clients, of one user at most ``max_user_connections``, None
    for all of them; beyond them at most ``max_waiting`` sockets that have not got that far, cancel
    requests and TLS handshakes among them. One more takes the place of the one that has been at it
    for longest, of the address that has most. ``startup_timeout`` bounds that state,
    ``close_timeout`` how long a client may take to read its last answer, and its statements after
    the end of its stream, ``send_timeout`` how long it may read nothing of an answer that waits
    for it, and ``idle_timeout`` (None for ever) how long it may ask nothing. ``max_message`` bounds
    one message of an authenticated client, ``read_ahead`` what is kept of later ones while one is
    answered, ``write_ahead`` what waits for a client that reads slowly (a single row may be
    larger).

    ``connection_memory`` bounds what is kept for one client: prepared statements, parameters, and
    results not fetched yet; ``memory`` what is kept for all of them.

    ``threads`` run statements; one statement occupies one of them, and one analyst at most
    ``analyst_threads``. An analyst who has none gets one beyond the number. Of statements
    that take long, ``heavy`` compute at a time.
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
                raise ValueError(f"{field.name} must be a whole number")

    def shared_by(self, processes: int) -> Self:
        """Those of one of several processes, so that together they take no more; the numbers of
        connections are counted over all of them and stay."""
        return replace(
            self,
            max_waiting=-(-self.max_waiting // processes),
            memory=-(-self.memory // processes),
            heavy=-(-self.heavy // processes),
        )
