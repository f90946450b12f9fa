"""Files of one relation, in a DuckDB of this room's own; Parquet, Arrow and DuckDB's own files.

Several files of a pattern or a folder are one relation, with the columns of all of them by name.
Where their folders are named column=value, these are columns of text; __HIVE_DEFAULT_PARTITION__
stands for NULL.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final, TypeAlias

import duckdb
import pyarrow as pa
import pyarrow.dataset

from tallyveil.cube.sources import object_store
from tallyveil.cube.sources.duckdb_source import CONFIG, DuckDBSource
from tallyveil.cube.sources.listing import listed
from tallyveil.cube.sources.open_source import OpenSource
from tallyveil.duckdb_connection import duckdb_connection
from tallyveil.errors import SourceError
from tallyveil.policy import Source
from tallyveil.quoting import identifier, literal

__all__ = [
    "ARROW", "DUCKDB", "PARQUET", "Opener", "called", "file_database", "one_relation", "reader",
]  # fmt: skip

_NUMBERS: Final = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
    | {"FLOAT", "DOUBLE"}
)

Open: TypeAlias = Callable[[Source, Iterable[str]], OpenSource]
"""Opens a source, which goes by these names if it names no tables itself.

Raises duckdb.Error and SourceError.
"""

Relation: TypeAlias = Callable[[duckdb.DuckDBPyConnection, Source, list[str]], str]
"""What stands after FROM for these files. Raises the same."""


@dataclass(frozen=True)
class Opener:
    """``confidential`` guesses nothing from records; ``public`` may."""

    confidential: Open
    public: Open


def reader(function: str, files: Iterable[str], *options: str) -> str:
    """The call of DuckDB's function that reads the files."""
    names = f"[{', '.join(map(literal, files))}]"
    named = any("=" in part for name in files for part in PurePosixPath(name).parts[:-1])
    partitions = f"hive_partitioning = {named}, hive_types_autocast = false"
    return f"{function}({', '.join([names, *options, partitions])})"


def one_relation(relation: Relation) -> Open:
    """Opens files of which ``relation`` gives what stands after FROM.

    All files of this machine are read in one database, which is opened once and keeps nothing: to
    open one takes longer than to read most such files. Each is seen by its own connection alone.
    """

    def opened(source: Source, names: Iterable[str]) -> OpenSource:
        files = listed(source)
        if source.stored:
            memory = duckdb_connection(config=CONFIG)
            object_store.register(memory, source)
        else:
            memory = file_database().cursor()
        found = relation(memory, source, files)
        for name in called(source, names):
            memory.execute(f"CREATE TEMP VIEW {identifier(name)} AS FROM {found}")
        return DuckDBSource(memory, several=False)

    return opened


def called(source: Source, names: Iterable[str]) -> list[str]:
    """The names of the relation: its file's without the ending, and these."""
    own = PurePosixPath(source.location).name.split(".")[0]
    return list(dict.fromkeys(name.lower() for name in (own, *names)))


@functools.cache
def file_database() -> duckdb.DuckDBPyConnection:
    """A DuckDB to read files with; nothing is kept in it."""
    return duckdb_connection(config={**CONFIG, "enable_external_file_cache": False})


def _parquet(memory: duckdb.DuckDBPyConnection, source: Source, files: list[str]) -> str:
    alike = _alike(memory, files) if len(files) > 1 else files
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
    """One of the files for each list of columns, in their order, that some have."""
    column = "(name, num_children, repetition_type, converted_type, logical_type, duckdb_type)"
    columns = f"list({column} ORDER BY column_id) AS columns"
    schemas = f"FROM parquet_schema([{', '.join(map(literal, files))}]) GROUP BY file_name"
    sql = f"SELECT min(file_name) FROM (SELECT file_name, {columns} {schemas}) GROUP BY columns"
    return [str(file) for (file,) in memory.execute(sql).fetchall()]


def _differ(source: Source, types: str) -> SourceError:
    return SourceError(
        f"{source.key}: a column of {source.shown} has the types {types} in different files",
        hint="Write the files with one type for each column: not every value of one type may have"
        " a place in another.",
    )


def _arrow(source: Source, names: Iterable[str]) -> OpenSource:
    """Read by pyarrow, a batch after the other."""
    files = listed(source)
    store: Any = object_store.filesystem(source) if source.stored else None
    places = [file.removeprefix("s3://") for file in files]
    try:
        found = pyarrow.dataset.dataset(places, format="ipc", filesystem=store)
    except (OSError, pa.ArrowException) as error:
        raise SourceError(
            f"{source.key}: {source.shown} cannot be opened as Arrow ({type(error).__name__})"
        ) from None
    schemas = {fragment.physical_schema.remove_metadata() for fragment in found.get_fragments()}
    if len(schemas) > 1:
        raise SourceError(f"{source.key}: the files of {source.shown} have different columns")
    return DuckDBSource.of(found, called(source, names))


def _duckdb(source: Source, names: Iterable[str]) -> OpenSource:
    """A DuckDB database, opened read-only; its tables have the names they have in it."""
    return DuckDBSource(duckdb_connection(str(source.path), read_only=True, config=CONFIG))


PARQUET: Final = Opener(one_relation(_parquet), one_relation(_parquet))
ARROW: Final = Opener(_arrow, _arrow)
DUCKDB: Final = Opener(_duckdb, _duckdb)
