"""All locks that threads of one process share, in the order in which they must be taken.

====================  ===========================================================================
rank                  what the lock covers
====================  ===========================================================================
``ACCOUNTANT``        the ledger's transaction: reading what was appended, checking and appending
``KNOWLEDGE``         the recorded and exact answers of a table
``LEAF``              a cache, a registry, a flag
====================  ===========================================================================

A thread that holds a lock takes only locks of a later rank. No lock is held while much noise is
drawn, an estimate is solved, or a thread waits for another, unless the docstring of the class that
owns the lock says why. Only the ledger's transaction orders other processes on the same ledger. The
server's own locks are leaves too. Who reads a new version holds a lock of its own before all of
these (`gate.growth.editions`), for which only a statement waits that holds no other.

A thread that waits for a lock other than a leaf can be stopped: the accountant's holder may be
waiting for the disk or for another process on the ledger, and that of the knowledge may be adding
many rows.

With the environment variable ``TALLYVEIL_CHECK_LOCKS``, which the tests set, taking a lock out of
order raises RuntimeError at once, even if no other thread is there to deadlock with. So does asking
for a turn (`proxy.turns`) under a lock.
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager, nullcontext
from enum import IntEnum
from types import TracebackType
from typing import Final

from tallyveil import deadline

__all__ = ["CheckedLock", "Rank", "check_none_held", "ranked_lock"]

_CHECKED: Final = bool(os.environ.get("TALLYVEIL_CHECK_LOCKS"))
_LEDGER: Final = deadline.Phase.LEDGER
# Seconds between two checks of the deadline.
_PAUSE: Final = 0.05


class Rank(IntEnum):
    """A thread takes locks in ascending order of rank."""

    ACCOUNTANT = 1
    KNOWLEDGE = 2
    LEAF = 3


def ranked_lock(rank: Rank) -> AbstractContextManager[object]:
    """Return a lock of this rank, for ``with``. It is not reentrant."""
    return CheckedLock(rank) if _CHECKED or rank != Rank.LEAF else threading.Lock()


class _Held(threading.local):
    rank = 0


_held: Final = _Held()


def check_none_held() -> None:
    """Raise RuntimeError if locks are checked and this thread holds one."""
    if _CHECKED and _held.rank:
        raise RuntimeError(f"a thread waits for its turn under a {Rank(_held.rank).name} lock")


class CheckedLock:
    """A lock that raises RuntimeError if the thread already holds a lock of this rank or a later
    one. While waiting for a lock other than a leaf, it raises what `deadline.check` raises."""

    def __init__(self, rank: Rank) -> None:
        self._lock = threading.Lock()
        self._rank = rank
        self._outer = 0

    def __enter__(self) -> None:
        while not self.enter_within(_PAUSE):
            pass

    def enter_within(self, seconds: float) -> bool:
        """Take the lock, or return False if that is not possible within this time. A leaf is waited
        for, however long that takes."""
        outer = _held.rank
        if outer >= self._rank:
            raise RuntimeError(f"a {self._rank.name} lock is taken under a {Rank(outer).name} one")
        if not self._lock.acquire(timeout=-1 if self._rank == Rank.LEAF else seconds):
            ledger = self._rank == Rank.ACCOUNTANT
            with deadline.doing(_LEDGER) if ledger else nullcontext():
                deadline.check()
            return False
        self._outer = outer
        _held.rank = self._rank
        return True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _held.rank = self._outer
        self._lock.release()
