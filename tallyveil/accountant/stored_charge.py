"""A charge as a row of the ledger."""

from __future__ import annotations

import dataclasses
import hashlib

from tallyveil.mechanisms.measure import Measure

__all__ = ["FIELDS", "StoredCharge"]


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

    def chained_to(self, before: bytes) -> bytes:
        """Its chain, as the ledger's first format computed it: charges keep theirs for good."""
        digest = hashlib.blake2b(before, digest_size=16)
        for value in (self.time, self.analyst, self.table, self.mechanism, self.sql):
            text = value.encode()
            digest.update(len(text).to_bytes(8, "big") + text)
        # Ledgers before version 3 have no measure: theirs is epsilon, and is left out.
        measure = () if self.measure == "epsilon" else (self.measure,)
        digest.update(repr((self.id, self.cost, self.height, *measure)).encode() + self.columns)
        return digest.digest()


_COLUMN_NAMES = {"table": "table_name"}
FIELDS = tuple(_COLUMN_NAMES.get(f.name, f.name) for f in dataclasses.fields(StoredCharge))
