"""Work for the next process, in a thread of its own: no statement waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from tallyveil.locks import Rank, ranked_lock

__all__ = ["Background"]


class Background:
    """Does ``work`` in a thread, which ends after it. One runs at a time. Threads may share it."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._lock = ranked_lock(Rank.LEAF)
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Do the work, unless that is going on. Not if the system allows no more threads: whoever
        starts it has been charged, and must not fail."""
        with self._lock, suppress(RuntimeError):
            if self._thread is None or not self._thread.is_alive():
                thread = threading.Thread(target=self._work, name="tallyveil-summary", daemon=True)
                thread.start()
                self._thread = thread

    def wait(self) -> None:
        """Wait until the work started has ended."""
        if self._thread is not None:
            self._thread.join()
