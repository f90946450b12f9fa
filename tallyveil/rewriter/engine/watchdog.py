"""Interrupts DuckDB when the time of a statement is over, or the statement was cancelled."""

from __future__ import annotations

import contextlib
import threading
from typing import Final

import duckdb

from tallyveil.deadline import Deadline
from tallyveil.locks import Rank, ranked_lock

__all__ = ["LOOK", "Watchdog"]

LOOK: Final = 0.05
"""Seconds between two checks of the deadlines."""

_IDLE: Final = 20
"""Checks without a statement after which the thread ends; the next statement starts another."""


class Watchdog:
    """One thread that interrupts the connections whose statement's deadline is over.

    It repeats interrupts, since DuckDB forgets one that comes just before a statement begins.
    ``limit`` is the time limit of a statement, in seconds.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._busy: dict[int, tuple[Deadline, duckdb.DuckDBPyConnection]] = {}
        self._lock = ranked_lock(Rank.LEAF)
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def enter(self, connection: duckdb.DuckDBPyConnection, statement: Deadline) -> None:
        with self._lock:
            self._busy[id(connection)] = (statement, connection)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, daemon=True, name="watchdog")
                self._thread.start()

    def leave(self, connection: duckdb.DuckDBPyConnection) -> None:
        with self._lock:
            self._busy.pop(id(connection), None)

    def _watch(self) -> None:
        idle = 0
        while not self._closed.wait(min(LOOK, self.limit / 4)):
            with self._lock:
                idle = 0 if self._busy else idle + 1
                if idle == _IDLE:
                    self._thread = None
                    return
                for statement, connection in self._busy.values():
                    if statement.over():
                        with contextlib.suppress(duckdb.ConnectionException):  # closed meanwhile
                            connection.interrupt()

    def close(self) -> None:
        self._closed.set()
        if (thread := self._thread) is not None:
            thread.join()
