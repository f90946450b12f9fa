"""The chain through each table of the ledger, which reveals altered or removed rows; and charges as
rows.

A row's ``chain`` is a digest of the chain of the row before, its own number and its values
(`linked`). A row that was altered, or removed from the middle, breaks it. A row removed from the
end is missed because SQLite keeps the highest number it has ever assigned.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from tallyveil.mechanisms.measure import Measure

__all__ = ["FIELDS", "START", "Position", "StoredCharge", "linked"]

ChainedValue = str | bytes | int


class Position(NamedTuple):
    """A position in a table: the number of a row, and its chain."""

    number: int
    chain: bytes


START = Position(0, b"")


def linked(before: bytes, *row: ChainedValue) -> bytes:
    """The chain of a row, whose first value is its number.

    BLAKE2b(before ‖ its values as a Python list in ASCII, with the lengths of bytes in their place
    ‖ these bytes). The list marks its own end, so no two rows are encoded alike.
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
