"""Parquet files: which have the same columns, and which may have rows of some days.

What files say of themselves is read once by a process, for as long as they stay as they were: of a
year of files, to read that takes longer than to count a day.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Hashable
from typing import Any, Final

import duckdb

from tallyveil.cache import Cache
from tallyveil.cube.sources.file_kinds import Opener, is_partitioned, one_relation, reader
from tallyveil.errors import SourceError
from tallyveil.policy import Source
from tallyveil.quoting import literal

__all__ = ["PARQUET"]

_NUMBERS: Final = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
    | {"FLOAT", "DOUBLE"}
)
_COLUMN: Final = "(name, num_children, repetition_type, converted_type, logical_type, duckdb_type)"
_COLUMNS: Final = (
    f"SELECT file_name, sha256(list({_COLUMN} ORDER BY column_id)::VARCHAR)"
    " FROM parquet_schema([{files}]) GROUP BY file_name"
)
_DAY: Final = "least(greatest({}, DATE '0001-01-01'), DATE '9999-12-31')"  # as Python has them
_DAYS: Final = (
    f"SELECT file_name, {_DAY.format('min(low)')}, {_DAY.format('max(high)')},"
    " count(low) = count(*) AND count(high) = count(*) FROM (SELECT file_name,"
    " TRY_CAST(stats_min_value AS DATE) AS low, TRY_CAST(stats_max_value AS DATE) AS high"
    " FROM parquet_metadata([{files}]) WHERE lower(path_in_schema) = {column}) GROUP BY file_name"
)
_UNKNOWN: Final = (None, None, False)

_known: Final[Cache[tuple[Any, ...]]] = Cache(1 << 16, 1 << 16, lambda key, value: 1)


def _relation(memory: duckdb.DuckDBPyConnection, source: Source, files: list[str]) -> str:
    alike = _alike(memory, files)
    if len(alike) == 1:
        return reader("read_parquet", files)
    types: dict[str, set[str]] = {}
    for file in alike:
        described = memory.execute(f"DESCRIBE FROM {reader('read_parquet', [file])}")
        for name, kind, *_ in described.fetchall():
            types.setdefault(str(name).lower(), set()).add(str(kind))
    for found in types.values():
        # Then every value of one file has a place in the type that the files share.
        if len(found) > 1 and "VARCHAR" not in found and not found <= _NUMBERS:
            raise _differ(source, " and ".join(sorted(found)))
    return reader("read_parquet", files, "union_by_name = true")


def _alike(memory: duckdb.DuckDBPyConnection, files: list[str]) -> list[str]:
    """A file for each list of columns that some have."""
    if len(files) == 1:
        return files
    found = _said(memory, files, _COLUMNS)
    return list({columns: file for file, columns in zip(files, found, strict=True)}.values())


def _narrowed(
    memory: duckdb.DuckDBPyConnection, files: list[str], column: str, first: dt.date, last: dt.date
) -> str | None:
    if is_partitioned(files) or len(_alike(memory, files)) > 1:
        return None  # a value may be that of a folder, or have another type elsewhere
    found = zip(files, _said(memory, files, _DAYS, column), strict=True)
    own = [file for file, (a, b, known) in found if not known or (a <= last and first <= b)]
    return reader("read_parquet", own or files[:1])


def _said(
    memory: duckdb.DuckDBPyConnection, files: list[str], asked: str, column: str = ""
) -> list[tuple[Any, ...]]:
    """What the statement finds out about each file, or found out before."""
    keys = [_key(file, asked, column) for file in files]
    found = _known.find_all(keys)
    new = [file for file, own in zip(files, found, strict=True) if own is None]
    if not new:
        return [own for own in found if own is not None]
    sql = asked.format(files=", ".join(map(literal, new)), column=literal(column.lower()))
    read = {str(file): tuple(own) for file, *own in memory.execute(sql).fetchall()}
    for key, file, own in zip(keys, files, found, strict=True):
        if own is None and key is not None:
            _known.put(key, read.get(file, _UNKNOWN))
    return [own or read.get(file, _UNKNOWN) for file, own in zip(files, found, strict=True)]


def _key(file: str, asked: str, column: str) -> Hashable:
    """What is another one after the file was written; None for a file in a store."""
    if "://" in file:
        return None
    own = os.stat(file)
    return file, asked, column, own.st_ino, own.st_size, own.st_mtime_ns, own.st_ctime_ns


def _differ(source: Source, types: str) -> SourceError:
    return SourceError(
        f"{source.key}: a column of {source.shown} has the types {types} in different files",
        hint="Write the files with one type for each column: not every value of one type may have"
        " a place in another.",
    )


PARQUET: Final = Opener(one_relation(_relation, _narrowed), one_relation(_relation))
