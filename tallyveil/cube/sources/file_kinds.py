"""How a kind of file is opened in a DuckDB of this room's own; Parquet and DuckDB's own files."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import duckdb

from tallyveil.cube.sources.duckdb_source import DuckDBSource
from tallyveil.cube.sources.open_source import OpenSource
from tallyveil.duckdb_connection import duckdb_connection
from tallyveil.policy import Source
from tallyveil.quoting import identifier, literal

__all__ = ["CONFIG", "DUCKDB", "PARQUET", "Open", "Opener", "public_views", "views"]

CONFIG: Final[dict[str, str | bool | int | float | list[str]]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
}

Open: TypeAlias = Callable[[Source, Iterable[str]], OpenSource]
"""Opens a source, which goes by these names if it names no tables itself.

Raises duckdb.Error and SourceError.
"""


@dataclass(frozen=True)
class Opener:
    """``confidential`` guesses nothing from records; ``public`` may."""

    confidential: Open
    public: Open


def views(
    relation: Callable[[Path], str],
    connected: Callable[[], duckdb.DuckDBPyConnection] = lambda: duckdb_connection(config=CONFIG),
) -> Open:
    """Opens a file that is one relation: a connection with a view of it by every name."""

    def opened(file: Source, names: Iterable[str]) -> OpenSource:
        memory, path = connected(), file.path
        for name in dict.fromkeys(name.lower() for name in (path.name.split(".")[0], *names)):
            memory.execute(f"CREATE TEMP VIEW {identifier(name)} AS FROM {relation(path)}")
        return DuckDBSource(memory)

    return opened


def public_views(relation: Callable[[Path], str]) -> Open:
    """As `views`, for what is public: all such files are read in one database, which is opened once
    in this process and keeps nothing. To open one takes longer than to read most of them.
    """
    return views(relation, lambda: _shared().cursor())


@functools.cache
def _shared() -> duckdb.DuckDBPyConnection:
    return duckdb_connection(config={**CONFIG, "enable_external_file_cache": False})


def _parquet(path: Path) -> str:
    return f"read_parquet({literal(str(path))})"


def _duckdb(file: Source, names: Iterable[str]) -> OpenSource:
    """A DuckDB database, opened read-only; its tables have the names they have in it."""
    return DuckDBSource(duckdb_connection(str(file.path), read_only=True, config=CONFIG))


PARQUET: Final = Opener(confidential=views(_parquet), public=public_views(_parquet))
DUCKDB: Final = Opener(confidential=_duckdb, public=_duckdb)
