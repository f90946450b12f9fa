"""Records in the ledger of counts that are published exactly, without a charge.

They are recorded before they are counted, so that nobody can choose them by their values, and again
once they are published. What was published cannot be withdrawn.
"""

from __future__ import annotations

from collections.abc import Mapping

from tallyveil.accountant.charges import Charge
from tallyveil.accountant.ledger.codec import decode_charge, encode_charge
from tallyveil.accountant.ledger.ledger import Ledger, StoredInvariant
from tallyveil.workload.workload import Column, Workload

__all__ = ["DECLARED", "PUBLISHED", "invariants_of", "published_columns", "write_invariants"]

DECLARED, PUBLISHED = "declared", "published"


def write_invariants(
    ledger: Ledger, table: str, event: str, counts: Mapping[str, Workload]
) -> None:
    """Record an ``event`` of counts by their SQL, unless recorded already; durable on return."""
    with ledger.writing():
        known = {(one.event, one.rows) for one in ledger.invariants(table)}
        for sql, workload in counts.items():
            if (event, workload.key) not in known:
                exact = Charge(workload, event, (0.0,) * len(workload.columns), sql)
                body = encode_charge(exact)
                ledger.add_invariant(StoredInvariant(table, event, sql, workload.key, body))


def published_columns(ledger: Ledger, table: str) -> tuple[Column, ...]:
    """All published columns, oldest first: more are only appended. Inside `reading`."""
    return tuple(column for _, columns in _stored(ledger, table, PUBLISHED) for column in columns)


def invariants_of(ledger: Ledger, table: str, event: str) -> list[tuple[str, tuple[Column, ...]]]:
    """The SQL and the rows of each event of a kind, oldest first. Where a public table has changed,
    the same SQL may have had other rows."""
    with ledger.reading():
        return _stored(ledger, table, event)


def _stored(ledger: Ledger, table: str, event: str) -> list[tuple[str, tuple[Column, ...]]]:
    stored = (one for one in ledger.invariants(table) if one.event == event)
    return [(o.sql, decode_charge(table, event, o.columns).workload.columns) for o in stored]
