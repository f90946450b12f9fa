"""Reading the tables the policy declares public: whole, typed by DuckDB, for anyone to see.

A public table comes from a file of its own, or from the source the protected tables come from:
then the custodian says of that part of the source that it is public.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

import duckdb
import pyarrow as pa

from tallyveil.cube.counting import select_of
from tallyveil.cube.reading import quoted
from tallyveil.cube.sources import opened, opened_public
from tallyveil.errors import SourceError
from tallyveil.policy import Policy, PublicTable

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
        file = table.file
        found = opened(policy, source) if file is None else opened_public(table, file)
        with found as connection:
            tables[name] = _read(table, connection)
    return tables


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
