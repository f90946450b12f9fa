"""The versions of tables that grow, and of those whose rows are replaced: each is a record of the
ledger, made once and for all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from tallyveil.accountant.binding import bind
from tallyveil.accountant.budgets.account import Account
from tallyveil.accountant.store.chain import START, Position
from tallyveil.accountant.store.ledger_records import (
    ChargeRecord,
    DerivationRecord,
    ReplacementRecord,
    VersionRecord,
)
from tallyveil.accountant.store.ledger_store import LedgerStore, Snapshot

__all__ = ["V", "VersionLog", "publish_replacement", "publish_version"]

V = TypeVar("V", VersionRecord, ReplacementRecord)
"""The kind of version that a table has."""


class VersionLog:
    """The versions that a ledger has; used by one thread at a time."""

    def __init__(self, ledger: LedgerStore) -> None:
        self._ledger = ledger
        self._read: dict[type[Any], tuple[Position, list[Any]]] = {}

    def of(self, table: str, kind: type[V]) -> list[V]:
        """All versions of this kind of a table, oldest first. What was read before is not read
        again."""
        with self._ledger.snapshot() as view:
            return self._seen(view, table, kind)

    def _seen(self, view: Snapshot, table: str, kind: type[V]) -> list[V]:
        position, found = self._read.get(kind, (START, list[V]()))
        for record, end in view.after(kind, position):
            found.append(record)
            position = end
        self._read[kind] = position, found
        return [one for one in found if one.table == table]


def publish_version(
    log: VersionLog, accounts: Mapping[str, Account], record: VersionRecord
) -> bool:
    """Record a version; durable when it returns. False, with nothing recorded, if another process
    has published the one of this number, or a later day.

    Raises LedgerMismatch if the ledger belongs to other tables.
    """
    with log._ledger.transaction() as transaction:
        bind(log._ledger, transaction, accounts)
        known = log._seen(transaction, record.table, VersionRecord)
        last = known[-1].through if known else ""
        if record.number != len(known) + 1 or record.through < last:
            return False
        transaction.append(record)
        return True


def publish_replacement(
    ledger: LedgerStore, accounts: Mapping[str, Account], record: ReplacementRecord
) -> bool:
    """As `publish_version`, of a table whose rows are replaced. From then on, whoever charges must
    know this version (`Accountant.sell`); the numbers of the last charge and derivation before it
    are set here."""
    with ledger.transaction() as transaction:
        bind(ledger, transaction, accounts)
        every = (one for one, _ in transaction.after(ReplacementRecord))
        if record.number != 1 + sum(1 for one in every if one.table == record.table):
            return False
        charges, derivations = transaction.end(ChargeRecord), transaction.end(DerivationRecord)
        transaction.append(record._replace(charges=charges.number, derivations=derivations.number))
        return True
