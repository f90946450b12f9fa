"""What was counted, kept in sealed files (`SealedFiles`).

A restart and further processes of the same ledger load the counts instead of reading the source
again. The file of a table holds the fingerprint of its declaration; where that differs, the table
is counted, and the ledger decides. It also holds which relations of the source the table reads,
which others of the policy may share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from tallyveil.cube.cube import Cube
from tallyveil.cube.kept.sealed_files import SealedFiles
from tallyveil.cube.members import Members
from tallyveil.policy import Domain, Policy, Table

__all__ = ["Kept", "SealedCubes", "with_truncates"]

_DELETE: Final = "Delete the file: then the table is counted again from its source."


class Kept(NamedTuple):
    """What is kept of a table: its cube, and the relations it ``reads`` (`relations_read`)."""

    cube: Cube
    reads: frozenset[str] | None


class SealedCubes:
    """The files of one policy in a ``folder``, under the ledger's ``key``."""

    def __init__(self, folder: Path, key: bytes) -> None:
        self._files = SealedFiles(folder, key, "cubes", _DELETE)

    def read_all(self, policy: Policy) -> dict[str, Kept]:
        """What is kept of all tables, as `read`; none if that of one is missing, since all are
        counted as of one moment."""
        found = {name: self.read(table) for name, table in policy.tables.items()}
        kept = {name: own for name, own in found.items() if own is not None}
        return kept if len(kept) == len(found) else {}

    def read(self, table: Table) -> Kept | None:
        """What was kept for this declaration of the table; None if there is none.

        Raises SourceError as `SealedFiles.read` does.
        """
        found = self._files.read(f"{table.name}.cube")
        if found is None or found[0]["declaration"] != table.fingerprint:
            return None
        header, (counts, *codes) = found
        codes, rest = codes[: len(table.cells.attributes)], codes[len(table.cells.attributes) :]
        units = rest[0].astype(np.int64) if rest else None
        members = Members(rest[1], rest[2]) if rest[1:] else None
        if members is None and table.privacy_unit.max_rows > 1:
            return None  # of a version that kept none
        domain = with_truncates(table.cells, header["truncates"])
        reads = header["reads"]
        return Kept(
            Cube(domain, tuple(codes), counts.astype(np.int64), units, members),
            None if reads is None else frozenset(reads),
        )

    def write(self, table: Table, kept: Kept) -> None:
        """Keep it. Raises OutputError if the file cannot be written."""
        cube, reads = kept
        counts = cube._counts
        units = [] if counts.units is None else [counts.units]
        members = [] if counts.members is None else [counts.members.lengths, counts.members.cells]
        header: dict[str, Any] = {
            "declaration": table.fingerprint,
            "reads": None if reads is None else sorted(reads),
            "truncates": [attribute.truncates for attribute in cube.domain.attributes],
        }
        arrays = [counts.counts, *counts.codes, *units, *members]
        self._files.write(f"{table.name}.cube", header, arrays)


def with_truncates(cells: Domain, truncates: Sequence[str | None]) -> Domain:
    """A domain, completed by `Attribute.truncates` of each attribute."""
    attributes = zip(cells.attributes, truncates, strict=True)
    return replace(cells, attributes=tuple(replace(a, truncates=t) for a, t in attributes))
