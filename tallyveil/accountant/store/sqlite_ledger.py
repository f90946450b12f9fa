"""The ledger in SQLite: a permanent record of every charge and every noisy answer, in one file.

It is append-only, with a rollback journal and synchronous=FULL: what was committed survives a
crash, and is in the one file. A journal is beside it while something is written, and after a crash;
whatever happens to the journal, no committed charge is lost. Several processes may share a file.
Each writes inside BEGIN IMMEDIATE, and reads what others appended before it decides. The ledger
fails closed: a file that is unreadable, altered, replaced or missing is an error, never an empty
history.

All tables are chained (`chain`): altered or removed rows are detected when the ledger is opened. An
older copy in place of the ledger is detected only by a process that has seen more: restore a backup
only if nothing was asked since.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import marshal
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tallyveil.accountant.charges import Entry
from tallyveil.accountant.store.chain import START, Position, linked
from tallyveil.accountant.store.ledger_records import (
    AnswerRecord,
    BudgetRecord,
    ChargeRecord,
    DataRecord,
    DerivationRecord,
    InvariantRecord,
    MigrationRecord,
    R,
    Record,
    ReplacementRecord,
    TableRecord,
    VersionRecord,
)
from tallyveil.accountant.store.ledger_store import LedgerAdvanced, LedgerStore, Seal, Seen
from tallyveil.accountant.store.sqlite_file import SqliteFile, Written
from tallyveil.errors import LedgerError
from tallyveil.files import flush
from tallyveil.mechanisms.units import from_units

__all__ = ["KINDS", "Ledger", "SqliteTransaction"]

_NAMES: Final[Mapping[type[Record], str]] = {
    TableRecord: "protected_table",
    MigrationRecord: "migration",
    BudgetRecord: "budget",
    DataRecord: "snapshot",
    VersionRecord: "version",
    ReplacementRecord: "replacement",
    InvariantRecord: "invariant",
    ChargeRecord: "charge",
    AnswerRecord: "answer",
    DerivationRecord: "derivation",
}
KINDS: Final[tuple[type[Any], ...]] = tuple(_NAMES)
_COLUMNS: Final = {
    kind: [n.replace("table", "table_name") for n in kind._fields] for kind in _NAMES
}
_STEP: Final = 0.005  # seconds between two looks at the file


class SqliteSnapshot:
    """A `Snapshot` of a file, inside a transaction of ``connection``."""

    def __init__(self, ledger: Ledger, connection: sqlite3.Connection) -> None:
        self._ledger = ledger
        self._connection = connection

    @property
    def version(self) -> int | None:
        return self._ledger.version()

    def after(
        self, kind: type[R], seen: Position = START, most: int = -1, seal: Seal | None = None
    ) -> Iterator[tuple[R, Position]]:
        if seen.number and not self.outcome(kind, seen):
            raise self._ledger.tampered()
        if seal is not None:
            rows = self._rows(kind, seen, most).fetchall()
            if rows and _sealed(rows) == seal:
                yield from ((kind._make(own), Position(n, chain)) for n, *own, chain in rows)
                return
        left = most
        before = seen.chain
        for number, *values, chain in self._rows(kind, seen, most):
            before = linked(before, number, *values)
            if before != chain:
                raise self._ledger.tampered()
            left -= 1
            seen = Position(number, before)
            yield kind._make(values), seen
        if left and seen.number != self.end(kind).number:
            raise self._ledger.tampered()

    def seal(self, kind: type[Record], seen: Position, number: int) -> Callable[[], Seal]:
        rows = self._rows(kind, seen, number).fetchall()

        def seal() -> Seal:
            before = seen.chain
            for *row, chain in rows:
                before = linked(before, *row)
                if before != chain:
                    raise self._ledger.tampered()
            return _sealed(rows)

        return seal

    def _rows(self, kind: type[Record], seen: Position, most: int) -> sqlite3.Cursor:
        name, columns = _NAMES[kind], ", ".join(_COLUMNS[kind])
        query = f"SELECT id, {columns}, chain FROM {name} WHERE id > ? ORDER BY id LIMIT ?"
        return self._connection.execute(query, (seen.number, most))

    def outcome(self, kind: type[Record], position: Position) -> bool:
        query = f"SELECT chain FROM {_NAMES[kind]} WHERE id = ?"
        found = self._connection.execute(query, (position.number,)).fetchone()
        return found is not None and found[0] == position.chain

    def history(self, table: str | None, after: int, through: int) -> Iterable[Entry]:
        fields = "id, time, analyst, table_name, sql, mechanism, cost, measure, height"
        which = "id > ?2 AND id <= ?3 AND (?1 IS NULL OR table_name = ?1)"
        query = f"SELECT {fields} FROM charge WHERE {which} ORDER BY id"
        read = self._connection.execute(query, (table, after, through)).fetchall()
        return (
            Entry(n, dt.datetime.fromisoformat(time), who, of, sql, by, from_units(cost), *more)
            for n, time, who, of, sql, by, cost, *more in read
        )

    def charged_tables(self) -> dict[str, str]:
        first = "SELECT time FROM charge WHERE table_name = name ORDER BY id LIMIT 1"
        found = self._connection.execute(f"SELECT name, ({first}) FROM protected_table").fetchall()
        return {name: time for name, time in found if time is not None}

    def end(self, kind: type[Record]) -> Position:
        """The highest number that SQLite has ever assigned to a row, with the chain of that row."""
        query = (
            "SELECT seq, chain FROM sqlite_sequence AS s"
            f" LEFT JOIN {_NAMES[kind]} AS t ON t.id = s.seq WHERE s.name = ?"
        )
        found = self._connection.execute(query, (_NAMES[kind],)).fetchone()
        if found is None:
            return START
        if not isinstance(found[0], int) or not isinstance(found[1], bytes):
            raise self._ledger.tampered()
        return Position(*found)


class SqliteTransaction(SqliteSnapshot):
    """A `Transaction` of a file."""

    def __init__(self, ledger: Ledger, connection: sqlite3.Connection, written: Written) -> None:
        super().__init__(ledger, connection)
        self._written = written

    @property
    def version(self) -> int | None:
        return self._written.version

    def append(self, record: Record) -> Position:
        kind = type(record)
        before = self.end(kind)
        number, columns = before.number + 1, ", ".join(_COLUMNS[kind])
        row = (number, *record, linked(before.chain, number, *record))
        query = (
            f"INSERT INTO {_NAMES[kind]} (id, {columns}, chain) VALUES (?{', ?' * len(row[1:])})"
        )
        self._connection.execute(query, row)
        return Position(number, row[-1])

    def keep(self) -> None:
        self._ledger.keep()


class Ledger(SqliteFile, LedgerStore):
    """An open ledger file; one thread at a time may use it."""

    def __init__(
        self, path: str | Path, *, create: bool = True, secret: bytes | None = None
    ) -> None:
        """As `SqliteFile`."""
        super().__init__(path, create=create, secret=secret)
        with contextlib.ExitStack() as opened:
            opened.callback(self.close)
            with self._reading():
                rows = self._connection.execute("SELECT id, key, chain FROM secret").fetchall()
            if len(rows) != 1 or linked(START.chain, *rows[0][:2]) != rows[0][2]:
                raise self.tampered()
            opened.pop_all()
        self.secret = rows[0][1]

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[SqliteSnapshot]:
        with self._reading():
            yield SqliteSnapshot(self, self._connection)

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[SqliteSnapshot]:
        """A snapshot during which no other process reads or writes."""
        with self._transaction("locked", "BEGIN EXCLUSIVE"):
            yield SqliteSnapshot(self, self._connection)

    @contextlib.contextmanager
    def transaction(
        self, expected: Mapping[str, Seen] | None = None
    ) -> Iterator[SqliteTransaction]:
        with self._writing() as written:
            for table, seen in (expected or {}).items():
                if self._has_more(table, seen):
                    raise LedgerAdvanced
            yield SqliteTransaction(self, self._connection, written)

    def _has_more(self, table: str, seen: Seen) -> bool:
        """Whether a charge or an answer about a table was appended since."""
        query = (
            "SELECT EXISTS (SELECT 1 FROM charge WHERE id > ?1 AND table_name = ?3)"
            " OR EXISTS (SELECT 1 FROM answer AS a JOIN charge AS c ON c.id = a.charge_id"
            " WHERE a.id > ?2 AND c.table_name = ?3)"
        )
        return bool(self._connection.execute(query, (*seen, table)).fetchone()[0])

    def copy_to(self, path: Path) -> None:
        """Copy what is committed to an empty file, and flush that to the disk. Others may write
        meanwhile."""
        with self._reported("copied"), contextlib.closing(sqlite3.connect(path)) as target:
            self._connection.backup(target)
            flush(path)

    def wait(self, seconds: float) -> None:
        """Processes do not announce their commits, nor what they let go of."""
        before, end = self.position(), time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and self.position() == before:
            time.sleep(min(left, _STEP))

    @property
    def has_checkpoint(self) -> bool:
        return self.path is not None

    def checkpoint(self) -> bytes | None:
        try:
            return None if self.path is None else _beside(self.path).read_bytes()
        except OSError:
            return None

    def write_checkpoint(self, parts: Iterable[bytes | memoryview]) -> None:
        """Replace the file beside the ledger atomically."""
        if self.path is None:
            return
        draft = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        with contextlib.suppress(OSError):
            try:
                handle = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
                with open(handle, "wb") as file:
                    file.writelines(parts)
                draft.replace(_beside(self.path))
            except OSError:
                draft.unlink(missing_ok=True)
                raise

    def tampered(self) -> LedgerError:
        return LedgerError(
            f"the ledger {self.label} has lost or altered charges",
            hint="Restore it from its backup.",
        )


def _sealed(rows: list[Any]) -> Seal:
    """The seal of rows. Format 2 of marshal writes what is equal alike, and nothing else so."""
    written = hashlib.blake2b(marshal.dumps(rows, 2), digest_size=32)
    return Seal(Position(rows[-1][0], rows[-1][-1]), written.digest())


def _beside(ledger: Path) -> Path:
    return ledger.with_name(ledger.name + "-summary")
