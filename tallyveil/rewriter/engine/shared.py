"""The DuckDB behind all cursors, opened anew where a statement has broken it."""

from __future__ import annotations

from collections.abc import Callable

import duckdb

from tallyveil.locks import Rank, ranked_lock

__all__ = ["Engine"]


class Engine:
    """A database that ``opened`` makes, time and again the same. Threads may share it.

    A mistake of DuckDB's can leave a database that refuses every further statement. It holds
    nothing but what it was opened with, so that another one is as good. Its lock is held while that
    one is opened, since no statement can be answered before.
    """

    def __init__(self, opened: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        self._opened = opened
        self._connection = opened()
        self._lock = ranked_lock(Rank.LEAF)
        self.life = 0

    def cursor(self) -> tuple[int, duckdb.DuckDBPyConnection]:
        """A connection to the database, and in which of its lives that is."""
        with self._lock:
            return self.life, self._connection.cursor()

    def renew(self, life: int) -> None:
        """Open another database, unless that of this life has been left already.

        The old one goes when the last cursor leaves it.
        """
        with self._lock:
            if life == self.life:
                self._connection = self._opened()
                self.life += 1

    def close(self) -> None:
        self._connection.close()
