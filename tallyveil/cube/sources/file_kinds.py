"""Files of one relation, in a DuckDB of this room's own; Arrow and DuckDB's own files.

Several files of a pattern or a folder are one relation, with the columns of all of them by name.
Where their folders are named column=value, these are columns of text; __HIVE_DEFAULT_PARTITION__
stands for NULL.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
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
    "ARROW", "DUCKDB", "Opener", "called", "file_database", "is_partitioned", "one_relation",
    "reader",
]  # fmt: skip

Open: TypeAlias = Callable[[Source, Iterable[str]], OpenSource]
"""Opens a source, which goes by these names if it names no tables itself.

Raises duckdb.Error and SourceError.
"""

Relation: TypeAlias = Callable[[duckdb.DuckDBPyConnection, Source, list[str]], str]
"""What stands after FROM for these files. Raises the same."""

Narrowed: TypeAlias = Callable[
    [duckdb.DuckDBPyConnection, list[str], str, dt.date, dt.date], str | None
]
"""What stands after FROM for those of the files in which a column may have a day from one to
another; None for all."""


@dataclass(frozen=True)
class Opener:
    """``confidential`` guesses nothing from records; ``public`` may."""

    confidential: Open
    public: Open


def reader(function: str, files: Sequence[str], *options: str) -> str:
    """The call of DuckDB's function that reads the files."""
    names = f"[{', '.join(map(literal, files))}]"
    partitions = f"hive_partitioning = {is_partitioned(files)}, hive_types_autocast = false"
    return f"{function}({', '.join([names, *options, partitions])})"


def is_partitioned(files: Iterable[str]) -> bool:
    """Whether a folder of theirs is named column=value."""
    return any("=" in file.rpartition("/")[0] for file in files)


def one_relation(relation: Relation, narrowed: Narrowed | None = None) -> Open:
    """Opens files of which ``relation`` gives what stands after FROM, or ``narrowed`` where some
    days are read.

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
        own = called(source, names)
        for name in own:
            memory.execute(f"CREATE TEMP VIEW {identifier(name)} AS FROM {found}")
            found = identifier(own[0])
        if narrowed is None or source.stored or len(files) == 1:
            return DuckDBSource(memory, several=False)
        days = {name: partial(narrowed, memory, files) for name in own}
        return DuckDBSource(memory, several=False, days=days)

    return opened


def called(source: Source, names: Iterable[str]) -> list[str]:
    """The names of the relation: its file's without the ending, and these."""
    own = PurePosixPath(source.location).name.split(".")[0]
    return list(dict.fromkeys(name.lower() for name in (own, *names)))


@functools.cache
def file_database() -> duckdb.DuckDBPyConnection:
    """A DuckDB to read files with; nothing is kept in it."""
    return duckdb_connection(config={**CONFIG, "enable_external_file_cache": False})


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


ARROW: Final = Opener(_arrow, _arrow)
DUCKDB: Final = Opener(_duckdb, _duckdb)
