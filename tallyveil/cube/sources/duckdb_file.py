"""A DuckDB database, opened read-only; its tables go by the names they have in it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import duckdb

from tallyveil.cube.sources.file_kind import CONFIG, FileKind
from tallyveil.duckdb_connection import duckdb_connection

__all__ = ["DUCKDB"]


def _open(path: Path, names: Iterable[str]) -> duckdb.DuckDBPyConnection:
    return duckdb_connection(str(path), read_only=True, config=CONFIG)


DUCKDB: Final = FileKind(confidential=_open, public=_open)
