"""The ledger: a permanent record of every charge and every noisy answer, in SQLite.

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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tallyveil.accountant.charges import Entry
from tallyveil.accountant.ledger.chain import FIELDS, START, Position, StoredCharge, linked
from tallyveil.accountant.ledger.database import Database
from tallyveil.errors import LedgerError
from tallyveil.mechanisms.measure import Measure
from tallyveil.mechanisms.units import from_units

__all__ = ["Ledger", "StoredAnswer", "StoredBudget", "StoredDerivation", "StoredInvariant"]


@dataclass(frozen=True)
class _Table:
    """A table, with its ``columns`` between a row's number and its chain."""

    name: str
    columns: tuple[str, ...]


_SECRET = _Table("secret", ("key",))
_PROTECTED = _Table("protected_table", ("name", "fingerprint", "added"))
_BUDGET = _Table("budget", ("time", "table_name", "declared"))
_SNAPSHOT = _Table("snapshot", ("table_name", "digest", "added"))
_CHARGE = _Table("charge", FIELDS[1:])
_ANSWER = _Table("answer", ("charge_id", "noisy"))
_INVARIANT = _Table("invariant", ("table_name", "event", "sql", "rows", "columns", "added"))
_DERIVATION = _Table("derivation", ("table_name", "analyst", "body"))


class StoredBudget(NamedTuple):
    """``declared`` is as `declarations.declaration` writes it."""

    id: int
    time: str
    table: str
    declared: str


class StoredAnswer(NamedTuple):
    id: int
    charge_id: int
    noisy: bytes


@dataclass(frozen=True)
class StoredInvariant:
    """A record that counts were declared or published. ``rows`` is the digest of their rows."""

    table: str
    event: str
    sql: str
    rows: bytes
    columns: bytes


@dataclass(frozen=True)
class StoredDerivation:
    """``body`` is as `derivation.encode_derivation` writes it."""

    id: int
    table: str
    analyst: str
    body: bytes


class Ledger(Database):
    """An open ledger, used by one `Accountant`, whose lock serialises threads."""

    def __init__(
        self, path: str | Path, *, create: bool = True, secret: bytes | None = None
    ) -> None:
        """As `Database`. A new ledger has a random ``secret`` unless one is given."""
        super().__init__(path, create=create, secret=secret)
        with contextlib.ExitStack() as opened:
            opened.callback(self.close)
            with self.reading():
                keys = [row[1] for row, _ in self._after(_SECRET, START)]
            if len(keys) != 1:
                raise self._tampered()
            opened.pop_all()
        (self.secret,) = keys

    def key(self, purpose: Literal["data", "rows", "marks"]) -> bytes:
        """A secret key for one purpose, the same in every process and for ever."""
        return hashlib.blake2b(purpose.encode(), key=self.secret, digest_size=32).digest()

    def holds_charge(self, position: Position) -> bool:
        """Whether this is the position of a charge in the ledger; inside `reading`."""
        query = "SELECT chain FROM charge WHERE id = ?"
        found = self._execute(query, (position.number,)).fetchone()
        return found is not None and found[0] == position.chain

    def tables(self) -> dict[str, tuple[str, str]]:
        """The tables in the ledger, each with the fingerprint of its declaration and the time when
        it was added; inside `reading`."""
        return {row[1]: row[2:4] for row, _ in self._after(_PROTECTED, START)}

    def add_table(self, table: str, fingerprint: str) -> None:
        """Inside `writing`."""
        self._add(_PROTECTED, (table, fingerprint, _now()), self._end(_PROTECTED))

    def budgets_after(self, seen: Position) -> Iterator[tuple[StoredBudget, Position]]:
        """As `charges_after`."""
        for row, position in self._after(_BUDGET, seen):
            yield StoredBudget(*row), position

    def budgets_end(self) -> Position:
        """The end of the budgets; inside `reading` or `writing`."""
        return self._end(_BUDGET)

    def add_budget(self, table: str, declared: str, before: Position) -> Position:
        """Append a table's budget and shares; inside `writing`. Positions are as in `answer`."""
        return self._add(_BUDGET, (_now(), table, declared), before)

    def charged_tables(self) -> dict[str, str]:
        """The tables with charges, each with the time of the first; inside `reading`."""
        query = "SELECT table_name, min(time) FROM charge GROUP BY table_name"
        return dict(self._execute(query).fetchall())

    def snapshot(self, table: str) -> bytes | None:
        """The keyed digest of the data that the table's answers are about (`binding`), if bound
        already; inside `reading`. As confidential as the data."""
        rows = [row for row, _ in self._after(_SNAPSHOT, START) if row[1] == table]
        return rows[-1][2] if rows else None

    def add_snapshot(self, table: str, digest: bytes) -> None:
        """Bind a table to its data, once; inside `writing`."""
        self._add(_SNAPSHOT, (table, digest, _now()), self._end(_SNAPSHOT))

    def invariants(self, table: str) -> list[StoredInvariant]:
        """A table's declared and published counts, oldest first; inside `reading`."""
        rows = [row for row, _ in self._after(_INVARIANT, START) if row[1] == table]
        return [StoredInvariant(*row[1:6]) for row in rows]

    def add_invariant(self, invariant: StoredInvariant) -> None:
        """Inside `writing`."""
        one = invariant
        row = (one.table, one.event, one.sql, one.rows, one.columns, _now())
        self._add(_INVARIANT, row, self._end(_INVARIANT))

    def append(
        self, *, analyst: str, table: str, mechanism: str, sql: str, cost: int, height: int,
        columns: bytes, before: Position, measure: Measure = "epsilon",
    ) -> Position:  # fmt: skip
        """Append a charge after ``before``, the end of the charges; inside `writing`."""
        row = (_now(), analyst, table, mechanism, sql, cost, height, columns, measure)
        return self._add(_CHARGE, row, before)

    def answer(self, charge_id: int, noisy: bytes, before: Position) -> Position:
        """Append a charge's noisy answer, once; inside `writing`. ``before`` is the end of the
        answers, and the result their end afterwards.
        """
        return self._add(_ANSWER, (charge_id, noisy), before)

    def derive(self, table: str, analyst: str, body: bytes, before: Position) -> Position:
        """Append how an estimate was made; inside `writing`. Positions are as in `answer`."""
        return self._add(_DERIVATION, (table, analyst, body), before)

    def charges_after(
        self, seen: Position, most: int = -1
    ) -> Iterator[tuple[StoredCharge, Position]]:
        """Charges appended since ``seen``, each with its position; at most ``most``, if given.

        Raises LedgerError if the chain is broken or the row ``seen`` is missing.
        """
        for row, position in self._after(_CHARGE, seen, most):
            yield StoredCharge(*row), position

    def answers_after(
        self, seen: Position, most: int = -1
    ) -> Iterator[tuple[StoredAnswer, Position]]:
        """As `charges_after`."""
        for row, position in self._after(_ANSWER, seen, most):
            yield StoredAnswer(*row), position

    def derivations_after(self, seen: Position) -> Iterator[tuple[StoredDerivation, Position]]:
        """As `charges_after`."""
        for row, position in self._after(_DERIVATION, seen):
            yield StoredDerivation(*row), position

    def history(self, table: str | None) -> list[Entry]:
        """All charges, or a table's, oldest first."""
        fields = "id, time, analyst, table_name, sql, mechanism, cost, measure, height"
        query = f"SELECT {fields} FROM charge WHERE ?1 IS NULL OR table_name = ?1 ORDER BY id"
        return [
            Entry(n, dt.datetime.fromisoformat(time), who, of, sql, by, from_units(cost), *more)
            for n, time, who, of, sql, by, cost, *more in self._execute(query, (table,))
        ]

    def _after(
        self, table: _Table, seen: Position, most: int = -1
    ) -> Iterator[tuple[tuple[Any, ...], Position]]:
        """Rows of ``table`` after ``seen``, each with its number and without its chain."""
        if seen.number:
            query = f"SELECT chain FROM {table.name} WHERE id = ?"
            found = self._execute(query, (seen.number,)).fetchone()
            if found is None or found[0] != seen.chain:
                raise self._tampered()
        columns = ", ".join(("id", *table.columns, "chain"))
        query = f"SELECT {columns} FROM {table.name} WHERE id > ? ORDER BY id LIMIT ?"
        left = most
        for held in self._execute(query, (seen.number, most)):
            row = held[:-1]
            seen = Position(row[0], linked(seen.chain, *row))
            if seen.chain != held[-1]:
                raise self._tampered()
            left -= 1
            yield row, seen
        if left and seen.number != self._numbers_used(table):
            raise self._tampered()

    def _end(self, table: _Table) -> Position:
        """The end of ``table``, found by reading all its rows, which must be few."""
        ends = [end for _, end in self._after(table, START)]
        return ends[-1] if ends else START

    def _add(self, table: _Table, values: tuple[Any, ...], before: Position) -> Position:
        """Append a row to ``table``, whose end is ``before``."""
        row = (self._numbers_used(table) + 1, *values)
        after = Position(row[0], linked(before.chain, *row))
        columns, marks = ", ".join(("id", *table.columns, "chain")), ", ?" * len(row)
        self._execute(
            f"INSERT INTO {table.name} ({columns}) VALUES (?{marks})", (*row, after.chain)
        )
        return after

    def _numbers_used(self, table: _Table) -> int:
        """The highest number that SQLite has ever assigned to a row."""
        query = "SELECT seq FROM sqlite_sequence WHERE name = ?"
        row = self._execute(query, (table.name,)).fetchone()
        if row is not None and not isinstance(row[0], int):
            raise self._tampered()
        return 0 if row is None else row[0]

    def _tampered(self) -> LedgerError:
        return LedgerError(
            f"the ledger {self.label} has lost or altered charges",
            hint="Restore it from its backup.",
        )


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")
