"""A bound on how long one statement may be evaluated."""

from __future__ import annotations

import threading
import time

import duckdb

__all__ = ["Watchdog"]


class Watchdog:
    """One thread that interrupts connections busy for longer than the limit."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._busy: dict[int, tuple[float, duckdb.DuckDBPyConnection]] = {}
        self._fired: set[int] = set()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def deadline(self) -> float:
        """On the monotonic clock, of what begins now."""
        return time.monotonic() + self._limit

    def enter(self, connection: duckdb.DuckDBPyConnection, deadline: float | None = None) -> None:
        with self._lock:
            self._busy[id(connection)] = (deadline or self.deadline(), connection)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, daemon=True, name="watchdog")
                self._thread.start()

    def leave(self, connection: duckdb.DuckDBPyConnection) -> None:
        with self._lock:
            self._busy.pop(id(connection), None)
            self._fired.discard(id(connection))

    def fired(self, connection: duckdb.DuckDBPyConnection) -> bool:
        return id(connection) in self._fired

    def _watch(self) -> None:
        while not self._closed.wait(min(0.05, self._limit / 4)):
            now = time.monotonic()
            with self._lock:
                for key, (deadline, connection) in self._busy.items():
                    if now > deadline:
                        self._fired.add(key)
                        connection.interrupt()

    def close(self) -> None:
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
