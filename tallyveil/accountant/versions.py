"""The versions of tables that grow: each is a record of the ledger, made once and for all."""

from __future__ import annotations

from collections.abc import Mapping

from tallyveil.accountant.binding import bind
from tallyveil.accountant.budgets.account import Account
from tallyveil.accountant.store.chain import START
from tallyveil.accountant.store.ledger_records import VersionRecord
from tallyveil.accountant.store.ledger_store import LedgerStore

__all__ = ["VersionLog", "publish_version"]


class VersionLog:
    """The versions that a ledger has; used by one thread at a time."""

    def __init__(self, ledger: LedgerStore) -> None:
        self._ledger = ledger
        self._end = START
        self._found: list[VersionRecord] = []

    def of(self, table: str) -> list[VersionRecord]:
        """All versions of a table, oldest first. What was read before is not read again."""
        with self._ledger.snapshot() as view:
            for record, end in view.after(VersionRecord, self._end):
                self._found.append(record)
                self._end = end
        return [one for one in self._found if one.table == table]


def publish_version(
    ledger: LedgerStore, accounts: Mapping[str, Account], record: VersionRecord
) -> bool:
    """Record a version; durable when it returns. False, with nothing recorded, if another process
    has published the one of this number, or a later day.

    Raises LedgerMismatch if the ledger belongs to other tables.
    """
    with ledger.transaction() as transaction:
        bind(ledger, transaction, accounts)
        known = [one for one, _ in transaction.after(VersionRecord) if one.table == record.table]
        last = known[-1].through if known else ""
        if record.number != len(known) + 1 or record.through < last:
            return False
        transaction.append(record)
        return True
