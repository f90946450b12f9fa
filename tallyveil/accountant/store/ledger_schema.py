"""The ledger's tables, and the atomic creation of a ledger file.

Every table is append-only, never reuses a row number, and has ``chain`` (see `chain`) as its last
column. Anything else to be recorded needs a table of the same kind.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import sqlite3
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tallyveil.accountant.store.chain import START, linked
from tallyveil.errors import LedgerError
from tallyveil.files import flush

__all__ = ["check_format", "create_file", "create_tables", "remove_draft"]

_APPLICATION_ID = 0x54560001  # "TV", then the family of formats
_SCHEMA_VERSION = 14
_SECRET_BYTES: Final = 32
_RESTORE: Final = "Restore it from its backup."

_TABLES: Final = MappingProxyType(
    {
        "secret": """
CREATE TABLE secret (                             -- one row, made with the ledger
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key BLOB NOT NULL,                            -- random; other keys are derived from it
    chain BLOB NOT NULL
) STRICT""",
        "protected_table": """
CREATE TABLE protected_table (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    fingerprint TEXT NOT NULL,                    -- of its declaration
    declared TEXT NOT NULL,                       -- the declaration, without passwords
    added TEXT NOT NULL,
    chain BLOB NOT NULL
) STRICT""",
        "migration": """
CREATE TABLE migration (                          -- of a table to another declaration
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    table_name TEXT NOT NULL REFERENCES protected_table (name),
    fingerprint TEXT NOT NULL,                    -- of the declaration since then
    declared TEXT NOT NULL,
    body TEXT NOT NULL,                           -- what was declared before, and the joint codes
    added TEXT NOT NULL,
    chain BLOB NOT NULL
) STRICT""",
        "budget": """
CREATE TABLE budget (                             -- and shares, as policies declare them
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time TEXT NOT NULL,
    table_name TEXT NOT NULL REFERENCES protected_table (name),
    declared TEXT NOT NULL,
    chain BLOB NOT NULL
) STRICT""",
        "snapshot": """
CREATE TABLE snapshot (                           -- the data that a table's answers are about
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    table_name TEXT NOT NULL UNIQUE REFERENCES protected_table (name),
    digest BLOB NOT NULL,                         -- of the table's counts, under a key
    added TEXT NOT NULL,
    chain BLOB NOT NULL
) STRICT""",
        "version": """
CREATE TABLE version (                            -- of a table that grows by days
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    table_name TEXT NOT NULL REFERENCES protected_table (name),
    number INTEGER NOT NULL,
    since TEXT NOT NULL,                          -- the first day that was counted for it
    through TEXT NOT NULL,                        -- the last day that is over
    snapshot TEXT NOT NULL,                       -- a random name of what was counted
    published TEXT NOT NULL,
    chain BLOB NOT NULL,
    UNIQUE (table_name, number)
) STRICT""",
        "replacement": """
CREATE TABLE replacement (                        -- of all rows of a table: a version of it
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    table_name TEXT NOT NULL REFERENCES protected_table (name),
    number INTEGER NOT NULL,
    charges INTEGER NOT NULL,                     -- the last charge and derivation before it
    derivations INTEGER NOT NULL,
    snapshot TEXT NOT NULL,                       -- a random name of what was counted
    published TEXT NOT NULL,
    chain BLOB NOT NULL,
    UNIQUE (table_name, number)
) STRICT""",
        "charge": """
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
    measure TEXT NOT NULL,                        -- epsilon or rho
    chain BLOB NOT NULL
) STRICT""",
        "answer": """
CREATE TABLE answer (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    charge_id INTEGER NOT NULL UNIQUE REFERENCES charge (id),
    noisy BLOB NOT NULL,
    chain BLOB NOT NULL
) STRICT""",
        "derivation": """
CREATE TABLE derivation (                         -- of estimates that were reported
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    table_name TEXT NOT NULL REFERENCES protected_table (name),
    analyst TEXT NOT NULL,
    body BLOB NOT NULL,
    chain BLOB NOT NULL
) STRICT""",
        "invariant": """
CREATE TABLE invariant (                          -- counts that are exact, and free
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    table_name TEXT NOT NULL REFERENCES protected_table (name),
    event TEXT NOT NULL,                          -- declared, before they were counted; published
    sql TEXT NOT NULL,
    rows BLOB NOT NULL,                           -- a digest of the rows
    columns BLOB NOT NULL,
    added TEXT NOT NULL,
    chain BLOB NOT NULL
) STRICT""",
    }
)

_ADDED: Final = MappingProxyType(
    {
        11: ("version", "migration", "replacement"),
        12: ("migration", "replacement"),
        13: ("replacement",),
    }
)
"""By older format the tables that it lacks: such a ledger is completed when it is opened."""

_APPEND_ONLY = """
CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table}
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"""


def create_tables(connection: sqlite3.Connection, secret: bytes | None = None) -> None:
    """Create all tables, inside a transaction if one is open, with a random secret if none is
    given."""
    for table in _TABLES:
        _create(connection, table)
    key = secrets.token_bytes(_SECRET_BYTES) if secret is None else secret
    connection.execute("INSERT INTO secret VALUES (1, ?, ?)", (key, linked(START.chain, 1, key)))
    connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")


def _create(connection: sqlite3.Connection, table: str) -> None:
    connection.execute(_TABLES[table])
    for verb in ("UPDATE", "DELETE"):
        connection.execute(_APPEND_ONLY.format(table=table, verb=verb))


def _complete(connection: sqlite3.Connection) -> None:
    """Add the tables that an older format lacks: all or none, also if two processes do it."""
    if _pragma(connection, "user_version") in _ADDED:
        connection.execute("BEGIN IMMEDIATE")
        for table in _ADDED.get(_pragma(connection, "user_version"), ()):
            _create(connection, table)
        connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
        connection.execute("COMMIT")


def check_format(connection: sqlite3.Connection, name: str) -> None:
    """Check that an open file is a whole ledger, complete it to the present version, and set how it
    is written.

    Raises LedgerError, and what SQLite raises for a damaged file.
    """
    if _pragma(connection, "application_id") != _APPLICATION_ID:
        raise LedgerError(
            f"{name} is not a ledger of tallyveil",
            hint="Name another file, or restore the ledger from its backup.",
        )
    version = _pragma(connection, "user_version")
    if version not in (_SCHEMA_VERSION, *_ADDED):
        raise LedgerError(
            f"the ledger {name} has format {version}, this program reads format {_SCHEMA_VERSION}",
            hint="It is left as it is. Use the version of tallyveil that wrote it.",
        )
    # Also switches back if the file was switched to a write-ahead log.
    if _pragma(connection, "journal_mode = PERSIST") != "persist":
        raise LedgerError(
            f"the ledger {name} is in use by a program that gave it a write-ahead log",
            hint="Stop that program first. Then its changes are moved into the ledger.",
        )
    connection.execute("PRAGMA synchronous = FULL")
    if _pragma(connection, "integrity_check") != "ok":
        raise LedgerError(f"the ledger {name} is damaged", hint=_RESTORE)
    _complete(connection)
    if _schema_of(connection) != _whole_schema():
        raise LedgerError(
            f"the ledger {name} is damaged: its tables are not those of a ledger", hint=_RESTORE
        )
    connection.execute("PRAGMA foreign_keys = ON")


def _pragma(connection: sqlite3.Connection, name: str) -> Any:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def _schema_of(connection: sqlite3.Connection) -> frozenset[tuple[str, ...]]:
    """Every named object in SQLite's schema, with the statement that created it."""
    query = "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master"
    # Closed even if a damaged file makes it fail: an unfinished query keeps the file locked.
    with contextlib.closing(connection.execute(query)) as rows:
        return frozenset(rows)


@functools.cache
def _whole_schema() -> frozenset[tuple[str, ...]]:
    """`_schema_of` a ledger of the present version."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        create_tables(connection)
        return _schema_of(connection)


def create_file(path: Path, secret: bytes | None = None) -> None:
    """Create an empty ledger at ``path``, unless another process has just done so.

    It is written under another name, readable only by its owner, and then linked into place. So a
    crash leaves no incomplete ledger, and an empty file is never mistaken for a fresh one.
    """
    draft = path.with_name(f"{_draft_prefix(path)}{secrets.token_hex(8)}")
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        connection = sqlite3.connect(draft, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            create_tables(connection, secret)
            connection.execute("COMMIT")
        finally:
            connection.close()
        flush(draft)
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    flush(path.parent)


def remove_draft(path: Path) -> None:
    """Remove the name under which the file was written, if its process has not done so yet, or
    never will, since it was killed."""
    path = path.resolve()
    for draft in path.parent.iterdir():
        if draft.name.startswith(_draft_prefix(path)):
            with contextlib.suppress(FileNotFoundError):
                if draft.samefile(path):
                    draft.unlink()


def _draft_prefix(path: Path) -> str:
    return f".{path.name}."
