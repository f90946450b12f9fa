"""The chain through each table of the ledger, which reveals altered or removed records.

A record's chain is a digest of the chain of the record before, its own number and its values
(`linked`). A record that was altered, or removed from the middle, breaks it. A record removed from
the end is missed because a store keeps the highest number it has ever assigned.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

__all__ = ["START", "Position", "linked"]

ChainedValue = str | bytes | int


class Position(NamedTuple):
    """A position in a table: the number of a record, and its chain."""

    number: int
    chain: bytes


START = Position(0, b"")


def linked(before: bytes, *row: ChainedValue) -> bytes:
    """The chain of a record, whose first value is its number.

    BLAKE2b(before ‖ its values as a Python list in ASCII, with the lengths of bytes in their place
    ‖ these bytes). The list marks its own end, so no two records are encoded alike.
    """
    plain: list[object] = [*row]
    held = [one for one in row if isinstance(one, bytes)]
    if held:
        plain = [(len(one),) if isinstance(one, bytes) else one for one in row]
    text = ascii(plain).encode()
    return hashlib.blake2b(b"".join((before, text, *held)), digest_size=16).digest()
