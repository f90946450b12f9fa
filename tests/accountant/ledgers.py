"""Ledgers that others write to: by hand, and from processes that are killed."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tallyveil.accountant import Accountant, Answer, Charge
from tallyveil.accountant.store.event_codec import decode_charge
from tallyveil.accountant.store.ledger_records import Record
from tallyveil.accountant.store.sqlite_ledger import SqliteTransaction
from tallyveil.workload.workload import Column, Workload

__all__ = ["altered", "asked", "cannot_append", "forked", "raw", "read", "recorded_answers"]


def raw(path: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(path, isolation_level=None))


def altered(path: Path, change: str) -> None:
    """With the triggers that forbid it out of the way for as long as it takes."""
    with raw(path) as db:
        triggers = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        kept = triggers.fetchall()
        for name, _ in kept:
            db.execute(f"DROP TRIGGER {name}")
        db.execute(change)
        for _, sql in kept:
            db.execute(sql)


def forked(work: Callable[[int], None]) -> tuple[int, int]:
    """A child process doing ``work(pipe)``, and the end of the pipe to read from."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            work(writer)
        finally:
            os._exit(0)
    os.close(writer)
    return child, reader


def recorded_answers(accountant: Accountant, table: str) -> list[Answer]:
    return [one for release in accountant.learned(table, 0, 0)[0] for one in release.answers]


def asked(columns: tuple[Column, ...], scales: tuple[float, ...], **more: Any) -> Charge:
    return Charge(Workload("t", columns), "", scales, "", **more)


def read(blob: bytes) -> Charge:
    return decode_charge("t", "", blob)


def cannot_append(patch: pytest.MonkeyPatch, kind: type[Record], error: Exception) -> None:
    """From now on appending a record of this kind fails."""
    append = SqliteTransaction.append

    def failing(transaction: SqliteTransaction, record: Record) -> Any:
        if isinstance(record, kind):
            raise error
        return append(transaction, record)

    patch.setattr(SqliteTransaction, "append", failing)
