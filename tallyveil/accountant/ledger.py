"""The ledger: every charge and every noisy answer, in SQLite, for good.

Append-only, in WAL mode with synchronous=FULL: what has been committed survives a crash. Several
processes may share a file; each writes inside BEGIN IMMEDIATE and reads what others appended
before it decides. It fails closed: a file that is unreadable, tampered with, swapped or gone is
an error, never an empty history.

A charge's ``chain`` is BLAKE2b(chain of the charge before ‖ its own fields), so a charge that was
altered or taken out is found when the ledger is opened. An older copy put in place of the ledger
is found only by a process that has seen more: restore a backup only if nothing was asked since.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import os
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tallyveil.accountant.schema import (
    APPLICATION_ID,
    FIRST_VERSION,
    SCHEMA_VERSION,
    create_file,
    create_tables,
    upgrade,
)
from tallyveil.errors import LedgerError, LedgerMismatch
from tallyveil.mechanisms.measure import Measure

__all__ = ["Ledger", "StoredAnswer", "StoredCharge"]

_FIELDS = "id, time, analyst, table_name, mechanism, sql, cost, height, columns, measure"
_BUSY_SECONDS = 10.0


@dataclass(frozen=True)
class StoredCharge:
    """A row of the ledger; ``cost`` in units of 10⁻¹² of ``measure``, ``columns`` as `codec`
    writes them.
    """

    id: int
    time: str
    analyst: str
    table: str
    mechanism: str
    sql: str
    cost: int
    height: int
    columns: bytes
    measure: Measure = "epsilon"

    def chained_to(self, before: bytes) -> bytes:
        digest = hashlib.blake2b(before, digest_size=16)
        for value in (self.time, self.analyst, self.table, self.mechanism, self.sql):
            text = value.encode()
            digest.update(len(text).to_bytes(8, "big") + text)
        # Ledgers before version 3 have no measure: theirs is epsilon, and is left out.
        measure = () if self.measure == "epsilon" else (self.measure,)
        digest.update(repr((self.id, self.cost, self.height, *measure)).encode() + self.columns)
        return digest.digest()


@dataclass(frozen=True)
class StoredAnswer:
    id: int
    charge_id: int
    noisy: bytes


class Ledger:
    """An open ledger. Used by one `Accountant`, which sees to it that threads take turns."""

    def __init__(self, path: str | Path, *, create: bool = True) -> None:
        """Open ``path``, or make it if it is missing; ":memory:" is a ledger that is not kept.

        Raises LedgerError if it is missing and not ``create``, corrupt, or no ledger at all.
        """
        self._pid = os.getpid()
        self._path = None if str(path) == ":memory:" else Path(path).absolute()
        self.name = str(path)
        with self._reported("opened"):
            if self._path is not None and not self._path.exists():
                if not create:
                    raise LedgerError(f"there is no ledger {self.name}")
                create_file(self._path)
            self._identity = self._stat()
            self._db = sqlite3.connect(
                path if self._path is None else f"{self._path.as_uri()}?mode=rw",
                uri=self._path is not None,
                timeout=_BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            if self._path is None:
                create_tables(self._db)
            try:
                self._check_format()
            except BaseException:
                self._db.close()
                raise

    def close(self) -> None:
        self._db.close()

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """One snapshot for all reads inside."""
        with self._transaction("BEGIN", "read"):
            yield

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """All or nothing, alone, and durable once the block is left without an error.

        Raises LedgerError if it did not become durable, or the file was swapped meanwhile.
        """
        with self._transaction("BEGIN IMMEDIATE", "written"):
            yield
        self._check_identity()

    def bind(self, fingerprints: Mapping[str, str]) -> None:
        """Add new tables; inside `writing`. Raises LedgerMismatch if a known one has changed."""
        known = dict(self._db.execute("SELECT name, fingerprint FROM protected_table"))
        now = _now()
        for table, fingerprint in fingerprints.items():
            if table not in known:
                row = (table, fingerprint, now)
                self._db.execute("INSERT INTO protected_table VALUES (?, ?, ?)", row)
            elif known[table] != fingerprint:
                raise LedgerMismatch(
                    f'the ledger {self.name} belongs to another declaration of table "{table}"',
                    detail="The attributes, the neighbouring relation or the privacy unit of the"
                    " policy differ from those its charges were made under.",
                    hint="Restore the policy the ledger was made with. Only if the table holds"
                    " other people's records than before, start a new ledger file: a new ledger"
                    " starts with the whole budget.",
                )

    def append(
        self, *, analyst: str, table: str, mechanism: str, sql: str, cost: int, height: int,
        columns: bytes, before: bytes, measure: Measure = "epsilon",
    ) -> tuple[StoredCharge, bytes]:  # fmt: skip
        """Add a charge to the end; inside `writing`. ``before`` is the last charge's chain."""
        number = self._numbers_used() + 1
        row = (number, _now(), analyst, table, mechanism, sql, cost, height, columns, measure)
        charge = StoredCharge(*row)
        chain = charge.chained_to(before)
        self._db.execute(
            f"INSERT INTO charge ({_FIELDS}, chain) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*row, chain),
        )
        return charge, chain

    def answer(self, charge_id: int, noisy: bytes) -> StoredAnswer:
        """Remember a charge's noisy answer, once; inside `writing`."""
        cursor = self._db.execute(
            "INSERT INTO answer (charge_id, noisy) VALUES (?, ?)", (charge_id, noisy)
        )
        return StoredAnswer(cursor.lastrowid or 0, charge_id, noisy)

    def charges_after(self, last: int, chain: bytes) -> Iterator[tuple[StoredCharge, bytes]]:
        """Charges appended since charge ``last``, whose chain was ``chain``, each with its own.

        Raises LedgerError if the chain is broken or charge ``last`` is not there any more.
        """
        if last:
            seen = self._db.execute("SELECT chain FROM charge WHERE id = ?", (last,)).fetchone()
            if seen is None or seen[0] != chain:
                raise self._tampered()
        query = f"SELECT {_FIELDS}, chain FROM charge WHERE id > ? ORDER BY id"
        for *fields, stored in self._db.execute(query, (last,)):
            charge = StoredCharge(*fields)
            chain = charge.chained_to(chain)
            if chain != stored:
                raise self._tampered()
            last = charge.id
            yield charge, chain
        if last != self._numbers_used():
            raise self._tampered()

    def answers_after(self, last: int) -> Iterator[StoredAnswer]:
        query = "SELECT id, charge_id, noisy FROM answer WHERE id > ? ORDER BY id"
        for row in self._db.execute(query, (last,)):
            yield StoredAnswer(*row)

    def history(self, table: str | None) -> list[StoredCharge]:
        """All charges, or a table's, oldest first, without their columns."""
        fields = _FIELDS.replace("columns", "x''")
        query = f"SELECT {fields} FROM charge WHERE ?1 IS NULL OR table_name = ?1 ORDER BY id"
        return [StoredCharge(*row) for row in self._db.execute(query, (table,))]

    @contextlib.contextmanager
    def _transaction(self, begin: str, doing: str) -> Iterator[None]:
        if os.getpid() != self._pid:
            raise LedgerError(f"the ledger {self.name} was opened by another process")
        self._check_identity()
        with self._reported(doing):
            self._db.execute(begin)
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _reported(self, doing: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise LedgerError(
                f"the ledger {self.name} cannot be {doing}",
                detail=str(error),
                hint="Nothing is answered without a ledger. See that the file, its directory and"
                " the disk are in order, and restore a damaged ledger from its backup.",
            ) from error

    def _check_format(self) -> None:
        application = self._pragma("application_id")
        version = self._pragma("user_version")
        if application != APPLICATION_ID:
            raise LedgerError(
                f"{self.name} is not a ledger of tallyveil",
                hint="Name another file, or restore the ledger from its backup.",
            )
        if not FIRST_VERSION <= version <= SCHEMA_VERSION:
            raise LedgerError(
                f"the ledger {self.name} has format {version}, this program reads formats"
                f" {FIRST_VERSION} to {SCHEMA_VERSION}"
            )
        if self._pragma("quick_check") != "ok":
            raise LedgerError(
                f"the ledger {self.name} is damaged", hint="Restore it from its backup."
            )
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("PRAGMA foreign_keys = ON")
        if version < SCHEMA_VERSION:
            upgrade(self._db)

    def _pragma(self, name: str) -> Any:
        return self._db.execute(f"PRAGMA {name}").fetchone()[0]

    def _stat(self) -> tuple[int, int] | None:
        if self._path is None:
            return None
        stat = self._path.stat()
        return stat.st_dev, stat.st_ino

    def _check_identity(self) -> None:
        """Refuse to go on with a file that has been moved away, deleted or swapped."""
        try:
            same = self._stat() == self._identity
        except OSError:
            same = False
        if not same:
            raise LedgerError(
                f"the ledger {self.name} was removed or replaced while in use",
                hint="Put the original file back, or restart to go on with the present one.",
            )

    def _numbers_used(self) -> int:
        """The highest number SQLite has ever given to a charge."""
        query = "SELECT seq FROM sqlite_sequence WHERE name = 'charge'"
        row = self._db.execute(query).fetchone()
        return int(row[0]) if row else 0

    def _tampered(self) -> LedgerError:
        return LedgerError(
            f"the ledger {self.name} has lost or altered charges",
            hint="Restore it from its backup.",
        )


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
