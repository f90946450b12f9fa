"""The keys by which clients cancel: a process id and a secret for each connection.

The last bits of an id say which of several processes has the connection, so that a request that
comes to another is passed on to the right one. They are no secret; the rest of the id, and above
all the secret, are drawn anew for each connection and tell nothing of another's.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from typing import Final

from tallyveil.proxy.interruption import Interruption

__all__ = ["MOST_WORKERS", "CancelKeys", "worker_of"]

_BITS: Final = 6
MOST_WORKERS: Final = 1 << _BITS


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
