"""A charge as a row of the ledger."""

from __future__ import annotations

import dataclasses
import hashlib

from tallyveil.mechanisms.measure import Measure

__all__ = ["FIELDS", "StoredCharge", "charge_link"]


@dataclasses.dataclass(frozen=True)
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
    """A charge's chain, as the ledger's first format computed it: charges keep theirs for good."""
    held = [before]
    for value in (time, analyst, table, mechanism, sql):
        text = value.encode()
        held += (len(text).to_bytes(8, "big"), text)
    # Ledgers before version 3 have no measure: theirs is epsilon, and is left out.
    own = () if measure == "epsilon" else (measure,)
    held += (repr((number, cost, height, *own)).encode(), columns)
    return hashlib.blake2b(b"".join(held), digest_size=16).digest()


_COLUMN_NAMES = {"table": "table_name"}
FIELDS = tuple(_COLUMN_NAMES.get(f.name, f.name) for f in dataclasses.fields(StoredCharge))
