"""The ledger's tables, and making a ledger file that is complete or not there at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from pathlib import Path

__all__ = [
    "APPLICATION_ID",
    "FIRST_VERSION",
    "SCHEMA_VERSION",
    "create_file",
    "create_tables",
    "upgrade",
]

APPLICATION_ID = 0x54560001  # "TV", then the family of formats
# Version 2 has the tables of version 1; its charges may hold products of factors. Version 3 says
# in which measure a charge was paid; before it was always epsilon.
FIRST_VERSION, SCHEMA_VERSION = 1, 3

_TABLES = """
CREATE TABLE protected_table (
    name TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    added TEXT NOT NULL
) STRICT;
CREATE TABLE charge (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time TEXT NOT NULL,
    analyst TEXT NOT NULL,
    table_name TEXT NOT NULL REFERENCES protected_table (name),
    mechanism TEXT NOT NULL,
    sql TEXT NOT NULL,
    cost INTEGER NOT NULL CHECK (cost >= 0),      -- in 1e-12 of the measure, on its own
    height INTEGER NOT NULL,                      -- rows of all columns
    columns BLOB NOT NULL,
    chain BLOB NOT NULL,                          -- digest of this row and the chain before it
    measure TEXT NOT NULL DEFAULT 'epsilon'       -- epsilon or rho
) STRICT;
CREATE TABLE answer (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    charge_id INTEGER NOT NULL UNIQUE REFERENCES charge (id),
    noisy BLOB NOT NULL
) STRICT;
"""

_APPEND_ONLY = """
CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table}
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
"""


def create_tables(connection: sqlite3.Connection) -> None:
    connection.executescript(_TABLES)
    for table in ("protected_table", "charge", "answer"):
        for verb in ("UPDATE", "DELETE"):
            connection.executescript(_APPEND_ONLY.format(table=table, verb=verb))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def upgrade(connection: sqlite3.Connection) -> None:
    """Bring an older ledger to `SCHEMA_VERSION`; inside a transaction of its own.

    What is appended from now on an older program could not read: the version says so.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        columns = {row[1] for row in connection.execute("PRAGMA table_info(charge)")}
        if "measure" not in columns:
            connection.execute(
                "ALTER TABLE charge ADD COLUMN measure TEXT NOT NULL DEFAULT 'epsilon'"
            )
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def create_file(path: Path) -> None:
    """Make an empty ledger at ``path``, unless another process has just done so.

    It is written under another name, readable by its owner only, and then linked into place: a
    crash leaves no half-made ledger, and an empty file is never taken for a fresh one.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        connection = sqlite3.connect(draft, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            create_tables(connection)
        finally:
            connection.close()
        _flush(draft)
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
    _flush(path.parent)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
