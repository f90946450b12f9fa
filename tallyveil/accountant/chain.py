"""The chain through each table of the ledger: no row can be altered or taken out unnoticed.

A row's ``chain`` is BLAKE2b(chain of the row before ‖ its own number and values). A row that was
altered, or taken out of the middle, breaks it; one taken off the end is missed because SQLite
keeps the highest number it has ever given.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

__all__ = ["START", "Position", "linked"]

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
