"""The in-process interface: a DB-API 2.0 connection in DuckDB's dialect, without the wire.

It shares everything behind the wire with the server: policy, ledger, decision, history.
"""

from __future__ import annotations

import atexit
import getpass
import weakref
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self

import duckdb
import pyarrow as pa

from tallyveil import dbapi
from tallyveil.dbapi import InterfaceError
from tallyveil.duckdb_connection import duckdb_connection
from tallyveil.errors import SQLSyntaxError
from tallyveil.gate import ColumnType, Gate, Given, Notice, Parameters, Result
from tallyveil.interval import Interval
from tallyveil.policy import Policy, load_policy
from tallyveil.proxy.result_relation import Relation, arrow_table, require

__all__ = ["Connection", "Cursor", "connect", "login_name"]

_NO_RESULT: Final = "the last statement returned no rows: execute a query first"


class CursorStateError(InterfaceError, sqlstate="24000"):
    """The cursor is closed, or has no rows to fetch."""


def connect(
    policy: Policy | str | Path,
    *,
    source: Given = None,
    user: str | None = None,
) -> Connection:
    """Open a gate in this process.

    ``policy`` is a path or a `Policy`. ``source`` holds the protected tables, instead of the
    policy's source: an open DuckDB connection, a pandas or polars DataFrame, an Arrow table, or
    any other object that exports its columns by ``__arrow_c_stream__``. A data frame is copied;
    it has the name in ``from`` and the table's own name. ``user`` is the analyst whom the ledger
    records and whose share is charged, by default the operating system's user. The gate does not
    verify it. A caller who can run Python here can also read the source: the gate protects what
    leaves the process, not the process from itself.

    A connection that is still open when the interpreter ends is closed then.

    Raises PolicyError, SourceError, LedgerError, LedgerMismatch; TypeError for another source.
    """
    declared = policy if isinstance(policy, Policy) else load_policy(policy)
    return Connection(Gate(declared, source), user)


class Connection:
    """A DB-API 2.0 connection; its method `sql` returns a `Relation` over the noisy rows.

    `notices` has the gate's notices on the last statement of `sql`, `explain` or `execute`.

    Every statement is final when it returns: `commit` does nothing, and `rollback` refunds
    nothing. Use a connection from one thread at a time.
    """

    Warning = dbapi.Warning
    Error = dbapi.TallyveilError
    InterfaceError = dbapi.InterfaceError
    DatabaseError = dbapi.DatabaseError
    DataError = dbapi.DataError
    OperationalError = dbapi.OperationalError
    IntegrityError = dbapi.IntegrityError
    InternalError = dbapi.InternalError
    ProgrammingError = dbapi.ProgrammingError
    NotSupportedError = dbapi.NotSupportedError

    def __init__(self, gate: Gate, user: str | None = None) -> None:
        self._gate = gate
        self._session = gate.session(login_name() if user is None else user, "tallyveil", "duckdb")
        self._local: duckdb.DuckDBPyConnection | None = None  # opened for the first relation
        self._local_zone = ""
        self.notices: tuple[Notice, ...] = ()
        self._closed = False
        _OPEN.add(self)

    def cursor(self) -> Cursor:
        self._open()
        return Cursor(self)

    def execute(self, sql: str, parameters: Parameters = ()) -> Cursor:
        """Execute the statement on a new cursor and return the cursor."""
        return self.cursor().execute(sql, parameters)

    def sql(self, query: str, params: Parameters = ()) -> Relation:
        """Answer a query; the relation holds the noisy rows (`.df()`, `.arrow()`, `.show()`, …)."""
        table, _ = self._query(query, params)
        if table is None:
            raise InterfaceError(
                "sql() takes a statement that returns rows", hint="Use execute() for SET and RESET."
            )
        return Relation(self._duckdb().from_arrow(table), self.notices)

    def _query(self, sql: str, parameters: Parameters = ()) -> tuple[pa.Table | None, Result]:
        self._open()
        self.notices = ()
        table, result = self._session.query(sql, parameters)
        self.notices = result.notices
        return table, result

    def _duckdb(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB database for rows already answered; it holds nothing else. It shows instants in
        the session's time zone; to set another one would end what it still runs."""
        zone = self._session.settings.time_zone
        if self._local is None or zone != self._local_zone:
            local = duckdb_connection()
            local.execute(f"SET TimeZone = '{zone}'")
            self._local, self._local_zone = local, zone
        return self._local

    def explain(self, query: str) -> str:
        """Return the linear query, its sensitivity, cost and interval as text; free."""
        _, result = self._query(f"EXPLAIN {query}")
        return "\n".join(row[0] for row in result.rows)

    def budget(self) -> list[dict[str, Any]]:
        """Return the rows of dp.budget: budget, spent and remaining of each protected table, each
        followed by the user's share of it, if the policy defines shares.
        """
        self._open()
        table, _ = self._session.query("SELECT * FROM dp.budget")
        return [] if table is None else table.to_pylist()

    def commit(self) -> None:
        self._open()

    def rollback(self) -> None:
        """Does nothing: what was answered stays known and charged."""
        self._open()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            _OPEN.discard(self)
            if self._local is not None:
                self._local.close()
            self._session.close()
            self._gate.close()

    def _open(self) -> None:
        if self._closed:
            raise InterfaceError("the connection is closed")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Cursor:
    """A DB-API 2.0 cursor. `notices` has the gate's notices on the last statement."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.notices: tuple[Notice, ...] = ()
        self.description: list[tuple[str, str, None, None, None, None, None]] | None = None
        self.rowcount = -1
        self._columns: tuple[ColumnType, ...] = ()
        self._rows: Iterator[tuple[Any, ...]] | None = None
        self._closed = False

    def execute(self, sql: str, parameters: Parameters = ()) -> Cursor:
        """Execute one statement; write its parameters as ``?``, ``$1``, or ``$name``."""
        self._open()
        self.description, self.rowcount, self._rows, self.notices = None, -1, None, ()
        self.connection.notices = ()
        session = self.connection._session
        sql, values = session.by_number(sql, parameters)
        statements = session.parse(sql)
        if not statements:
            raise SQLSyntaxError(
                "the statement is empty", hint="Write one, such as SELECT count(*) FROM a_table."
            )
        if len(statements) > 1:
            raise SQLSyntaxError(
                f"execute() takes one statement, not {len(statements)}",
                hint="Send them one by one.",
            )
        result = session.execute(statements[0], values)
        self.notices = self.connection.notices = result.notices
        if result.columns is not None:
            self.description = [
                (column.name, column.type, None, None, None, None, None)
                for column in result.columns
            ]
            self.rowcount = len(result.rows)
            self._columns, self._rows = result.columns, iter(result.rows)
        return self

    def executemany(self, sql: str, parameters: Sequence[Parameters]) -> None:
        for each in parameters:
            self.execute(sql, each)

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self, None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        return list(islice(self._as_python(), self.arraysize if size is None else size))

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self._as_python())

    def arrow(self) -> pa.Table:
        """Return the rows not fetched yet as an Arrow table. Raises InterfaceError for a value that
        Arrow cannot hold."""
        return arrow_table(self._columns, list(self._result()), self.connection._duckdb())

    def df(self) -> Any:
        """As `arrow`, as a pandas DataFrame. Also raises InterfaceError if pandas is missing."""
        require("pandas")
        return self.connection._duckdb().from_arrow(self.arrow()).df()

    def pl(self) -> Any:
        """As `arrow`, as a polars DataFrame. Also raises InterfaceError if polars is missing."""
        require("polars")
        return self.connection._duckdb().from_arrow(self.arrow()).pl()

    def __iter__(self) -> Self:
        self._result()
        return self

    def __next__(self) -> tuple[Any, ...]:
        return next(self._as_python())

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Does nothing; DB-API requires it."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing; DB-API requires it."""

    def close(self) -> None:
        self._closed = True
        self._rows = None

    def _result(self) -> Iterator[tuple[Any, ...]]:
        self._open()
        if self._rows is None:
            raise CursorStateError(_NO_RESULT)
        return self._rows

    def _as_python(self) -> Iterator[tuple[Any, ...]]:
        """The rows, with intervals as timedeltas where these can represent them."""
        rows = self._result()
        if all(column.type != "INTERVAL" for column in self._columns):
            return rows
        return (tuple(map(_timedelta, row)) for row in rows)

    def _open(self) -> None:
        self.connection._open()
        if self._closed:
            raise CursorStateError("the cursor is closed")

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_OPEN: Final[weakref.WeakSet[Connection]] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Close the connections that a script left open, before the interpreter unloads its modules: a
    DuckDB connection that outlives them is reported as a leak."""
    for connection in list(_OPEN):
        connection._session.interrupt()
        connection.close()


def _timedelta(value: Any) -> Any:
    """The value, but an interval as a timedelta where a timedelta can represent it."""
    span = value.timedelta() if isinstance(value, Interval) else None
    return value if span is None else span


def login_name() -> str:
    """The user whom the ledger records for charges made in this process: the operating system's
    user, or empty if it has no name."""
    try:
        return getpass.getuser()
    except OSError:
        return ""
