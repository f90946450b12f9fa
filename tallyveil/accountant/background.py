"""Work for the next process, in a thread of its own: no statement waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tallyveil.locks import Rank, ranked_lock

__all__ = ["Background", "rest"]

_REST: Final = 3


class Background:
    """Does ``work`` in a thread, which ends after it. One runs at a time. Threads may share it."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._lock = ranked_lock(Rank.LEAF)
        self._thread: _Worker | None = None

    def start(self) -> None:
        """Do the work, unless that is going on. Not if the system allows no more threads: whoever
        starts it has been charged, and must not fail."""
        with self._lock, suppress(RuntimeError):
            if self._thread is None or not self._thread.is_alive():
                thread = _Worker(self._work)
                thread.start()
                self._thread = thread

    def wait(self) -> None:
        """Wait until the work started has ended, which from now on does not rest."""
        if self._thread is not None:
            self._thread.hurried.set()
            self._thread.join()


class _Worker(threading.Thread):
    """A thread that rests until it is ``hurried``. ``rested`` is its processor time so far."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__(target=work, name="tallyveil-summary", daemon=True)
        self.hurried = threading.Event()
        self.rested = 0.0


def rest() -> None:
    """Where background work calls it, holding no lock, rest three times as long as it has computed
    since the last call: statements hardly notice it. Elsewhere do nothing."""
    own = threading.current_thread()
    if isinstance(own, _Worker):
        own.hurried.wait(_REST * (time.thread_time() - own.rested))
        own.rested = time.thread_time()
