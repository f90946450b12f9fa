"""Records in the ledger of counts that are published exactly, without a charge.

They are recorded before they are counted, so that nobody can choose them by their values, and again
once they are published. What was published cannot be withdrawn.
"""

from __future__ import annotations

from collections.abc import Mapping

from tallyveil.accountant.charges import Charge
from tallyveil.accountant.migrations import NONE, lineages
from tallyveil.accountant.store.event_codec import decode_charge, encode_charge
from tallyveil.accountant.store.ledger_records import InvariantRecord, now
from tallyveil.accountant.store.ledger_store import LedgerStore, Snapshot
from tallyveil.workload.workload import Column, Workload

__all__ = ["DECLARED", "PUBLISHED", "invariants_of", "published_columns", "write_invariants"]

DECLARED, PUBLISHED = "declared", "published"


def write_invariants(
    ledger: LedgerStore, table: str, event: str, counts: Mapping[str, Workload]
) -> None:
    """Record an ``event`` of counts by their SQL, unless recorded already; durable on return."""
    with ledger.transaction() as transaction:
        every = _counts(transaction, table, event)
        known = {Workload(table, columns).key for _, columns in every}
        for sql, workload in counts.items():
            if workload.key not in known:
                exact = Charge(workload, event, (0.0,) * len(workload.columns), sql)
                body = encode_charge(exact)
                transaction.append(InvariantRecord(table, event, sql, workload.key, body, now()))


def published_columns(view: Snapshot, table: str) -> tuple[Column, ...]:
    """All published columns, oldest first: more are only appended."""
    return tuple(column for _, columns in _counts(view, table, PUBLISHED) for column in columns)


def invariants_of(
    ledger: LedgerStore, table: str, event: str
) -> list[tuple[str, tuple[Column, ...]]]:
    """The SQL and the rows of each event of a kind, oldest first. Where a public table has changed,
    the same SQL may have had other rows."""
    with ledger.snapshot() as view:
        return _counts(view, table, event)


def _counts(view: Snapshot, table: str, event: str) -> list[tuple[str, tuple[Column, ...]]]:
    lineage = lineages(view).get(table, NONE)
    found = []
    for one, (number, _) in view.after(InvariantRecord):
        if (one.table, one.event) == (table, event):
            columns = decode_charge(table, event, one.columns).workload.columns
            found.append((one.sql, lineage.columns("invariant", number, columns)))
    return found
