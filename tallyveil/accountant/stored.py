"""A charge as the ledger stores it, as the accountant works on it, and as the history shows it."""

from __future__ import annotations

import datetime as dt

from tallyveil.accountant.codec import decode_event
from tallyveil.accountant.memory import Asked
from tallyveil.accountant.stored_charge import StoredCharge
from tallyveil.accountant.values import Charge, Entry
from tallyveil.mechanisms.units import from_units
from tallyveil.workload.workload import Workload

__all__ = ["asked", "charge_of", "entry"]


def asked(charge: Charge) -> Asked:
    workload = charge.workload
    return Asked(workload.table, charge.mechanism, workload.columns, charge.scales, charge.law)


def charge_of(stored: StoredCharge) -> Charge:
    event = decode_event(stored.columns)
    workload = Workload(stored.table, event.columns)
    return Charge(workload, stored.mechanism, event.scales, stored.sql, event.law)


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
