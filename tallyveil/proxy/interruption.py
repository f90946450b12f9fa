"""Which call a cancel request stops: the running one, or the next expected one, and no other.

Requests arrive on another connection, on the event loop. The calls they stop run on one worker
thread at a time; the deadline of each call asks `cancelled`.

Clients cancel by a process id and a secret of each connection. The last bits of an id number the
process that has the connection, so that any other process can forward a request to it. These bits
are not secret. The rest of the id, and the secret, are drawn independently for each connection and
reveal nothing about another's.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tallyveil import deadline

__all__ = ["LONGEST_SECRET", "MOST_WORKERS", "CancelKeys", "Interruption", "worker_of"]

_BITS: Final = 6
MOST_WORKERS: Final = 1 << _BITS
LONGEST_SECRET: Final = 32
"""The most bytes of a secret."""


class Interruption:
    """The cancel flag of one connection.

    ======== ====================================== =======================================
    state    meaning                                a cancel request
    ======== ====================================== =======================================
    idle     no messages are with a worker          is ignored
    expected messages wait for a worker, or a       stops the next call
             worker is between two calls for them
    running  a call is running                      stops it, or else the next one
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
        """Messages have been given to a worker."""
        self._expected = True

    def settle(self) -> None:
        """The worker has answered them all; a cancel that came too late is discarded."""
        self._expected = self._flagged = False

    def cancel(self) -> None:
        self._flagged = self._expected

    def abandon(self) -> None:
        """The client has left, or the server is closing: stop what runs, begin nothing more."""
        self._gone = True

    @contextmanager
    def running(self) -> Iterator[None]:
        """The context of one call. Raises QueryCanceled on entry if the connection is cancelled.

        A request that comes after the call's last check stops the next call.
        """
        try:
            if self.cancelled():
                raise deadline.canceled()
            yield
        except Exception:
            self._flagged = False
            raise


def worker_of(pid: int) -> int:
    """The number of the server process that issued the id."""
    return pid % MOST_WORKERS


class CancelKeys:
    """The cancel keys issued by the process with the number ``worker``; threads may share it."""

    def __init__(self, worker: int) -> None:
        self._worker: Final = worker
        self._lock = threading.Lock()
        self._given: dict[int, tuple[bytes, Interruption]] = {}

    def give(self, interruption: Interruption, size: int = 4) -> tuple[int, bytes]:
        """Issue a process id, positive and of 31 bits, and its secret of ``size`` bytes."""
        secret = secrets.token_bytes(size)
        with self._lock:
            pid = 0
            while pid == 0 or pid in self._given:
                pid = secrets.randbits(31 - _BITS) << _BITS | self._worker
            self._given[pid] = secret, interruption
        return pid, secret

    def take_back(self, pid: int) -> bool:
        """Revoke the id. Returns whether it was issued."""
        with self._lock:
            return self._given.pop(pid, None) is not None

    def find(self, pid: int, secret: bytes) -> Interruption | None:
        """The connection's `Interruption` if the secret is right, else None."""
        with self._lock:
            known = self._given.get(pid)
        expected, interruption = known or (secrets.token_bytes(4), None)
        return interruption if hmac.compare_digest(expected, secret) else None
