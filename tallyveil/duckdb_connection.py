"""Connections to DuckDB databases of our own, which print nothing."""

from __future__ import annotations

from typing import Any

import duckdb

__all__ = ["duckdb_connection"]


def duckdb_connection(database: str = ":memory:", **options: Any) -> duckdb.DuckDBPyConnection:
    """Open a database as ``duckdb.connect`` does, and return a cursor of its first connection.

    Where Python runs interactively, DuckDB gives the first connection a progress bar on stdout; a
    notebook without ipywidgets even refuses to turn it off. Cursors have none.
    """
    return duckdb.connect(database, **options).cursor()
