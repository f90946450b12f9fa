"""The versions of tables that grow: published one after the other, and followed between statements.

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
import logging
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from tallyveil.accountant import VersionRecord
from tallyveil.cube import (
    Cube,
    Days,
    FilesInMemory,
    Passed,
    SealedFiles,
    Slice,
    count_slice,
    cube_of,
    read_slice,
    write_slice,
)
from tallyveil.errors import InvalidParameterValue, SourceError, TallyveilError
from tallyveil.events import report
from tallyveil.policy import Policy, Table

__all__ = [
    "Publishing", "Version", "Versions", "following_failed", "growing", "sealed_slices",
]  # fmt: skip

_REMEDY: Final = (
    "Restore it from its backup: what was counted of days that are over is counted only once."
)
_DAY: Final = dt.timedelta(days=1)


class Version(NamedTuple):
    """A version of a table: the days up to ``through`` are over, None if none is."""

    number: int
    through: dt.date | None
    published: str

    @property
    def words(self) -> str:
        """What it shows, for a notice."""
        if self.through is None:
            return f"version {self.number} has no day yet"
        return (
            f"days through {self.through} are counted (version {self.number}), later ones not yet"
        )


Known: TypeAlias = Callable[[str], Sequence[VersionRecord]]
"""The versions of a table that are recorded."""
Record: TypeAlias = Callable[[VersionRecord], bool]
"""Records a version; False if another process was first."""


def growing(policy: Policy) -> dict[str, Table]:
    """The tables that grow."""
    return {name: table for name, table in policy.tables.items() if table.grows}


def sealed_slices(ledger: Path, key: bytes) -> SealedFiles:
    """The slices of a ledger, in a folder beside it."""
    if ledger.name == ":memory:":
        return FilesInMemory()
    return SealedFiles(ledger.with_name(f"{ledger.name}.slices"), key, "slices", _REMEDY)


@dataclass(frozen=True)
class Publishing:
    """Publishes versions of a policy's tables that grow. ``key`` chooses the rows of units."""

    policy: Policy
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
        only: Collection[str] | None = None,
        recount: bool = False,
    ) -> dict[str, Version]:
        """Publish the days up to ``through``, by default all that are over; by table the version
        that is the last one now; of all tables that grow, or ``only`` of some. If ``recount``,
        count the days that are published once more instead: the custodian vouches that nothing
        happened to them but that all rows of some units were deleted.

        Raises InvalidParameterValue for a day that is not over, or before the last one published;
        SourceError and OutputError. Then the versions before it are the last ones.
        """
        every = growing(self.policy)
        tables = {name: every[name] for name in (every if only is None else only)}
        for name, table in tables.items():
            if recount:
                _check_recount(name, table)
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
                f" {through + table.data.late * _DAY}",
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
        while True:
            last = self.last(name)
            first, end = _ends(table)
            through = min(through, end)
            if recount and last is not None and last.through is not None:
                through = last.through
            elif last is not None:
                first = first if last.through is None else last.through + _DAY
            self._tidy(name, table)
            if last is not None and through < first:
                return last
            record = VersionRecord(
                name,
                1 if last is None else last.number + 1,
                str(first),
                str(through) if through >= first else "",
                secrets.token_hex(8),
                dt.datetime.now(dt.UTC).isoformat(timespec="microseconds"),
            )
            if record.through:
                again = recount or not table.privacy_unit.column
                before = [] if again else self.slices(name, table)
                days = Days(first, through)
                own = count_slice(self.policy, name, source, days, before, self.key)
                write_slice(self.files, _file(record), _about(record, table), own)
            if self.record(record):
                report("version published", table=name, version=record.number)
                self._tidy(name, table)
                return _version(record)
            self.files.remove(_file(record))

    def _tidy(self, name: str, table: Table) -> None:
        """Remove what was counted by a publication that was killed, or before a recount."""
        kept = _since_recount(self.known(name), table)
        self.files.keep(f"{escape(name)}.*.slice*", map(_file, kept))

    def last(self, name: str) -> Version | None:
        known = self.known(name)
        return _version(known[-1]) if known else None

    def slices(self, name: str, table: Table) -> list[Slice]:
        """The slices of all days that are published. Raises SourceError."""
        return read_slices(self.files, self.known(name), table)


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


def read_slices(files: SealedFiles, known: Sequence[VersionRecord], table: Table) -> list[Slice]:
    """The slices of these versions; of those since the days were counted once more, if they were.
    Raises SourceError if one is missing or damaged."""
    found: list[Slice] = []
    for record in _since_recount(known, table):
        if record.through:
            own = read_slice(files, _file(record), _about(record, table))
            if own is None:
                raise SourceError(
                    f"slices: {files.folder / _file(record)} is missing: it has the counts of days"
                    f" of table {table.name} that were published",
                    hint=_REMEDY,
                )
            found.append(own)
    return found


def _since_recount(known: Sequence[VersionRecord], table: Table) -> Sequence[VersionRecord]:
    """The last versions that count every day once."""
    first = str(_ends(table)[0])
    whole = [n for n, one in enumerate(known) if one.since == first]
    return known[whole[-1] :] if whole else known


def _ends(table: Table) -> tuple[dt.date, dt.date]:
    """The first and the last day of a table that grows."""
    ends: tuple[dt.date, dt.date] = table.days.ends or (dt.date.max, dt.date.min)
    return ends


def _file(record: VersionRecord) -> str:
    return f"{record.table}.{record.number}.{record.snapshot}.slice"


def _about(record: VersionRecord, table: Table) -> dict[str, str | int]:
    return {
        "declaration": table.fingerprint,
        "snapshot": record.snapshot,
        "number": record.number,
        "through": record.through,
    }


def _version(record: VersionRecord) -> Version:
    through = dt.date.fromisoformat(record.through) if record.through else None
    return Version(record.number, through, record.published)


class Followed(NamedTuple):
    """By table the counts of the last version, and all versions, of those that have a new one."""

    cubes: Mapping[str, Cube]
    every: Mapping[str, list[Version]]


@dataclass(eq=False)
class Versions:
    """The versions of ``tables`` that a process knows, and their counts; oldest first in
    ``every``."""

    files: SealedFiles
    tables: Mapping[str, Table]
    every: dict[str, list[Version]] = field(default_factory=dict)
    _cubes: dict[str, Cube] = field(default_factory=dict)

    def read(self, known: Known) -> Followed:
        """Read the versions that were published since; nothing follows from them yet.

        Raises SourceError.
        """
        cubes, every = {}, {}
        for name, table in self.tables.items():
            records = known(name)
            seen = len(self.every.get(name, ()))
            if len(records) > seen:
                fresh = _since_recount(records[seen:], table)
                earlier = self._cubes.get(name) if fresh[0].since > str(_ends(table)[0]) else None
                slices = read_slices(self.files, fresh, table)
                cubes[name] = cube_of(table, slices, earlier)
                every[name] = [_version(one) for one in records]
        return Followed(cubes, every)

    def serve(self, found: Followed) -> None:
        """From now on what was read is served. Its counts must answer already: they answer what was
        planned in an earlier version alike, but not the reverse."""
        self._cubes.update(found.cubes)
        self.every = {**self.every, **found.every}

    def at(self, day: dt.date | None) -> tuple[dict[str, Version], dict[str, tuple[str, dt.date]]]:
        """By table the last version, or the last one through ``day``; and, where it does not show
        all days of its attribute, that attribute and the last day."""
        last, shown = {}, {}
        for name, every in self.every.items():
            days, (first, end) = self.tables[name].days, _ends(self.tables[name])
            own = every[-1]
            if day is not None and (own.through or first) > day:
                own = own._replace(through=day if day >= first else None)
            last[name] = own
            if (own.through or first - _DAY) < end:
                shown[name] = days.name, own.through or first - _DAY
        return last, shown


def following_failed(error: TallyveilError) -> None:
    """Report that a version cannot be read: the one before it goes on being served."""
    report("version not served", level=logging.WARNING, reason=error.message)
