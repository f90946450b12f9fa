"""The chain through each table of the ledger: no row can be altered or taken out unnoticed; and a
charge as a row.

A row's ``chain`` is BLAKE2b(chain of the row before ‖ its own number and values). A row that was
altered, or taken out of the middle, breaks it; one taken off the end is missed because SQLite
keeps the highest number it has ever given.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields

from tallyveil.mechanisms.measure import Measure

__all__ = ["FIELDS", "START", "Position", "StoredCharge", "charge_link", "linked"]

Value = str | bytes | int


@dataclass(frozen=True)
class Position:
    """How far a table was read: the number of the last row, and its chain."""

    number: int
    chain: bytes


START = Position(0, b"")


def linked(before: bytes, number: int, *values: Value) -> bytes:
    """The chain of row ``number``. Values of different types, or cut elsewhere, never collide."""
    parts = [before]
    for value in (number, *values):
        held = value if isinstance(value, bytes) else str(value).encode()
        parts += (type(value).__name__.encode(), len(held).to_bytes(8, "big"), held)
    return hashlib.blake2b(b"".join(parts), digest_size=16).digest()


@dataclass(frozen=True)
class StoredCharge:
    """``cost`` is in units of 10⁻¹² of ``measure``, ``columns`` as `codec` writes them."""

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


def charge_link(
    before: bytes, number: int, time: str, analyst: str, table: str, mechanism: str, sql: str,
    cost: int, height: int, columns: bytes, measure: Measure = "epsilon",
) -> bytes:  # fmt: skip
    """A charge's chain."""
    held = [before]
    for value in (time, analyst, table, mechanism, sql):
        text = value.encode()
        held += (len(text).to_bytes(8, "big"), text)
    # Of epsilon it is left out.
    own = () if measure == "epsilon" else (measure,)
    held += (repr((number, cost, height, *own)).encode(), columns)
    return hashlib.blake2b(b"".join(held), digest_size=16).digest()


_COLUMN_NAMES = {"table": "table_name"}
FIELDS = tuple(_COLUMN_NAMES.get(f.name, f.name) for f in fields(StoredCharge))
