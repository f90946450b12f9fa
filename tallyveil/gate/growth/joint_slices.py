"""Slices of tables that grow, where a ledger was migrated to another declaration of them.

What was counted of days that are over is never counted again, so a slice stays as it was sealed:
its codes are those of the ledger's cells of then. Every migration since has for each of these one
cell that follows it, or none (`growing_changes` refuses others). Days that are published later are
counted over the present cells, each record by all of its declarations.

A record is in one cell of the ledger from the day on which it is published, or in none: one that
had no cell then is never counted, even if its value has a cell since. Either way what a release
says of it is at most what the filter adds up for the cell of its values, or for no record, which a
table that grows always allows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tallyveil.accountant import VersionRecord
from tallyveil.accountant.migrations import NONE
from tallyveil.cube import Cube, Days, Passed, Slice, count_slice
from tallyveil.cube.joint.joint_codes import joint_codes
from tallyveil.cube.kept.slices import recoded
from tallyveil.errors import InvalidParameterValue
from tallyveil.gate.declared.joint_tables import JointTables
from tallyveil.policy import Domain, Policy, Table
from tallyveil.rewriter import Absent

__all__ = ["JointSlices"]

_TIED: Final = 200_000  # cells, of the 4,000,000 that a statement may tell apart together


@dataclass(frozen=True)
class JointSlices:
    """Counts and reads slices over the cells of the ledger."""

    tables: JointTables

    @property
    def policy(self) -> Policy:
        return self.tables.policy

    def count(
        self, name: str, source: Passed, days: Days, before: Sequence[Slice], key: bytes
    ) -> Slice:
        """As `count_slice`."""
        own = count_slice(self.tables.widened, name, source, days, before, key)
        if name not in self.tables.lineages:
            return own
        former, counted = self.tables.former(name), self.tables.widened.tables[name]
        held = dict(zip(counted.domain.names, own.codes, strict=True))
        codes = joint_codes(self.policy.tables[name], held, former)
        return recoded(own, codes, range(len(codes)))

    def lifted(self, name: str, number: int, own: Slice) -> Slice:
        """A slice that was counted for the version of this number, over the present cells."""
        lineage = self.tables.lineages.get(name, NONE)
        era = sum(1 for one in lineage.migrations if one.ends["version"] < number)
        if era == len(lineage.migrations):
            return own
        names, refinement = [*lineage.migrations[era].before], lineage.refinement(era)
        was = {since: before for before, since in refinement.names.items()}
        codes, axes = [], []
        for axis in self.policy.tables[name].domain.names:
            axes.append(names.index(was.get(axis, axis)))
            code, coarser = own.codes[axes[-1]].astype(np.int64), refinement.cells.get(axis)
            if coarser is not None:
                follows = np.full(int(coarser.max(initial=0)) + 1, -1, dtype=np.int64)
                cells = np.flatnonzero(coarser >= 0)
                follows[coarser[cells]] = cells
                code = follows[code]
            codes.append(code)
        return recoded(own, codes, axes)

    def outdated(self, name: str) -> int:
        """The last version of a table whose rows are replaced that was counted over other cells
        than the present ones, 0 if none was."""
        migrations = self.tables.lineages.get(name, NONE).migrations
        return max((one.ends["version"] for one in migrations), default=0)

    def check_recount(self, name: str) -> None:
        """Raise InvalidParameterValue if days that are over would be counted with other records
        than they were, since a migration let more of them have a cell, or other columns be read, or
        the source has other labels."""
        table = self.policy.tables[name]
        every = [a for one in self.tables.lineages.get(name, NONE).migrations for a in one.axes]
        newly = [a for a in every if -1 in (a.old or ()) and a.name != table.data.append]
        fewer = [a for a in every if a.hidden and table.privacy_unit.column is not None]
        if newly or fewer or name in self.tables.recoded:
            why = "".join(f" ({axis.name})" for axis in (newly + fewer)[:1])
            raise InvalidParameterValue(
                f"table {name} cannot be counted once more: since its declaration was"
                f" migrated{why}, records may be counted in other cells than they were",
                hint="Begin with another ledger.",
            )

    def absent(self, name: str, records: Sequence[VersionRecord]) -> tuple[Absent, ...]:
        """The cells in which nothing was counted of the first days, since no value had them when
        these were published. A question tells them apart by day, so only attributes with few cells
        are among them, the smallest first: a question may tell others apart besides."""
        lineage, table = self.tables.lineages.get(name, NONE), self.policy.tables[name]
        through = {0: "", **{one.number: one.through for one in records}}
        found, tied = list[Absent](), table.days.size
        visible = self.tables.visible(name) if lineage.migrations else ()
        for axis in sorted(visible, key=lambda axis: table.domain[axis.name].size):
            if axis.name == table.days.name:
                continue
            every = range(table.domain[axis.name].size) if axis.new is None else axis.new
            codes, last = np.array(every), dict[int, str]()
            missing = {*every} - {-1}
            for era, one in enumerate(lineage.migrations):
                before = lineage.refinement(era).cells.get(axis.name)
                missing -= {*(codes if before is None else codes[before >= 0]).tolist()}
                last |= dict.fromkeys(missing, through[one.ends["version"]])
            ends = sorted({*last.values()} - {""})
            tied *= table.domain[axis.name].size if ends else 1
            for day in ends if tied <= _TIED else ():
                cells = tuple(sorted(cell for cell, own in last.items() if own == day))
                last_day = dt.date.fromisoformat(day)
                found.append(Absent(axis.name, cells, table.days.name, last_day))
        return tuple(found)

    def table(self, name: str) -> Table:
        """The table, with the cells of the ledger."""
        table = self.policy.tables[name]
        if name not in self.tables.lineages:
            return table
        present = {one.name: one for one in table.domain.attributes}
        axes = [axis.domain_axis(present) for axis in self.tables.visible(name)]
        return table.model_copy(update={"domain": Domain(name, tuple(axes))})

    def domain(self, name: str, cube: Cube) -> Domain:
        """The domain as it is asked, of which the ``cube`` has counts."""
        if name not in self.tables.lineages:
            return cube.domain
        pairs = zip(self.policy.tables[name].domain.attributes, cube.domain.attributes, strict=True)
        own = (replace(one, truncates=counted.truncates) for one, counted in pairs)
        return Domain(name, tuple(own)).with_joint(self.tables.joint(name))
