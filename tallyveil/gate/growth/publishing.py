"""Versions of tables that grow are published, one after the other.

A version is the table behind a mask, M_v = diag[day(j) <= t_v] with a watermark t_v that never goes
back. All that is asked, charged and answered in it is the row W M_v of one fixed x, so answers stay
valid for ever, and costs add up as those of a table that never changes. A statement that was
planned in an earlier version is as sound as before. The proof is in docs/guarantees.md.

Nothing about the rows decides what is published or when: not their number, not the latest day, not
whether anything changed. To publish is to count the new days, to keep that in a sealed file, and
then to record the version in the ledger. Whatever is killed before that leaves a file that nobody
reads.
"""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from tallyveil.accountant import ReplacementRecord, VersionRecord, now
from tallyveil.cube import (
    Days,
    FilesInMemory,
    Passed,
    SealedFiles,
    Slice,
    read_slice,
    write_slice,
)
from tallyveil.errors import InvalidParameterValue, LedgerError, SourceError
from tallyveil.events import report
from tallyveil.gate.growth.joint_slices import JointSlices
from tallyveil.policy import Policy, Table

__all__ = [
    "DAY", "Known", "Publishing", "Version", "check_numbers", "has_ended", "is_due", "read_slices",
    "sealed_slices", "since_recount", "version_of", "versions_of", "with_versions",
]  # fmt: skip

_REMEDY: Final = (
    "Restore it from its backup: what was counted of days that are over is counted only once."
)
DAY: Final = dt.timedelta(days=1)


V = TypeVar("V", VersionRecord, ReplacementRecord)


class Version(NamedTuple):
    """A version of a table: the days up to ``through`` are over, None if none is; or all rows were
    ``replaced``. ``published`` is when it began to be served: how long that took to count may tell
    how many rows there are, so analysts are shown the declared time before it.

    ``first`` is that of its range, given where a day before it is asked.

    Days that were counted once more are no other version: that would tell that somebody was taken
    out."""

    number: int
    through: dt.date | None
    published: str
    replaced: bool = False
    first: dt.date | None = None

    @property
    def words(self) -> str:
        """What it shows, for a notice."""
        if not self.published:
            return f"there is no version {self.number}" if self.number else "before version 1"
        if self.replaced:
            others = "; answers about earlier versions do not apply to it"
            day = self.published[:10]
            return f"version {self.number}, published on {day}{others if self.number > 1 else ''}"
        if self.first is not None:
            return f"no day is counted: dp.as_of is before the first one, {self.first}"
        if self.through is None:
            return f"version {self.number} has no day yet"
        return (
            f"days through {self.through} are counted (version {self.number}), later ones not yet"
        )


class Known(Protocol):
    """The versions of a table that are recorded, of the kind that it has."""

    def __call__(self, table: str, kind: type[V]) -> Sequence[V]: ...


Record: TypeAlias = Callable[[VersionRecord], bool]
"""Records a version; False if another process was first."""


def with_versions(policy: Policy) -> dict[str, Table]:
    """The tables whose data changes."""
    return {name: table for name, table in policy.tables.items() if table.has_versions}


def sealed_slices(ledger: Path, key: bytes) -> SealedFiles:
    """What was counted for versions, in a folder beside the ledger."""
    if ledger.name == ":memory:":
        return FilesInMemory()
    return SealedFiles(ledger.with_name(f"{ledger.name}.slices"), key, "slices", _REMEDY)


@dataclass(frozen=True)
class Publishing:
    """Publishes versions of the tables of a policy that grow, over the cells of its ledger. ``key``
    chooses the rows of units."""

    joint: JointSlices
    files: SealedFiles
    key: bytes
    known: Known
    record: Record

    def publish(
        self,
        source: Passed,
        through: dt.date | None,
        now: dt.datetime,
        *,
        only: Collection[str],
        recount: bool = False,
    ) -> dict[str, Version]:
        """Publish the days up to ``through``, by default all that are over, ``only`` of these
        tables; by table the version that is the last one now. If ``recount``, count the days that
        are published once more instead: the custodian vouches that nothing happened to them but
        that all rows of some units were deleted.

        Raises InvalidParameterValue for a day that is not over, or before the last one published;
        SourceError and OutputError. Then the versions before it are the last ones.
        """
        tables = {name: self.joint.policy.tables[name] for name in only}
        for name, table in tables.items():
            if recount:
                _check_recount(name, table)
                self.joint.check_recount(name)
            elif through is not None:
                self._check(name, table, through, now)
        with self.files.locked():
            return {
                name: self._publish(name, table, source, through or table.data.due(now), recount)
                for name, table in tables.items()
            }

    def _check(self, name: str, table: Table, through: dt.date, now: dt.datetime) -> None:
        over = table.data.over(now.date())
        if through > over:
            raise InvalidParameterValue(
                f"{through} is not over for table {name}: its rows may arrive until"
                f" {through + table.data.late * DAY}",
                hint=f"The last day that is over is {over}, in UTC.",
            )
        last = self.last(name)
        if last is not None and last.through is not None and through < last.through:
            raise InvalidParameterValue(
                f"table {name} is published through {last.through} already, and days are never"
                " taken back"
            )

    def _publish(
        self, name: str, table: Table, source: Passed, through: dt.date, recount: bool
    ) -> Version:
        """Publish the days of one table, if any is new or they are to be counted once more."""
        self._tidy(name, table)
        while True:
            last = self.last(name)
            days = _days(table, last, through, recount)
            if last is not None and days.first > days.last:
                self.slices(name, table, 1)  # raises where what is served is missing
                return last
            record = VersionRecord(
                name,
                len(self.known(name, VersionRecord)) + 1,
                str(days.first),
                str(days.last) if days.first <= days.last else "",
                secrets.token_hex(8),
                "",
            )
            if record.through:
                again = recount or not table.privacy_unit.column
                before = [] if again else self.slices(name, table)
                own = self.joint.count(name, source, days, before, self.key)
                first = recount or last is None or last.through is None
                latest = () if first else self.slices(name, table, 1)
                own = own.after(table, latest[-1] if latest else None)
                write_slice(self.files, _file(record), _about(record), own)
            record = record._replace(published=now())
            if self.record(record):
                report("version published", table=name, version=record.number)
                if recount:
                    self._tidy(name, table)
                return self.last(name) or version_of(record)
            self.files.remove(_file(record))

    def _tidy(self, name: str, table: Table) -> None:
        """Remove what was counted by a publication that was killed, or before a recount.

        Raises LedgerError where the folder has later versions than such a publication could have
        left: then the ledger is an older copy."""
        known = self.known(name, VersionRecord)
        check_numbers(self.files, name, "slice", len(known))
        kept = since_recount(known, table)
        self.files.keep(f"{escape(name)}.*.slice*", map(_file, kept))

    def last(self, name: str) -> Version | None:
        known = self.known(name, VersionRecord)
        if not known:
            return None
        days = [one.through for one in known]
        own = version_of(known[days.index(days[-1])])  # those after it were counted once more
        return own._replace(number=len(set(days)))

    def slices(self, name: str, table: Table, last: int = 0) -> list[Slice]:
        """The slices of all days that are published, or of the ``last`` versions alone.

        Raises SourceError.
        """
        known = self.known(name, VersionRecord)[-last:]
        return read_slices(self.files, known, table, self.joint)


def check_numbers(files: SealedFiles, table: str, kind: str, last: int) -> None:
    """Raise LedgerError if there are files of versions after the one that follows the ``last``."""
    found = (
        name.removeprefix(f"{table}.").split(".")
        for name in files.names(f"{escape(table)}.*.{kind}")
    )
    later = [int(parts[0]) for parts in found if parts[0].isdigit() and int(parts[0]) > last + 1]
    if later:
        raise LedgerError(
            f"{files.folder} has the counts of version {max(later)} of table {table}, and the"
            f" ledger knows {last}: it is an older copy, or another ledger",
            hint="Put back the ledger that has this version. If there is none, treat the budget as"
            " spent; then remove this folder.",
        )


def _days(table: Table, last: Version | None, through: dt.date, recount: bool) -> Days:
    """The days to count: those since the ``last`` version, or all that it has; perhaps none."""
    first, end = table.day_range
    if last is None or last.through is None:
        return Days(first, min(through, end))
    if recount:
        return Days(first, last.through)
    return Days(last.through + DAY, min(through, end))


def is_due(table: Table, last: Version | None, now: dt.datetime) -> bool:
    """Whether a version is to be published by ``now``, in UTC: of days that the ``last`` one lacks,
    or of all rows since the time of publication."""
    if not table.grows:
        return last is None or dt.datetime.fromisoformat(last.published) < table.data.time(now)
    days = _days(table, last, table.data.due(now), recount=False)
    return last is None or days.first <= days.last


def has_ended(table: Table, now: dt.datetime) -> bool:
    """Whether days are over that are after a table's range of days."""
    return table.grows and table.data.due(now) > table.day_range[1]


def _check_recount(name: str, table: Table) -> None:
    if table.neighbours == "replace":
        raise InvalidParameterValue(
            f"table {name} cannot be counted once more: where one record is exchanged for another,"
            " none may be deleted"
        )
    if table.data.arrived is None:
        raise InvalidParameterValue(
            f"table {name} cannot be counted once more: it has no column arrived, so rows that came"
            " late would be counted now",
            hint="Begin with another ledger.",
        )


def read_slices(
    files: SealedFiles, known: Sequence[VersionRecord], table: Table, joint: JointSlices
) -> list[Slice]:
    """The slices of these versions, over the ledger's cells; of those since the days were counted
    once more, if they were. Raises SourceError if one is missing or damaged."""
    found: list[Slice] = []
    for record in since_recount(known, table):
        if record.through:
            own = read_slice(files, _file(record), _about(record))
            if own is None:
                raise SourceError(
                    f"slices: {files.folder / _file(record)} is missing: it has the counts of days"
                    f" of table {table.name} that were published",
                    hint=_REMEDY,
                )
            found.append(joint.lifted(table.name, record.number, own))
    return found


def since_recount(known: Sequence[VersionRecord], table: Table) -> Sequence[VersionRecord]:
    """The last versions that count every day once."""
    first = str(table.day_range[0])
    whole = [n for n, one in enumerate(known) if one.since == first]
    return known[whole[-1] :] if whole else known


def _file(record: VersionRecord) -> str:
    return f"{record.table}.{record.number}.{record.snapshot}.slice"


def _about(record: VersionRecord) -> dict[str, str | int]:
    return {"snapshot": record.snapshot, "number": record.number, "through": record.through}


def versions_of(records: Sequence[VersionRecord] | Sequence[ReplacementRecord]) -> list[Version]:
    """The versions that analysts see, oldest first."""
    found: list[Version] = []
    for record in records:
        own = version_of(record)
        if own.replaced or not found or own.through != found[-1].through:
            found.append(own._replace(number=len(found) + 1))
    return found


def version_of(record: VersionRecord | ReplacementRecord) -> Version:
    if isinstance(record, ReplacementRecord):
        return Version(record.number, None, record.published, replaced=True)
    through = dt.date.fromisoformat(record.through) if record.through else None
    return Version(record.number, through, record.published)
