"""Which versions of tables that grow a process serves: it follows what any process publishes,
between statements.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from tallyveil.accountant import Accountant
from tallyveil.cache import OBJECT, Cache, key_bytes
from tallyveil.cube import Cube, SealedFiles, cube_of
from tallyveil.errors import TallyveilError
from tallyveil.events import report
from tallyveil.gate.deciding.decision import Decision
from tallyveil.gate.growth.publishing import (
    DAY,
    Known,
    Version,
    read_slices,
    since_recount,
    version_of,
)
from tallyveil.policy import Table
from tallyveil.rewriter import Plan, Rewriter

__all__ = ["Edition", "Editions", "Followed", "Shown", "Versions"]

Shown: TypeAlias = Mapping[str, tuple[str, dt.date]]
"""By table that does not show all of its days the attribute of its days, and the last one."""

_DAYS: Final = 16  # for which sessions may ask what was known then, at a time
_PLANS: Final = 1 << 28  # bytes
_FEWER: Final = 16  # times fewer for such a day


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
    every: Mapping[str, list[Version]] = field(default_factory=dict)
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
                fresh = since_recount(records[seen:], table)
                whole = fresh[0].since == str(table.day_range[0])
                earlier = None if whole else self._cubes.get(name)
                cubes[name] = cube_of(table, read_slices(self.files, fresh, table), earlier)
                every[name] = [version_of(one) for one in records]
        return Followed(cubes, every)

    def serve(self, found: Followed) -> None:
        """From now on what was read is served. Its counts must answer already: they answer what was
        planned in an earlier version alike, but not the reverse."""
        self._cubes.update(found.cubes)
        self.every = {**self.every, **found.every}

    def at(self, day: dt.date | None) -> tuple[dict[str, Version], Shown]:
        """By table the last version, or the last one through ``day``; and what they show."""
        last, shown = {}, {}
        for name, every in self.every.items():
            days, (first, end) = self.tables[name].days, self.tables[name].day_range
            own = every[-1]
            if day is not None and (own.through or first) > day:
                own = own._replace(through=day if day >= first else None)
            last[name] = own
            if (own.through or first - DAY) < end:
                shown[name] = days.name, own.through or first - DAY
        return last, shown


@dataclass(frozen=True, eq=False)
class Edition:
    """What follows from the ``versions`` of tables that grow. A statement keeps the edition that it
    began with. ``plans`` and ``descriptions`` are cached by statement."""

    versions: Mapping[str, Version]
    rewriter: Rewriter
    plans: Cache[Any]
    descriptions: Cache[Any]


class Editions:
    """The editions that a process serves; ``now`` is the present one. Threads may share it."""

    def __init__(self, versions: Versions, rewriter: Callable[[Shown], Rewriter]) -> None:
        self.versions = versions
        self._rewriter = rewriter
        self._following = threading.Lock()  # never waited for
        self._position: Hashable = object()
        self._failed: str | None = None
        self._renew()

    def _renew(self) -> None:
        self.now = self._made(None, _PLANS)
        self._earlier: Cache[Any] = Cache(_DAYS, _DAYS, lambda key, value: 1)

    def _made(self, day: dt.date | None, size: int) -> Edition:
        caches = (Cache[Any](1024, most, _entry_bytes) for most in (size, size // 4))
        versions, shown = self.versions.at(day)
        return Edition(versions, self._rewriter(shown), *caches)

    def at(self, day: dt.date | None) -> Edition:
        """The present edition, or that of tables that grow through a day."""
        if day is None or not self.versions.tables:
            return self.now
        own: Edition = self._earlier.get((day,), lambda: self._made(day, _PLANS // _FEWER))
        return own

    def follow(self, accountant: Accountant, decision: Decision) -> None:
        """Serve the versions that any process has published since, from the next statement on.
        While another thread is reading them, the present ones are served. So they are where one
        cannot be read, which is reported."""
        if not self.versions.tables:
            return
        position = accountant.position()
        unchanged = position is not None and position == self._position
        if unchanged or not self._following.acquire(blocking=False):
            return
        try:
            found = self.versions.read(accountant.versions)
            if found.cubes:
                decision.cubes = {**decision.cubes, **found.cubes}
                self.versions.serve(found)
                self._renew()
            self._position, self._failed = position, None
        except TallyveilError as error:
            if error.message != self._failed:
                report("version not served", level=logging.WARNING, reason=error.message)
            self._failed = error.message
        finally:
            self._following.release()


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
