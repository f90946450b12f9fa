"""A charge as the ledger stores it, as it is accounted for, and as the history shows it."""

from __future__ import annotations

import datetime as dt

from tallyveil.accountant.charges import Charge, Entry
from tallyveil.accountant.codec import decode_event
from tallyveil.accountant.stored_charge import StoredCharge
from tallyveil.mechanisms.units import from_units
from tallyveil.workload.workload import Workload

__all__ = ["charge_of", "entry"]


def charge_of(table: str, mechanism: str, columns: bytes) -> Charge:
    """The charge that is stored so, without its statement."""
    event = decode_event(columns)
    return Charge(
        Workload(table, event.columns), mechanism, event.scales, "", event.law, event.translates,
        plainly=event.plainly, joint=event.joint,
    )  # fmt: skip


def entry(stored: StoredCharge) -> Entry:
    return Entry(
        stored.id,
        dt.datetime.fromisoformat(stored.time),
        stored.analyst,
        stored.table,
        stored.sql,
        stored.mechanism,
        from_units(stored.cost),
        stored.measure,
        stored.height,
    )
