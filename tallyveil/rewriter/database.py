"""The public DuckDB: where analysts' SQL is evaluated, on domains and noisy rows only.

It is an in-memory database that never holds a confidential value, with no file, network or
extension access, no view of Python's variables, a memory limit, and its configuration locked.
A watchdog interrupts what runs longer than the time limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

import duckdb
import pyarrow as pa

from tallyveil.errors import (
    DataError,
    DatatypeMismatch,
    DivisionByZero,
    FeatureNotSupported,
    InvalidParameterValue,
    NumericValueOutOfRange,
    QueryCanceled,
    StatementError,
    StatementTooComplex,
    UndefinedColumn,
    UndefinedFunction,
)
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.rewriter.watchdog import Watchdog

__all__ = ["MAX_VALUES", "Cursor", "PublicDatabase", "domain_table", "public_table"]

# What one result may hold, and how much of it is fetched at a time.
MAX_VALUES: Final = 5_000_000
_PORTION: Final = 10_000

_SETTINGS: Final = (
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET allow_persistent_secrets = false",
    "SET temp_directory = ''",  # what does not fit in memory is refused, not written down
    "SET enable_external_access = false",
    "SET enable_progress_bar = false",
    "SET arrow_large_buffer_size = false",
    "SET TimeZone = 'UTC'",
)

# What PostgreSQL means by some functions, where DuckDB has no function that means the same.
_MACROS: Final = (
    # A text as an integer is digits with a sign and spaces around, or an error.
    "__pg_whole(t) AS CASE WHEN t IS NULL OR regexp_full_match(t, '\\s*[+-]?[0-9]+\\s*') THEN t "
    "ELSE error('a text of the domain is no integer') END",
    # Places below 1 are counted, though nothing stands there.
    "__pg_substring_from(t, place) AS "
    "CASE WHEN place IS NOT NULL THEN substring(t, greatest(place, 1)) END",
    "__pg_substring(t, place, length) AS "
    "CASE WHEN length < 0 THEN error('negative substring length not allowed') "
    "WHEN place IS NOT NULL AND length IS NOT NULL "
    "THEN substring(t, greatest(place, 1), greatest(place + length - greatest(place, 1), 0)) END",
)

# A variance from n, s = Σ (x − c) and q = Σ (x − c)², with noise: see `moments`.
_VARIANCE: Final = (
    "__variance(n, s, q, lost) AS CASE WHEN n > lost AND q - s * s / n > 0 "
    "THEN (q - s * s / n) / (n - lost) WHEN n > lost AND q - s * s / n <= 0 THEN 0e0 END"
)

# So many interrupts in a row are no coincidence.
_INTERRUPTS: Final = 10

# DuckDB's message class -> ours. The messages speak of SQL, domains and noisy rows only.
_ERRORS: Final = MappingProxyType(
    {
        duckdb.ConversionException: DataError,
        duckdb.OutOfRangeException: NumericValueOutOfRange,
        duckdb.InvalidInputException: InvalidParameterValue,
        duckdb.BinderException: DatatypeMismatch,
        duckdb.NotImplementedException: FeatureNotSupported,
        duckdb.OutOfMemoryException: StatementTooComplex,
        duckdb.InterruptException: QueryCanceled,
    }
)


def domain_table(domain: Domain, attribute: Attribute) -> str:
    """The name of the public table with the cells of one attribute: (code, value)."""
    return f"__domain_{domain.table}_{attribute.name}"


def public_table(name: str) -> str:
    """The name under which a public table of the policy is held."""
    return f"__public_{name}"


class PublicDatabase:
    """One per gate. `cursor` gives each session a connection of its own to it."""

    def __init__(
        self,
        domains: Sequence[Domain],
        public: Mapping[str, pa.Table] = MappingProxyType({}),
        *,
        memory_limit: str = "1GiB",
        threads: int = 2,
        time_limit: float = 10.0,
    ) -> None:
        self._connection = duckdb.connect(":memory:", config={"threads": threads})
        self._connection.execute(f"SET memory_limit = '{memory_limit}'")
        for domain in domains:
            for attribute in domain.attributes:
                self._create_domain_table(domain, attribute)
        for name, table in public.items():
            self._create(public_table(name), "SELECT * FROM __table", __table=table)
        for macro in (*_MACROS, _VARIANCE):
            self._connection.execute(f"CREATE MACRO {macro}")
        for setting in _SETTINGS:
            self._connection.execute(setting)
        self._connection.execute("SET lock_configuration = true")
        self._watchdog = Watchdog(time_limit)

    def _create_domain_table(self, domain: Domain, attribute: Attribute) -> None:
        cells = pa.table(
            {
                "code": pa.array(range(attribute.size), pa.int64()),
                "value": pa.array(attribute.cells, _ARROW_TYPES[attribute.sql_type]),
            }
        )
        self._create(
            domain_table(domain, attribute),
            f"SELECT code, CAST(value AS {attribute.sql_type}) AS value FROM __cells ORDER BY code",
            __cells=cells,
        )

    def _create(self, name: str, query: str, **tables: pa.Table) -> None:
        """A table of what the query makes of Arrow tables."""
        for given, table in tables.items():
            self._connection.register(given, table)
        self._connection.execute(f'CREATE TABLE "{name}" AS {query}')
        for given in tables:
            self._connection.unregister(given)

    def columns(self, name: str) -> dict[str, str]:
        """The columns of a public table and their DuckDB types."""
        rows = self._connection.execute(f'DESCRIBE "{public_table(name)}"').fetchall()
        return {str(column): str(kind) for column, kind, *_ in rows}

    def cursor(self) -> Cursor:
        return Cursor(self._connection.cursor(), self._watchdog)

    def close(self) -> None:
        self._watchdog.close()
        self._connection.close()


_ARROW_TYPES: Final = MappingProxyType(
    {
        "VARCHAR": pa.string(),
        "BOOLEAN": pa.bool_(),
        "INTEGER": pa.int32(),
        "BIGINT": pa.int64(),
        "DOUBLE": pa.float64(),
        "DATE": pa.date32(),
    }
)


class Cursor:
    """A connection to the public database, used by one thread at a time."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, watchdog: Watchdog) -> None:
        self._connection = connection
        self._watchdog = watchdog
        self._interrupted = False

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
            raise _too_slow()
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
                for name, table in tables.items():
                    self._connection.register(name, table)
            yield
        finally:
            for name in tables:
                self._unregister(name)

    def _unregister(self, name: str) -> None:
        """An interrupt meant for the statement may arrive here; the name goes all the same."""
        for _ in range(_INTERRUPTS):
            try:
                self._connection.unregister(name)
            except duckdb.InterruptException:
                continue
            return
        raise QueryCanceled("canceling statement due to user request")

    @contextmanager
    def _running(self) -> Iterator[None]:
        self._interrupted = False
        self._watchdog.enter(self._connection)
        try:
            yield
        except duckdb.Error as error:
            raise _translate(error, timed_out=self._watchdog.fired(self._connection)) from None
        finally:
            self._watchdog.leave(self._connection)

    def interrupt(self) -> None:
        """From any thread: what runs on this cursor ends with QueryCanceled."""
        self._interrupted = True
        self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()


def _too_slow() -> StatementError:
    return StatementTooComplex(
        "evaluating the statement took longer than the time limit",
        hint="Mention fewer attributes, or simplify the expressions.",
    )


def _translate(error: duckdb.Error, *, timed_out: bool) -> StatementError:
    text = re.split(r"\n\s*\n?LINE \d+:|\n\nCandidate", str(error))[0]
    message = re.sub(r"^[A-Z][A-Za-z ]+ Error: ", "", text).strip()
    if isinstance(error, duckdb.InterruptException):
        if timed_out:
            return _too_slow()
        return QueryCanceled("canceling statement due to user request")
    if "division by zero" in message.lower():
        return DivisionByZero(
            "division by zero",
            detail="The expression divides by zero somewhere in the public domain.",
            hint="Guard the divisor with NULLIF(…, 0).",
        )
    if isinstance(error, duckdb.CatalogException):
        return UndefinedFunction(message.split("\n")[0])
    if isinstance(error, duckdb.BinderException) and "not found" in message:
        return UndefinedColumn(message.split("\n")[0])
    for kind, ours in _ERRORS.items():
        if isinstance(error, kind):
            return ours(message.split("\n")[0])
    return DataError(message.split("\n")[0])
