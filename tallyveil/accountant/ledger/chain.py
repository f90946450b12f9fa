"""The chain through each table of the ledger: no row can be altered or taken out unnoticed; and a
charge as a row.

A row's ``chain`` is a digest of the chain of the row before, its own number and its values
(`linked`). A row that was altered, or taken out of the middle, breaks it; one taken off the end is
missed because SQLite keeps the highest number it has ever given.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from tallyveil.mechanisms.measure import Measure

__all__ = ["FIELDS", "START", "Position", "StoredCharge", "linked"]

ChainedValue = str | bytes | int


class Position(NamedTuple):
    """How far a table was read: the number of the last row, and its chain."""

    number: int
    chain: bytes


START = Position(0, b"")


def linked(before: bytes, *row: ChainedValue) -> bytes:
    """The chain of a row, its number first.

    BLAKE2b(before ‖ its values as a list of Python's, in ASCII, in which bytes are their length
    alone ‖ these bytes): a list says where it ends, so that no two rows are written alike.
    """
    found = hashlib.blake2b(before, digest_size=16)
    plain: list[object] = list(row)
    held: list[bytes] = []
    for place, value in enumerate(row):
        if isinstance(value, bytes):
            plain[place] = (len(value),)
            held.append(value)
    found.update(ascii(plain).encode())
    for value in held:
        found.update(value)
    return found.digest()


class StoredCharge(NamedTuple):
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


_COLUMN_NAMES = {"table": "table_name"}
FIELDS = tuple(_COLUMN_NAMES.get(name, name) for name in StoredCharge._fields)
