"""Migrations of tables to other declarations, and the joint codes over which a ledger counts since.

A migration leaves what was recorded as it is. It adds the axes of the cells from then on: a cell is
a pair of a code of the present declaration and a cell of before, for every pair that some
conceivable value has. Over these, a row recorded before the migration has in each cell the
coefficient of the cell of before, and 0 where a record was not counted; a row recorded since has
that of the present code. Both are functions of the same records, so losses add up cell by cell
(docs/guarantees.md, "Changed declarations").

Where a migration ``retires`` a table, a unit's counted rows may be others since: answers of before
say nothing about them and are not used. With ``folds``, they may be in any cells: the highest loss
of before then counts for every unit.

Where a version replaces the rows of a table, the cells stay, and the same holds: answers are about
their own version, and the highest loss of before counts for every unit.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from tallyveil.accountant.budgets.account import Account
from tallyveil.accountant.charges import Charge
from tallyveil.accountant.store.ledger_records import (
    MigrationRecord,
    ReplacementRecord,
    TableRecord,
)
from tallyveil.accountant.store.ledger_store import Snapshot
from tallyveil.arrays import IntArray
from tallyveil.cache import kept_with
from tallyveil.policy.domain import JOINT, Attribute, Domain
from tallyveil.workload.refinement import Refinement
from tallyveil.workload.workload import Column, Workload

__all__ = ["NONE", "JointAxis", "Lineage", "Migration", "lineages"]


class JointAxis(NamedTuple):
    """An axis since a migration. ``was`` is its name before, None for an added one. Cell k has the
    code ``new[k]`` of the present attribute and lay in cell ``old[k]``, −1 where a record is or was
    not counted; both are None where nothing changed. A ``hidden`` axis is of a dropped attribute:
    nothing asks for it any more. ``shown`` describes the cells without a present value. ``covers``
    if every conceivable value has a cell."""

    name: str
    was: str | None
    new: tuple[int, ...] | None = None
    old: tuple[int, ...] | None = None
    shown: tuple[str, ...] = ()
    covers: bool = False
    hidden: bool = False

    def domain_axis(self, attributes: Mapping[str, Attribute]) -> Attribute:
        """The axis over which the ledger counts."""
        if self.hidden:
            return Attribute(self.name, JOINT, "VARCHAR", self.shown, covers=True)
        present = attributes[self.name]
        if self.new is None:
            return present
        cells = tuple(
            text if code < 0 else present.cells[code]
            for code, text in zip(self.new, self.shown, strict=True)
        )
        return Attribute(self.name, JOINT, present.sql_type, cells, covers=self.covers)


@dataclass(frozen=True)
class Migration:
    """Of a table: ``before`` are the attributes declared before, as JSON has them. ``ends`` are the
    numbers of the last records before it by kind; ``max_rows`` is that of before, and ``digest``
    that of the data over the cells since then."""

    before: Mapping[str, Any]
    axes: tuple[JointAxis, ...]
    ends: Mapping[str, int]
    max_rows: int
    retires: bool
    folds: bool
    digest: bytes

    @property
    def forgets(self) -> bool:
        """Whether records of estimates, which name rows by digests, are of no use since: unless all
        axes are as they were, and others were only added."""
        kept = [axis for axis in self.axes if axis.was is not None]
        names = [name for name in self.before if any(axis.was == name for axis in kept)]
        same = all(a.old is None and a.name == a.was and not a.hidden for a in kept)
        ordered = [axis.name for axis in kept if axis.name in self.before] == names
        return self.retires or not (same and ordered)

    def text(self) -> str:
        """As the ledger has it."""
        own = {**vars(self), "axes": self.axes, "digest": self.digest.hex()}
        return json.dumps(own, separators=(",", ":"), allow_nan=False)

    @classmethod
    def read(cls, text: str) -> Migration:
        found = json.loads(text)

        def numbers(own: Any) -> tuple[Any, ...] | None:
            return None if own is None else tuple(own)

        axes = tuple(
            JointAxis(name, was, numbers(new), numbers(old), tuple(shown), covers, hidden)
            for name, was, new, old, shown, covers, hidden in found.pop("axes")
        )
        digest = bytes.fromhex(found.pop("digest"))
        return cls(axes=axes, digest=digest, **found)


class Replaced(NamedTuple):
    """A version replaced all rows after this charge and this derivation."""

    charges: int
    derivations: int


@dataclass(frozen=True, eq=False)
class Lineage:
    """A table's migrations, oldest first; ``fingerprint`` and ``declared`` are the present ones.
    ``replaced`` has its versions, if these replace its rows."""

    fingerprint: str
    declared: str
    migrations: tuple[Migration, ...] = ()
    replaced: tuple[Replaced, ...] = ()

    def version(self, charge: int) -> int:
        """The version that the charge of this number is about, from 1; 0 where all rows stay."""
        if not self.replaced:
            return 0
        return bisect_left(self.replaced, charge, key=lambda one: one.charges)

    def derived_version(self, derivation: int) -> int:
        """As `version`, of a derivation."""
        return bisect_left(self.replaced, derivation, key=lambda one: one.derivations)

    def since(self, record: ReplacementRecord) -> Lineage:
        """The lineage with one more version."""
        found = Replaced(record.charges, record.derivations)
        return replace(self, replaced=(*self.replaced, found))

    def _era(self, kind: str, number: int) -> int:
        """How many migrations there were when the record was written."""
        return sum(1 for one in self.migrations if one.ends[kind] < number)

    @kept_with
    def refinement(self, era: int) -> Refinement:
        """From the cells after ``era`` migrations to the present ones."""
        *_, last = self.migrations
        order = tuple(axis.name for axis in last.axes)
        cells, names = dict[str, IntArray](), dict[str, str]()
        for axis in last.axes:
            place: IntArray | None = None
            was: str | None = axis.name
            for one in reversed(self.migrations[era:]):
                own = next(each for each in one.axes if each.name == was)
                if own.old is not None and own.was is not None:
                    old = np.array((*own.old, -1), dtype=np.int64)
                    place = old[:-1] if place is None else old[place]
                was = own.was
                if was is None:
                    break
            if was is None:
                continue
            if place is not None:
                cells[axis.name] = place
            if was != axis.name:
                names[was] = axis.name
        return Refinement(order, cells, names)

    def columns(self, kind: str, number: int, columns: Sequence[Column]) -> tuple[Column, ...]:
        """The columns of the record of this number, over the present cells."""
        era = self._era(kind, number)
        if era == len(self.migrations):
            return tuple(columns)
        refinement = self.refinement(era)
        return tuple(refinement.column(column) for column in columns)

    def charge(self, number: int, charge: Charge) -> Charge:
        """The charge of this number, over the present cells."""
        if self._era("charge", number) == len(self.migrations):
            return charge
        columns = self.columns("charge", number, charge.workload.columns)
        histogram = charge.histogram
        if histogram is not None:
            histogram = replace(histogram, column=columns[0])
        workload = Workload(charge.table, columns)
        return replace(charge, workload=workload, histogram=histogram)

    def retired(self, charge: int) -> bool:
        """Whether the answer to the charge of this number says nothing about the present rows."""
        if not self.migrations:
            return False
        return any(one.retires for one in self.migrations[self._era("charge", charge) :])

    def forgotten(self, derivation: int) -> bool:
        """Whether it is of rows that were named in another way before a migration."""
        return any(one.forgets for one in self.migrations[self._era("derivation", derivation) :])

    def folded(self, before: int, number: int) -> bool:
        """Whether a migration that folds, or another version, came after charge ``before``, and
        before ``number``."""
        if self.version(before) < self.version(number):
            return True
        return any(one.folds and before <= one.ends["charge"] < number for one in self.migrations)

    def account(self, account: Account) -> Account:
        """The account, over the ledger's cells. More rows of a unit may have been counted than now,
        so that their largest number counts for all charges."""
        if account.migrated == len(self.migrations):
            return account
        attributes = {one.name: one for one in account.domain.attributes}
        axes = self.migrations[-1].axes
        return replace(
            account,
            domain=Domain(account.domain.table, tuple(one.domain_axis(attributes) for one in axes)),
            max_rows=max(account.max_rows, *(one.max_rows for one in self.migrations)),
            migrated=len(self.migrations),
        )


NONE: Final = Lineage("", "")


def lineages(view: Snapshot) -> dict[str, Lineage]:
    """The lineage of each table in the ledger."""
    found = {one.name: Lineage(one.fingerprint, one.declared) for one, _ in view.after(TableRecord)}
    for one, _ in view.after(MigrationRecord):
        migrations = (*found[one.table].migrations, Migration.read(one.body))
        found[one.table] = Lineage(one.fingerprint, one.declared, migrations)
    for version, _ in view.after(ReplacementRecord):
        found[version.table] = found[version.table].since(version)
    return found
