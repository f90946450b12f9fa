"""A bound on how long one statement may be evaluated."""

from __future__ import annotations

import threading
import time

import duckdb

from tallyveil.locks import Rank, ranked_lock

__all__ = ["Watchdog"]


class Watchdog:
    """One thread that interrupts connections whose statement's time is over.

    ``limit`` is the time of a statement, in seconds.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._busy: dict[int, tuple[float, duckdb.DuckDBPyConnection]] = {}
        self._lock = ranked_lock(Rank.LEAF)
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def enter(self, connection: duckdb.DuckDBPyConnection, end: float) -> None:
        """``end`` is on the monotonic clock."""
        with self._lock:
            self._busy[id(connection)] = (end, connection)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, daemon=True, name="watchdog")
                self._thread.start()

    def leave(self, connection: duckdb.DuckDBPyConnection) -> None:
        with self._lock:
            self._busy.pop(id(connection), None)

    def _watch(self) -> None:
        while not self._closed.wait(min(0.05, self.limit / 4)):
            now = time.monotonic()
            with self._lock:
                for end, connection in self._busy.values():
                    if now > end:
                        connection.interrupt()

    def close(self) -> None:
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
