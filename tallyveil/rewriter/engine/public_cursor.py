"""The public database, reopened when a statement has broken it, and sessions' connections."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Final, TypeAlias

import duckdb
import pyarrow as pa
from sqlglot import exp

from tallyveil import deadline
from tallyveil.deadline import Deadline
from tallyveil.errors import StatementError, StatementTooComplex
from tallyveil.locks import Rank, ranked_lock
from tallyveil.rewriter.engine.duckdb_errors import BROKEN, as_duckdb, translate
from tallyveil.rewriter.engine.python_values import as_text, read_columns, readers
from tallyveil.rewriter.engine.watchdog import LOOK, Watchdog
from tallyveil.rewriter.sql.nodes import duckdb_sql

__all__ = ["Engine", "PublicCursor"]

# Limits of one result, and the number of its rows that are fetched at a time.
MAX_VALUES: Final = 5_000_000
MAX_BYTES: Final = 1 << 28
_PORTION: Final = 2_048
_DECIMALS: Final = 38  # digits, beyond which a number is a double
_FETCHED: Final = 512  # rows as Python values: no other thread runs while they are fetched
_PORTION_VALUES: Final = 1 << 16

_Rows: TypeAlias = list[tuple[Any, ...]]

_UTC: Final = "UTC"

# The types whose values all have about the same size.
_SHORT: Final = frozenset(
    {"BOOLEAN", "INTEGER", "BIGINT", "HUGEINT", "DOUBLE", "DATE", "TIMESTAMP", "NULL"}
)

# This many interrupts in a row are not a coincidence.
_INTERRUPTS: Final = 10

# The number of attempts to close a connection whose statement still runs.
_ATTEMPTS: Final = 20


class Engine:
    """A database that ``opened`` makes, the same at every call. Threads may share it.

    A bug in DuckDB can leave a database that refuses every further statement. Another one can
    replace it, since it holds only what it was opened with. The lock is held while the other one is
    opened, since no statement can be answered before.
    """

    def __init__(self, opened: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        self._opened = opened
        self._connection = opened()
        self._lock = ranked_lock(Rank.LEAF)
        self.generation = 0

    def cursor(self) -> tuple[int, duckdb.DuckDBPyConnection]:
        """The generation of the current database, and a connection to it."""
        with self._lock:
            return self.generation, self._connection.cursor()

    def renew(self, generation: int) -> None:
        """Open another database, unless this generation's was replaced already.

        The old one is freed when the last cursor leaves it.
        """
        with self._lock:
            if generation == self.generation:
                self._connection = self._opened()
                self.generation += 1

    def close(self) -> None:
        self._connection.close()


class PublicCursor:
    """A connection to the public database, used by one thread at a time."""

    def __init__(self, engine: Engine, watchdog: Watchdog) -> None:
        self._engine = engine
        self._generation, self._connection = engine.cursor()
        self._watchdog = watchdog
        self._deadline: Deadline | None = None
        self._registrations = 0  # contexts of `tables` that are open
        self._zone = _UTC
        self._zone_set = _UTC

    @contextmanager
    def limited(
        self, timeout: float = math.inf, cancelled: Callable[[], bool] = lambda: False
    ) -> Iterator[Deadline]:
        """Set one deadline for everything inside, in Python and in DuckDB: that of the running
        statement, or if there is none a new one, ``timeout`` seconds or the database's limit from
        now.

        Python code that takes long must call `deadline.check`.
        """
        if self._deadline is not None:
            yield self._deadline
            return
        given = deadline.current() or Deadline(self._watchdog.limit, timeout, cancelled)
        self._deadline = given
        try:
            with given.entered():
                yield given
        finally:
            self._deadline = None

    def use_time_zone(self, zone: str) -> None:
        """From now on, read, convert and write timestamps with time zone in this zone.

        ``zone`` is a name that `zoneinfo` knows.
        """
        self._zone = zone

    @property
    def time_zone(self) -> str:
        return self._zone

    def arrow(self, sql: str, limit: int = MAX_VALUES) -> pa.Table:
        """The result of a query, with DuckDB's columns and types.

        Raises StatementTooComplex if it has more than ``limit`` values.
        """
        with self._running(), self._connection.sql(sql).to_arrow_reader(_PORTION) as reader:
            batches: list[pa.RecordBatch] = []
            values = size = 0
            for batch in reader:
                batches.append(batch)
                values += batch.num_rows * batch.num_columns
                size += batch.nbytes
                self._check_portion(values, size, limit)
            return pa.Table.from_batches(batches, reader.schema)

    def values(self, sql: str, kinds: Sequence[str], take: Callable[[_Rows], object]) -> int:
        """Pass a query's rows to ``take``, in portions and as Python values, and return their
        number. ``kinds`` are the columns' DuckDB types; `python_values` reads dates and intervals.
        """
        reads = readers(kinds, self._zone)
        if not any(reads):
            return self.fetch(sql, lambda columns: take)[1]

        def read(portion: _Rows) -> None:
            take(read_columns(portion, reads))

        return self.fetch(as_text(sql, kinds), lambda columns: read)[1]

    def rows(self, sql: str) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]]]:
        """The result's (name, DuckDB type) columns and its rows as DuckDB gives them to Python."""
        rows: list[tuple[Any, ...]] = []
        columns, _ = self.fetch(sql, lambda columns: rows.extend)
        return columns, rows

    def constant(self, node: exp.Expr) -> Any:
        """The value of a constant expression; plain numbers without asking DuckDB."""
        inner = node.unnest()
        if not isinstance(inner, exp.Literal) or inner.is_string:
            return self.rows(f"SELECT {duckdb_sql(node)}")[1][0][0]
        if inner.is_int:
            return int(inner.this)
        short = len(inner.this) <= _DECIMALS and "e" not in inner.this.lower()
        return Decimal(inner.this) if short else float(inner.this)

    def fetch(
        self, sql: str, begin: Callable[[list[tuple[str, str]]], Callable[[_Rows], object]]
    ) -> tuple[list[tuple[str, str]], int]:
        """Return the columns, as `rows` does, and the number of rows. What ``begin`` returns for
        the columns gets the rows in portions. If it raises a StatementError, no more are fetched.
        """
        with self._running():
            self._connection.execute(sql)
            columns = [(c[0], str(c[1])) for c in self._connection.description or []]
            return columns, self._fetched([kind for _, kind in columns], begin(columns))

    def _fetched(self, kinds: Sequence[str], receive: Callable[[_Rows], object]) -> int:
        """Fetch in portions: between two of them it can be stopped, and other threads run."""
        width = max(1, len(kinds))
        portion = max(1, min(_FETCHED, _PORTION_VALUES // width))
        texts = [number for number, kind in enumerate(kinds) if kind not in _SHORT]
        count = size = 0
        try:
            while rows := self._connection.fetchmany(portion):
                count += len(rows)
                size += sum(len(str(row[n])) for row in rows for n in texts)
                self._check_portion(count * width, size, MAX_VALUES)
                receive(rows)
        except StatementError:
            self._connection.abort()
            raise
        return count

    def _check_portion(self, values: int, size: int, limit: int) -> None:
        if values > limit:
            raise StatementTooComplex(
                f"the result has more than {limit} values",
                hint="Add a LIMIT, or ask for fewer groups.",
            )
        if size > MAX_BYTES:
            raise StatementTooComplex(
                f"the result takes more than {MAX_BYTES} bytes",
                hint="Add a LIMIT, or ask for shorter texts.",
            )
        deadline.check()

    def describe(self, sql: str) -> list[tuple[str, str]]:
        """The (name, DuckDB type) of each column of a query, which is not executed."""
        with self._running():
            relation = self._connection.sql(sql)
            return list(zip(relation.columns, map(str, relation.types), strict=True))

    @contextmanager
    def tables(self, tables: dict[str, pa.Table]) -> Iterator[None]:
        """Make Arrow tables visible to this cursor, under these names, in the context."""
        try:
            with self._running():
                self._registrations += 1
                for name, table in tables.items():
                    self._connection.register(name, table)
            yield
        finally:
            for name in tables:
                self._unregister(name)
            self._registrations -= 1

    def _unregister(self, name: str) -> None:
        """Remove the name, even if an interrupt that was meant for the statement arrives here."""
        for _ in range(_INTERRUPTS):
            try:
                self._connection.unregister(name)
            except duckdb.InterruptException:
                continue
            except BROKEN:
                self._renew_if_broken()
            return
        raise deadline.canceled()

    @contextmanager
    def _running(self) -> Iterator[None]:
        with self.limited() as limit:
            deadline.check()
            if not self._registrations:
                self._update_connection()
            self._watchdog.enter(self._connection, limit)
            try:
                yield
            except (duckdb.Error, OSError, pa.ArrowException) as failure:
                error = as_duckdb(failure)
                if isinstance(error, BROKEN):
                    self._renew_if_broken()
                deadline.check()  # report the stop of the statement, not DuckDB's error
                raise translate(error) from None
            finally:
                self._watchdog.leave(self._connection)

    def _update_connection(self) -> None:
        """Connect to the current database, if it was renewed, and set the session's time zone."""
        if self._generation != self._engine.generation:
            self._connection.close()
            self._generation, self._connection = self._engine.cursor()
            self._zone_set = _UTC
        if self._zone_set != self._zone:
            self._connection.execute(f"SET TimeZone = '{self._zone}'")
            self._zone_set = self._zone

    def _renew_if_broken(self) -> None:
        """Renew the database if a bug in DuckDB keeps it from answering any session."""
        try:
            self._connection.execute("SELECT 1").fetchall()
        except duckdb.Error:
            self._engine.renew(self._generation)

    def interrupt(self) -> None:
        """From any thread, end the statement on this cursor with QueryCanceled."""
        self._cancel()
        self._connection.interrupt()

    def _cancel(self) -> None:
        if (running := self._deadline) is not None:
            running.cancel()

    def close(self) -> None:
        """Close the connection. A statement on it in another thread ends with QueryCanceled. If
        DuckDB does not stop soon, the connection is freed once it does."""
        self._cancel()
        for _ in range(_ATTEMPTS):
            try:
                self._connection.close()
            except duckdb.ResourceInUseException:
                self._connection.interrupt()
                time.sleep(LOOK)
            else:
                return
