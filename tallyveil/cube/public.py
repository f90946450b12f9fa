"""Reading the tables the policy declares public: whole, typed by DuckDB, for anyone to see.

A public table comes from a file of its own, or from the source the protected tables come from:
then the custodian says of that part of the source that it is public.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

import duckdb
import pyarrow as pa

from tallyveil.cube.counting import select_of
from tallyveil.cube.reading import quoted
from tallyveil.cube.source import CONFIG, opened
from tallyveil.errors import SourceError
from tallyveil.policy import Policy, PublicTable, Source

__all__ = ["load_public"]

# What a column of each type is kept as. The wire has no unsigned numbers.
_KEPT_AS: Final = MappingProxyType(
    {
        **{kind: kind for kind in ("BOOLEAN", "SMALLINT", "INTEGER", "BIGINT", "DOUBLE")},
        **{kind: kind for kind in ("VARCHAR", "DATE", "TIME", "TIMESTAMP")},
        "TINYINT": "SMALLINT",
        "UTINYINT": "SMALLINT",
        "USMALLINT": "INTEGER",
        "UINTEGER": "BIGINT",
        "UBIGINT": "DECIMAL(20, 0)",
        "HUGEINT": "DECIMAL(38, 0)",
        "FLOAT": "DOUBLE",
        "UUID": "VARCHAR",
        **dict.fromkeys(("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), "TIMESTAMP"),
    }
)


def load_public(
    policy: Policy, source: duckdb.DuckDBPyConnection | None = None
) -> dict[str, pa.Table]:
    """Every public table of the policy, its columns' names in lower case.

    Raises SourceError, for the custodian; DuckDB's own words are left out, since a public table
    may be read from the confidential source.
    """
    tables = {}
    for name, table in policy.public.items():
        with _opened(table, policy, source) as connection:
            tables[name] = _read(table, connection)
    return tables


@contextmanager
def _opened(
    table: PublicTable, policy: Policy, source: duckdb.DuckDBPyConnection | None
) -> Iterator[duckdb.DuckDBPyConnection]:
    if table.file is None:
        with opened(policy, source) as cursor:
            yield cursor
        return
    connection = _file(table, table.file)
    try:
        yield connection
    finally:
        connection.close()


def _file(table: PublicTable, file: Source) -> duckdb.DuckDBPyConnection:
    """A connection in which the file goes by its stem and by the table's name."""
    if not file.path.is_file():
        raise SourceError(f"public.{table.name}.url: there is no file {file.path}")
    try:
        if file.kind == "duckdb":
            return duckdb.connect(str(file.path), read_only=True, config=CONFIG)
        memory = duckdb.connect(":memory:", config=CONFIG)
        reader = "read_csv" if file.kind == "csv" else "read_parquet"
        path = str(file.path).replace("'", "''")
        stem = file.path.name.split(".")[0]
        for name in dict.fromkeys((stem.lower(), table.name)):
            memory.execute(f"CREATE VIEW {quoted(name)} AS FROM {reader}('{path}')")
        return memory
    except duckdb.Error as error:
        raise SourceError(
            f"public.{table.name}.url: {file.path} cannot be opened as {file.kind} "
            f"(DuckDB's {type(error).__name__})"
        ) from None


def _read(table: PublicTable, connection: duckdb.DuckDBPyConnection) -> pa.Table:
    query = f"(\n{select_of(table.origin)}\n)"
    try:
        described = connection.execute(f"DESCRIBE FROM {query}").fetchall()
        items = [_item(table, str(name), str(kind)) for name, kind, *_ in described]
        return connection.sql(f"SELECT {', '.join(items)} FROM {query}").to_arrow_table()
    except duckdb.Error as error:
        raise SourceError(
            f"public.{table.name}: DuckDB cannot read {table.origin} ({type(error).__name__})",
            hint="A file goes by its name without the ending, or by the public table's name.",
        ) from None


def _item(table: PublicTable, name: str, kind: str) -> str:
    kept = kind if re.fullmatch(r"DECIMAL\(\d+,\d+\)", kind) else _KEPT_AS.get(kind)
    if kept is None:
        raise SourceError(
            f"public.{table.name}: column {name} has type {kind}, which has no place here",
            hint='Cast or leave it out: from = "SELECT …".',
        )
    return f"CAST({quoted(name)} AS {kept}) AS {quoted(name.lower())}"
