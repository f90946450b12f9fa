"""Which call a cancel request hits: the one under way or about to start, and no other.

The rest of a connection runs on one worker thread at a time; cancel requests come from another
connection, on another thread. The lock closes the gap between them: no call ends, and no other
begins, while one is being interrupted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tallyveil.errors import QueryCanceled

__all__ = ["Interruption"]


class Interruption:
    """The cancel flag of one connection.

    ======== ====================================== =======================================
    state    meaning                                a cancel request
    ======== ====================================== =======================================
    idle     nothing was asked                      is ignored
    waiting  messages wait for a worker             stops the first call they make
    running  the gate is at work                    is seen by it, and interrupts it
    gone     the client has left                    everything is and stays cancelled
    ======== ====================================== =======================================
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = False
        self._flagged = False
        self._gone = False
        self._interrupt: Callable[[], None] | None = None

    @property
    def gone(self) -> bool:
        return self._gone

    def cancelled(self) -> bool:
        return self._flagged or self._gone

    def expect(self) -> None:
        """Messages have been handed to a worker."""
        with self._lock:
            self._waiting = True

    def settle(self) -> None:
        """The worker has answered them all; a cancel that came too late is forgotten."""
        with self._lock:
            self._waiting = self._flagged = False

    def cancel(self) -> None:
        with self._lock:
            if self._waiting or self._interrupt is not None:
                self._flagged = True
            if self._interrupt is not None:
                self._interrupt()

    def abandon(self) -> None:
        """The client has left, or the server is going: stop what runs, begin nothing more."""
        with self._lock:
            self._gone = True
            if self._interrupt is not None:
                self._interrupt()

    @contextmanager
    def running(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Around one call to the gate. Raises QueryCanceled if it must not begin."""
        with self._lock:
            self._waiting = False
            if self.cancelled():
                self._flagged = False
                raise QueryCanceled("canceling statement due to user request")
            self._interrupt = interrupt
        try:
            yield
        finally:
            with self._lock:
                self._interrupt = None
                self._flagged = False
