"""Reads the tables that the policy declares public: completely, with DuckDB's types, for everybody.

A public table comes from a file of its own, or from the source of the protected tables; then the
custodian declares that part of the source public.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tallyveil.cube.sources import OpenSource, Passed, opened, opened_public
from tallyveil.errors import SourceError
from tallyveil.policy import Policy, PublicTable
from tallyveil.quoting import identifier

__all__ = ["check_public", "load_public"]

# The type in which a column of each type is stored. The wire has no unsigned numbers.
_KEPT_AS: Final = MappingProxyType(
    {
        **{kind: kind for kind in ("BOOLEAN", "SMALLINT", "INTEGER", "BIGINT", "DOUBLE")},
        **{kind: kind for kind in ("VARCHAR", "DATE", "TIME", "TIMESTAMP")},
        **dict.fromkeys(("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"), "TIMESTAMPTZ"),
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


def load_public(policy: Policy, source: Passed = None) -> dict[str, pa.Table]:
    """Every public table of the policy, with column names in lower case.

    Raises SourceError, for the custodian, without DuckDB's own message, since a public table may be
    read from the confidential source.
    """
    return {name: _read(table, policy, source) for name, table in policy.public.items()}


def check_public(policy: Policy) -> None:
    """Check the column types of every public table, as loading does, without reading rows.

    Raises SourceError, as `load_public` does.
    """
    for table in policy.public.values():
        if table.file is not None or policy.source is not None:
            with _opened(table, policy, None) as source:
                _items(table, source)


def _read(table: PublicTable, policy: Policy, given: Passed) -> pa.Table:
    key = f"public.{table.name}"
    with _opened(table, policy, given) as source:
        items = _items(table, source)
        with source.rows(table.origin, list(items), key, alike=False) as rows:
            select = f"SELECT {', '.join(items.values())} FROM {rows.relation}"
            read = rows.connection.sql(select).to_arrow_table()
    for name in read.column_names:
        if _has_infinite(read.column(name)):
            raise SourceError(
                f"public.{table.name}: column {name} has an infinite date, which is not supported",
                hint='Replace it by NULL or by a day: from = "SELECT …".',
            )
    return read


def _has_infinite(column: pa.ChunkedArray) -> bool:
    """Whether a column of dates or timestamps has an infinite one, DuckDB's last or first."""
    if not (pa.types.is_date(column.type) or pa.types.is_timestamp(column.type)):
        return False
    numbers = column.cast(pa.int32() if pa.types.is_date(column.type) else pa.int64())
    last = 2 ** (numbers.type.bit_width - 1) - 1
    return last in (abs(end.as_py() or 0) for end in pc.min_max(numbers).values())


def _opened(
    table: PublicTable, policy: Policy, given: Passed
) -> AbstractContextManager[OpenSource]:
    file = table.file
    return opened(policy, given) if file is None else opened_public(table, file)


def _items(table: PublicTable, source: OpenSource) -> dict[str, str]:
    """The columns, and what is selected of each."""
    columns = source.schema(table.origin, f"public.{table.name}")
    return {name: _item(table, name, kind) for name, kind in columns.items()}


def _item(table: PublicTable, name: str, kind: str) -> str:
    column = identifier(name)
    kept = kind if re.fullmatch(r"DECIMAL\(\d+,\d+\)", kind) else _KEPT_AS.get(kind)
    if kept is None:
        raise SourceError(
            f"public.{table.name}: column {name} has type {kind}, which a public table cannot have",
            hint='Cast or leave it out: from = "SELECT …".',
        )
    return f"CAST({column} AS {kept}) AS {column}"
