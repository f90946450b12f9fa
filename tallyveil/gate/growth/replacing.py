"""Versions of tables whose rows are replaced, published one after the other.

Any row may be in any cell, or gone, in another version. So an answer is about its own version, and
a unit loses at most the sum over versions of the most that one cell has lost in each (the proof is
in docs/guarantees.md).
A charge is made only for the version that is the last one in the ledger, which the transaction of
the charge checks: booked under a later version, it could understate what a unit lost.

To publish is to count all rows, to keep the counts in a sealed file, and then to record the version
in the ledger. A version is published whether or not anything changed.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from glob import escape
from typing import Final, TypeAlias

from tallyveil.accountant import ReplacementRecord, now
from tallyveil.cube import (
    Cube,
    Passed,
    SealedFiles,
    Slice,
    count_rows,
    cube_of,
    read_slice,
    write_slice,
)
from tallyveil.errors import SourceError
from tallyveil.events import report
from tallyveil.gate.growth.publishing import Known, check_numbers
from tallyveil.policy import Policy, Table

__all__ = ["Record", "Replacing", "read_slice_of", "read_version"]

_REMEDY: Final = "Publish another version: tallyveil publish POLICY."

Record: TypeAlias = Callable[[ReplacementRecord], bool]
"""Records a version; False if another process was first."""


@dataclass(frozen=True)
class Replacing:
    """Publishes versions of a policy's tables whose rows are replaced. ``key`` chooses the rows of
    units."""

    policy: Policy
    files: SealedFiles
    key: bytes
    known: Known
    record: Record

    def publish(
        self, name: str, source: Passed, unless_after: int | None = None
    ) -> ReplacementRecord:
        """Count the rows of a table as they are now: the version that is the last one then; unless
        there is one of a number above that given, which another process has published.

        Raises SourceError and OutputError. Then the version before it is the last one.
        """
        table = self.policy.tables[name]
        with self.files.locked():
            known = self.known(name, ReplacementRecord)
            check_numbers(self.files, name, "rows", len(known))
            if unless_after is not None and len(known) > unless_after:
                return known[-1]
            before = []
            if known and table.data.stable:
                before.append(read_slice_of(self.files, known[-1], table))
            own = count_rows(self.policy, name, source, before, self.key).after(table, None)
            record = ReplacementRecord(name, len(known) + 1, 0, 0, secrets.token_hex(8), "")
            write_slice(self.files, _file(record), _about(record), own)
            record = record._replace(published=now())
            if not self.record(record):
                raise SourceError(
                    f"another process has published version {record.number} of {name}"
                )
            report("version published", table=name, version=record.number)
            self.files.keep(f"{escape(name)}.*.rows*", [_file(record)])
            return record


def read_version(files: SealedFiles, record: ReplacementRecord, table: Table) -> Cube:
    """The counts of a version. Raises SourceError if they are missing or damaged."""
    return cube_of(table, [read_slice_of(files, record, table)])


def read_slice_of(files: SealedFiles, record: ReplacementRecord, table: Table) -> Slice:
    """What was counted for a version. Raises SourceError if it is missing or damaged."""
    own = read_slice(files, _file(record), _about(record))
    if own is None:
        raise SourceError(
            f"slices: {files.folder / _file(record)} is missing: it has the counts of version"
            f" {record.number} of table {table.name}",
            hint=_REMEDY if not table.data.stable else "Restore it from its backup.",
        )
    return own


def _file(record: ReplacementRecord) -> str:
    return f"{record.table}.{record.number}.{record.snapshot}.rows"


def _about(record: ReplacementRecord) -> dict[str, str | int]:
    return {
        "snapshot": record.snapshot,
        "number": record.number,
    }
