"""Which versions of tables a process serves: it follows what any process publishes, between
statements.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from tallyveil import deadline
from tallyveil.accountant import ReplacementRecord, VersionRecord
from tallyveil.cache import OBJECT, Cache, key_bytes
from tallyveil.cube import Cube, SealedFiles, cube_of
from tallyveil.errors import LedgerMismatch, SourceError, TallyveilError
from tallyveil.events import report
from tallyveil.gate.deciding.decision import Decision
from tallyveil.gate.deciding.decisions import Decisions
from tallyveil.gate.growth.joint_slices import JointSlices
from tallyveil.gate.growth.publishing import (
    DAY,
    Known,
    Version,
    read_slices,
    since_recount,
    versions_of,
)
from tallyveil.gate.growth.replacing import read_version
from tallyveil.gate.settings.as_of import AsOf
from tallyveil.policy import Table
from tallyveil.rewriter import Absent, Plan, Rewriter

__all__ = ["Edition", "Editions", "Followed", "Shown", "Versions"]

Shown: TypeAlias = Mapping[str, tuple[str, dt.date]]
"""By table that does not show all of its days the attribute of its days, and the last one."""

_EARLIER: Final = 16  # days, moments and versions of which sessions may ask, at a time
_PAST: Final = 4  # of these that have what was known then: as much as what is known now
_PLANS: Final = 1 << 28  # bytes
_FEWER: Final = 16  # times fewer for one of these


class Followed(NamedTuple):
    """By table the counts of the last version, and all versions, of those that have a new one; of
    tables that have ``grown``, or whose rows were ``replaced``."""

    grown: Mapping[str, Cube]
    replaced: Mapping[str, Cube]
    every: Mapping[str, list[Version]]
    records: Mapping[str, int]


@dataclass(eq=False)
class Versions:
    """The versions of ``tables`` that a process knows, and the counts of those that grow, over
    ``joint`` cells; oldest first in ``every``."""

    files: SealedFiles
    tables: Mapping[str, Table]
    joint: JointSlices
    every: Mapping[str, list[Version]] = field(default_factory=dict)
    absent: dict[str, tuple[Absent, ...]] = field(default_factory=dict)
    _records: dict[str, int] = field(default_factory=dict)
    _cubes: dict[str, Cube] = field(default_factory=dict)

    def read(self, known: Known) -> Followed:
        """Read the versions that were published since; nothing follows from them yet.

        Raises SourceError.
        """
        cubes, replaced, every, number = {}, {}, {}, {}
        for name, table in self.tables.items():
            seen = self._records.get(name, 0)
            if not table.grows:
                versions = known(name, ReplacementRecord)
                seen = max(seen, self.joint.outdated(name))
                while len(versions) > seen:
                    seen = len(versions)
                    try:
                        replaced[name] = read_version(self.files, versions[-1], table)
                    except SourceError:
                        # Its file is removed once the next one is published.
                        versions = known(name, ReplacementRecord)
                        if len(versions) == seen:
                            raise
                    every[name], number[name] = versions_of(versions[:seen]), seen
                continue
            records = known(name, VersionRecord)
            if len(records) > seen:
                fresh = since_recount(records[seen:], table)
                whole = fresh[0].since == str(table.day_range[0])
                earlier = None if whole else self._cubes.get(name)
                slices = read_slices(self.files, fresh, table, self.joint)
                cubes[name] = cube_of(self.joint.table(name), slices, earlier)
                if name not in self.absent:  # which later versions do not change
                    self.absent[name] = self.joint.absent(name, records)
                every[name], number[name] = versions_of(records), len(records)
        return Followed(cubes, replaced, every, number)

    @property
    def replaced(self) -> dict[str, int]:
        """The last versions of the tables whose rows are replaced."""
        every = self.every.items()
        return {name: len(own) for name, own in every if not self.tables[name].grows}

    def serve(self, found: Followed) -> None:
        """From now on what was read is served. Its counts must answer already: they answer what was
        planned in an earlier version alike, but not the reverse."""
        self._cubes.update(found.grown)
        self._records.update(found.records)
        self.every = {**self.every, **found.every}

    def at(self, then: AsOf | None) -> tuple[dict[str, Version], Shown]:
        """By table the last version, or what it was ``then``; and what they show."""
        last, shown = {}, {}
        for name, every in self.every.items():
            if not self.tables[name].grows:
                last[name] = _replaced_by(every, then)
                continue
            days, (first, end) = self.tables[name].days, self.tables[name].day_range
            own = every[-1]
            if then is not None and then.number is not None:
                none = Version(then.number, None, "")
                own = every[then.number - 1] if 0 < then.number <= len(every) else none
            if then is not None and then.moment is not None:
                own = _published_by(every, then.moment) or Version(0, None, "")
            day = None if then is None else then.day
            if day is not None and (own.through or first) > day:
                own = own._replace(through=day if day >= first else None)
                own = own if own.through else own._replace(first=first)
            last[name] = own
            if (own.through or first - DAY) < end:
                shown[name] = days.name, own.through or first - DAY
        return last, shown


def _published_by(every: Sequence[Version], moment: dt.datetime) -> Version | None:
    """The last version that was published by a moment."""
    by = [one for one in every if dt.datetime.fromisoformat(one.published) <= moment]
    return by[-1] if by else None


def _replaced_by(every: Sequence[Version], then: AsOf | None) -> Version:
    """The version that is asked about, of a table whose rows are replaced; one that was never
    published has no answers."""
    if then is None:
        return every[-1]
    if then.number is not None and 0 < then.number <= len(every):
        return every[then.number - 1]
    found = None if then.end is None else _published_by(every, then.end)
    return found or Version(then.number or 0, None, "", replaced=True)


@dataclass(frozen=True, eq=False)
class Edition:
    """What follows from the ``versions`` of tables. A statement keeps the edition that it began
    with. ``plans`` and ``descriptions`` are cached by statement."""

    versions: Mapping[str, Version]
    decision: Decision
    rewriter: Rewriter
    plans: Cache[Any]
    descriptions: Cache[Any]


class Editions:
    """The editions that a process serves; ``now`` is the present one. Threads may share it."""

    def __init__(
        self,
        versions: Versions,
        rewriter: Callable[[Shown], Rewriter],
        decisions: Decisions,
        cubes: Mapping[str, Cube],
    ) -> None:
        """``cubes`` are the counts of all tables, as of the last ``versions``."""
        self.versions = versions
        self._rewriter = rewriter
        self._decisions = decisions
        self._decision = decisions.first(cubes, versions.replaced)
        self._following = threading.Lock()
        self._position: Hashable = object()
        self._failed: str | None = None
        self._renew()

    def _renew(self) -> None:
        self.now = self._made(None, _PLANS)
        self._earlier: Cache[Any] = Cache(_EARLIER, _EARLIER, lambda key, value: 1)
        self._past: Cache[Any] = Cache(_PAST, _PAST, lambda key, value: 1)

    def _made(self, then: AsOf | None, size: int) -> Edition:
        caches = (Cache[Any](1024, most, _entry_bytes) for most in (size, size // 4))
        versions, shown = self.versions.at(then)
        decision = self._decision if then is None else self._decided(then, versions)
        return Edition(versions, decision, self._rewriter(shown), *caches)

    def _decided(self, then: AsOf, versions: Mapping[str, Version]) -> Decision:
        """The decision by what was known then, or is known now of these versions."""
        decision, until = self._decision, None
        past = {name: one.number for name, one in versions.items() if one.replaced}
        if then.number is not None:
            past = dict.fromkeys(versions, 0) | past
        if then.moment is not None:
            past, until = (
                dict.fromkeys(decision.knowledge, 0) | past,
                self._decisions.until(then.moment),
            )
        elif then.day is not None:
            past = {name: n for name, n in past.items() if n != decision.versions[name]}
        if not past:
            return decision
        made = partial(self._decisions.past, decision, until, past)
        own: Decision = self._past.get((until, *past.items()), made)
        return own

    def at(self, then: AsOf | None) -> Edition:
        """The present edition, or that of a day, a moment or a version."""
        if then is None:
            return self.now
        own: Edition = self._earlier.get(then, lambda: self._made(then, _PLANS // _FEWER))
        return own

    def advanced(self, edition: Edition, table: str, then: AsOf | None) -> Edition:
        """The edition of ``then`` that is served once a version has replaced the rows of a table
        since the given one. A thread that comes while another reads the version waits for it.

        Raises LedgerMismatch where it cannot be read."""
        with self._following:
            self._follow()
        if self.now.versions[table] == edition.versions[table]:
            raise LedgerMismatch(
                f"another version of table {table} is published, and cannot be read here",
                detail="Nothing was charged.",
                hint="The custodian finds the reason in the server's log. What history knows of the"
                " version before is answered: SET dp.source = history.",
            )
        return self.at(then)

    def follow(self) -> None:
        """Serve the versions that any process has published since, from the next statement on.
        While another thread is reading them, the present ones are served. So they are where one
        cannot be read, which is reported."""
        if not self.versions.tables:
            return
        position = self._decisions.accountant.position()
        unchanged = position is not None and position == self._position
        if unchanged or not self._following.acquire(blocking=False):
            return
        try:
            self._follow()
        finally:
            self._following.release()

    @deadline.unlimited()
    def _follow(self) -> None:
        """To read a version is no work of the statement that happens to begin it."""
        accountant = self._decisions.accountant
        position = accountant.position()
        try:
            found = self.versions.read(accountant.versions)
            if found.every:
                own = self._decision
                own.cubes = {**own.cubes, **found.grown}
                if found.replaced:
                    numbers = {name: len(found.every[name]) for name in found.replaced}
                    self._decision = self._decisions.replaced(own, found.replaced, numbers)
                self.versions.serve(found)
                self._renew()
            self._position, self._failed = position, None
        except TallyveilError as error:
            if error.message != self._failed:
                report("version not served", level=logging.WARNING, reason=error.message)
            self._failed = error.message


def _entry_bytes(key: Hashable, value: object) -> int:
    """The bytes of an entry's larger parts."""
    return key_bytes(key) + (_plan_bytes(value) if isinstance(value, Plan) else 0)


def _plan_bytes(plan: Plan) -> int:
    """The bytes of its columns' entries, its groups' keys and its queries, and the weight of about
    50 objects for each output, here and in other caches that keep them as long."""
    objects = 50 * sum(len(table.outputs) for table in plan.noisy)
    arrays = sum(c.nbytes for workload in plan.workloads.values() for c in workload.columns)
    for one in (one for every in plan.summed.values() for one in every):
        arrays += one.column.nbytes + one.parts.nbytes + one.places.nbytes
    arrays += sum(o.rows.nbytes for t in plan.noisy for o in t.outputs if o.rows is not None)
    arrays += sum(h.column.nbytes for own in plan.histograms.values() for h in own)
    arrays += sum(one.groups.nbytes for table in plan.noisy for one in table.statistics)
    keys = sum(int(table.keys.nbytes) for table in plan.noisy)
    return OBJECT * objects + arrays + keys + sum(len(query) for query in plan.domain_queries)
