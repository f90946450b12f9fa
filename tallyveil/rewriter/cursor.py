"""A session's connection to the public database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import duckdb
import pyarrow as pa

from tallyveil.errors import QueryCanceled, StatementError, StatementTooComplex
from tallyveil.rewriter.duckdb_errors import BROKEN, too_slow, translate
from tallyveil.rewriter.engine import Engine
from tallyveil.rewriter.watchdog import Watchdog

__all__ = ["MAX_VALUES", "Cursor"]

# What one result may hold, and how much of it is fetched at a time.
MAX_VALUES: Final = 5_000_000
_PORTION: Final = 10_000

# So many interrupts in a row are no coincidence.
_INTERRUPTS: Final = 10


class Cursor:
    """A connection to the public database, used by one thread at a time."""

    def __init__(self, engine: Engine, watchdog: Watchdog) -> None:
        self._engine = engine
        self._life, self._connection = engine.cursor()
        self._watchdog = watchdog
        self._interrupted = False
        self._holding = 0

    def arrow(self, sql: str) -> pa.Table:
        """The result of a query, columns and types as DuckDB has them."""
        with self._running():
            relation = self._connection.sql(sql)
            return relation.to_arrow_table()

    def rows(self, sql: str) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
        """The result's (name, DuckDB type) columns and its rows as Python values."""
        with self._running():
            self._connection.execute(sql)
            description = self._connection.description or []
            columns = [(c[0], str(c[1])) for c in description]
            return columns, self._fetched(max(1, len(columns)))

    def _fetched(self, width: int) -> list[tuple[Any, ...]]:
        """The rows, in portions: between two of them it can be stopped, and other threads run."""
        rows: list[tuple[Any, ...]] = []
        try:
            while portion := self._connection.fetchmany(_PORTION):
                rows += portion
                self._check_portion(len(rows) * width)
        except StatementError:
            self._connection.abort()
            raise
        return rows

    def _check_portion(self, values: int) -> None:
        if values > MAX_VALUES:
            raise StatementTooComplex(
                f"the result has more than {MAX_VALUES} values", hint="Add a LIMIT."
            )
        if self._watchdog.fired(self._connection):
            raise too_slow()
        if self._interrupted:
            raise QueryCanceled("canceling statement due to user request")

    def describe(self, sql: str) -> list[tuple[str, str]]:
        """The (name, DuckDB type) of each column of a query, which is not executed."""
        with self._running():
            relation = self._connection.sql(sql)
            return list(zip(relation.columns, map(str, relation.types), strict=True))

    @contextmanager
    def tables(self, tables: dict[str, pa.Table]) -> Iterator[None]:
        """Make Arrow tables visible under these names to this cursor, for a while."""
        try:
            with self._running():
                self._holding += 1
                for name, table in tables.items():
                    self._connection.register(name, table)
            yield
        finally:
            for name in tables:
                self._unregister(name)
            self._holding -= 1

    def _unregister(self, name: str) -> None:
        """An interrupt meant for the statement may arrive here; the name goes all the same."""
        for _ in range(_INTERRUPTS):
            try:
                self._connection.unregister(name)
            except duckdb.InterruptException:
                continue
            except BROKEN:
                self._renew_if_broken()
            return
        raise QueryCanceled("canceling statement due to user request")

    @contextmanager
    def _running(self) -> Iterator[None]:
        self._interrupted = False
        if not self._holding:
            self._follow()
        self._watchdog.enter(self._connection)
        try:
            yield
        except duckdb.Error as error:
            if isinstance(error, BROKEN):
                self._renew_if_broken()
            raise translate(error, timed_out=self._watchdog.fired(self._connection)) from None
        finally:
            self._watchdog.leave(self._connection)

    def _follow(self) -> None:
        """Go over to the database that was opened anew, if one was."""
        if self._life != self._engine.life:
            self._connection.close()
            self._life, self._connection = self._engine.cursor()

    def _renew_if_broken(self) -> None:
        """After some mistakes of its own DuckDB answers no statement any more, of any session."""
        try:
            self._connection.execute("SELECT 1").fetchall()
        except duckdb.Error:
            self._engine.renew(self._life)

    def interrupt(self) -> None:
        """From any thread: what runs on this cursor ends with QueryCanceled."""
        self._interrupted = True
        self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()
