"""The public DuckDB, which evaluates analysts' SQL on domains and noisy rows only.

It is an in-memory database that never holds a confidential value, with no file, network or
extension access, no view of Python's variables, a memory limit, and its configuration locked. It is
reopened when a statement has broken it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import duckdb
import pyarrow as pa

from tallyveil.arrow import array_of
from tallyveil.duckdb_connection import duckdb_connection
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.rewriter.engine import moment_macros
from tallyveil.rewriter.engine.public_cursor import Engine, PublicCursor
from tallyveil.rewriter.engine.watchdog import Watchdog
from tallyveil.rewriter.postgres import MACROS
from tallyveil.rewriter.sql.size import BOUNDED_REPLACE

__all__ = ["PublicDatabase", "domain_table", "public_table", "relation_name"]


_SETTINGS: Final = (
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET allow_persistent_secrets = false",
    "SET temp_directory = ''",  # a statement that exceeds the memory fails: DuckDB writes no files
    "SET enable_external_access = false",
    "SET arrow_large_buffer_size = false",
    # It trusts too narrow a range of some sums and refuses their values.
    "SET disabled_optimizers = 'compressed_materialization'",
    "SET GLOBAL TimeZone = 'UTC'",  # that of each session, until it sets another
    "SET allowed_configs = ['TimeZone']",  # each session has its own
)


def domain_table(domain: Domain, attribute: Attribute) -> str:
    """The name of the public table with the cells of one attribute: (code, value)."""
    return f"__domain_{domain.table}.{attribute.name}"  # no declared name has a dot


def public_table(name: str) -> str:
    """The name of a public table of the policy in the database."""
    return f"__public_{name}"


def relation_name(name: str) -> str:
    """The name of a relation of ours, such as dp.budget, in the database."""
    return f"__dp_{name.removeprefix('dp.')}"


class PublicDatabase:
    """The public database of one gate. `cursor` gives each session its own connection to it.

    Gates of this process over the same domains, without public tables, share one database and its
    memory limit: opening one takes most of the time of opening a gate.
    """

    def __init__(
        self,
        domains: Sequence[Domain],
        public: Mapping[str, pa.Table] = MappingProxyType({}),
        *,
        memory_limit: str = "1GiB",
        time_limit: float = 10.0,
    ) -> None:
        self._public = public
        if public:
            self._engine = Engine(lambda: _opened(domains, public, memory_limit))
        else:
            self._engine = _shared_engine(tuple(domains), memory_limit)
        self._watchdog = Watchdog(time_limit)

    def columns(self, name: str) -> dict[str, str]:
        """The columns of a public table and their DuckDB types."""
        cursor = self.cursor()
        try:
            return dict(cursor.describe(f'FROM "{public_table(name)}"'))
        finally:
            cursor.close()

    def cursor(self) -> PublicCursor:
        return PublicCursor(self._engine, self._watchdog)

    def close(self) -> None:
        self._watchdog.close()
        if self._public:
            self._engine.close()


# The last few stay open, since a gate over the same domains may be opened again.
@functools.lru_cache(maxsize=4)
def _shared_engine(domains: tuple[Domain, ...], memory_limit: str) -> Engine:
    return Engine(lambda: _opened(domains, {}, memory_limit))


def _opened(
    domains: Sequence[Domain], public: Mapping[str, pa.Table], memory_limit: str
) -> duckdb.DuckDBPyConnection:
    """Open the database, with everything it will ever hold but noisy rows, and isolate it."""
    # A statement runs in its caller's thread: threads of DuckDB's own would call Python to read
    # noisy rows, and have crashed the process with a segmentation fault during garbage collection.
    connection = duckdb_connection(config={"threads": 1})
    connection.execute(f"SET memory_limit = '{memory_limit}'")
    for domain in domains:
        for attribute in domain.attributes:
            _create_domain_table(connection, domain, attribute)
    for name, table in public.items():
        _create(connection, public_table(name), "SELECT * FROM __table", __table=table)
    for macro in (*MACROS, *moment_macros.MACROS, BOUNDED_REPLACE):
        connection.execute(f"CREATE MACRO {macro}")
    for setting in _SETTINGS:
        connection.execute(setting)
    connection.execute("SET lock_configuration = true")
    return connection


def _create_domain_table(
    connection: duckdb.DuckDBPyConnection, domain: Domain, attribute: Attribute
) -> None:
    cells = pa.table(
        {
            "code": pa.array(range(attribute.size), pa.int64()),
            "value": array_of(attribute.cells, attribute.sql_type),
        }
    )
    _create(
        connection,
        domain_table(domain, attribute),
        f"SELECT code, CAST(value AS {attribute.sql_type}) AS value FROM __cells ORDER BY code",
        __cells=cells,
    )


def _create(
    connection: duckdb.DuckDBPyConnection, name: str, query: str, **tables: pa.Table
) -> None:
    """Create a table from a query over Arrow tables."""
    for given, table in tables.items():
        connection.register(given, table)
    connection.execute(f'CREATE TABLE "{name}" AS {query}')
    for given in tables:
        connection.unregister(given)
