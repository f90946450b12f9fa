"""Bringing a ledger of an older format to the present one, in place and in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from tallyveil.accountant.chain import FIELDS, START, charge_link, linked
from tallyveil.accountant.schema import SAME_TABLES, SCHEMA_VERSION, TABLES, create_tables
from tallyveil.errors import LedgerError

__all__ = ["upgrade"]

_OLD = {
    "protected_table": {"name", "fingerprint", "added"},
    "charge": {*FIELDS, "chain"},
    "answer": {"id", "charge_id", "noisy"},
}


def upgrade(connection: sqlite3.Connection, name: str) -> None:
    """Copy every row into the present tables; a crash leaves the old ledger as it was.

    Another program that has the ledger open is waited for, and an error if it stays. What is
    written from now on an older program cannot read: the version says so.

    Raises LedgerError if the old ledger's charges are not what they were.
    """
    connection.execute("PRAGMA foreign_keys = OFF")
    with _alone(connection):
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == SCHEMA_VERSION:
            return  # another process was faster
        if version >= SAME_TABLES:
            query = "SELECT name FROM sqlite_master WHERE type = 'table'"
            known = {name for (name,) in connection.execute(query)}
            create_tables(connection, [name for name in TABLES if name not in known])
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            return
        if not _fits(connection):
            raise LedgerError(
                f"the ledger {name} is damaged: its tables are not those of format {version}",
                hint="Restore it from its backup.",
            )
        triggers = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        for (trigger,) in connection.execute(triggers).fetchall():
            connection.execute(f'DROP TRIGGER "{trigger}"')
        for table in _OLD:
            connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
        create_tables(connection)
        _copy_tables(connection)
        if not (_copy_charges(connection) and _copy_answers(connection)):
            raise LedgerError(
                f"the ledger {name} has lost or altered charges", hint="Restore it from its backup."
            )
        for table in reversed(_OLD):
            connection.execute(f"DROP TABLE old_{table}")


@contextmanager
def _alone(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN EXCLUSIVE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _fits(connection: sqlite3.Connection) -> bool:
    """Whether the tables are those of an older format; the first two had no measure."""
    for table, expected in _OLD.items():
        columns = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        if columns | {"measure"} != expected | {"measure"}:
            return False
    return True


def _copy_tables(connection: sqlite3.Connection) -> None:
    chain, query = START.chain, "SELECT name, fingerprint, added FROM old_protected_table"
    rows = connection.execute(f"{query} ORDER BY added, name").fetchall()
    for number, row in enumerate(rows, start=1):
        chain = linked(chain, number, *row)
        connection.execute(
            "INSERT INTO protected_table VALUES (?, ?, ?, ?, ?)", (number, *row, chain)
        )


def _copy_charges(connection: sqlite3.Connection) -> bool:
    """Whether the chain holds, up to the last charge there ever was."""
    columns = {row[1] for row in connection.execute("PRAGMA table_info(old_charge)")}
    fields = ", ".join(f if f in columns else "'epsilon'" for f in FIELDS)
    last, chain = START.number, START.chain
    for row in connection.execute(f"SELECT {fields}, chain FROM old_charge ORDER BY id"):
        last, chain = row[0], charge_link(chain, *row[:-1])
        if chain != row[-1]:
            return False
        marks = ", ".join("?" * len(row))
        connection.execute(f"INSERT INTO charge ({', '.join(FIELDS)}, chain) VALUES ({marks})", row)
    return last == _highest(connection, "old_charge")


def _copy_answers(connection: sqlite3.Connection) -> bool:
    last, chain = START.number, START.chain
    for row in connection.execute("SELECT id, charge_id, noisy FROM old_answer ORDER BY id"):
        last, chain = row[0], linked(chain, *row)
        connection.execute("INSERT INTO answer VALUES (?, ?, ?, ?)", (*row, chain))
    return last == _highest(connection, "old_answer")


def _highest(connection: sqlite3.Connection, table: str) -> int:
    query = "SELECT seq FROM sqlite_sequence WHERE name = ?"
    row = connection.execute(query, (table,)).fetchone()
    return 0 if row is None else row[0]
