"""Which call a cancel request hits: the one under way or the next of those expected, and no other.

Requests come from another connection, on the event loop; what they are meant for runs on one worker
thread at a time, and asks `cancelled` through the deadline of each call.

Clients cancel by a process id and a secret for each connection. The last bits of an id say which of
several processes has the connection, so that a request that comes to another is passed on to the
right one. They are no secret; the rest of the id, and above all the secret, are drawn anew for each
connection and tell nothing of another's.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tallyveil import deadline

__all__ = ["CancelKeys", "Interruption", "worker_of"]

_BITS: Final = 6
MOST_WORKERS: Final = 1 << _BITS


class Interruption:
    """The cancel flag of one connection.

    ======== ====================================== =======================================
    state    meaning                                a cancel request
    ======== ====================================== =======================================
    idle     nothing was asked                      is ignored
    expected messages wait for a worker, or for     stops the next call they make
             the next call that one makes for them
    running  a call is at work                      is seen by it, else by the next one
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
        """Around one call. Raises QueryCanceled if it must not begin.

        A request that comes when the call looks no more stops the next one.
        """
        try:
            if self.cancelled():
                raise deadline.canceled()
            yield
        except Exception:
            self._flagged = False
            raise


def worker_of(pid: int) -> int:
    """The number of the process that gave the id."""
    return pid % MOST_WORKERS


class CancelKeys:
    """Those of the process with the number ``worker``; threads may share them."""

    def __init__(self, worker: int) -> None:
        self._worker: Final = worker
        self._lock = threading.Lock()
        self._given: dict[int, tuple[bytes, Interruption]] = {}

    def give(self, interruption: Interruption, size: int = 4) -> tuple[int, bytes]:
        """A process id, positive and of 31 bits, and its secret of ``size`` bytes."""
        secret = secrets.token_bytes(size)
        with self._lock:
            pid = 0
            while pid == 0 or pid in self._given:
                pid = secrets.randbits(31 - _BITS) << _BITS | self._worker
            self._given[pid] = secret, interruption
        return pid, secret

    def take_back(self, pid: int) -> bool:
        """Whether it was given."""
        with self._lock:
            return self._given.pop(pid, None) is not None

    def find(self, pid: int, secret: bytes) -> Interruption | None:
        """What to cancel, for the right secret."""
        with self._lock:
            known = self._given.get(pid)
        expected, interruption = known or (secrets.token_bytes(4), None)
        return interruption if hmac.compare_digest(expected, secret) else None
