"""Which call a cancel request hits: the one under way or the next of those expected, and no other.

Requests come from another connection, on the event loop; what they are meant for runs on one worker
thread at a time, and asks `cancelled` through the deadline of each call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tallyveil import deadline

__all__ = ["Interruption"]


class Interruption:
    """The cancel flag of one connection.

    ======== ====================================== =======================================
    state    meaning                                a cancel request
    ======== ====================================== =======================================
    idle     nothing was asked                      is ignored
    expected messages wait for a worker, or for     stops the next call they make
             the next call that one makes for them
    running  a call is at work                      is seen by it
    gone     the client has left                    everything is and stays cancelled
    ======== ====================================== =======================================
    """

    def __init__(self) -> None:
        self._expected = False
        self._flagged = False
        self._gone = False

    @property
    def gone(self) -> bool:
        return self._gone

    def cancelled(self) -> bool:
        return self._flagged or self._gone

    def expect(self) -> None:
        """Messages have been handed to a worker."""
        self._expected = True

    def settle(self) -> None:
        """The worker has answered them all; a cancel that came too late is forgotten."""
        self._expected = self._flagged = False

    def cancel(self) -> None:
        self._flagged = self._expected

    def abandon(self) -> None:
        """The client has left, or the server is going: stop what runs, begin nothing more."""
        self._gone = True

    @contextmanager
    def running(self) -> Iterator[None]:
        """Around one call. Raises QueryCanceled if it must not begin."""
        try:
            if self.cancelled():
                raise deadline.canceled()
            yield
        finally:
            self._flagged = False
