"""A table whose declaration has changed, as a ledger knows it and as it is now.

What is not known to be sound to migrate is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tallyveil.accountant import PUBLISHED, Ledger
from tallyveil.accountant.migrations import JointAxis, Migration, lineages
from tallyveil.accountant.store.ledger_records import (
    AnswerRecord,
    ChargeRecord,
    DataRecord,
    DerivationRecord,
    InvariantRecord,
    ReplacementRecord,
    VersionRecord,
)
from tallyveil.errors import FeatureNotSupported, InvalidParameterValue
from tallyveil.gate.declared.former import declared_keys, former, relabelled
from tallyveil.gate.declared.growing_changes import FORMER_LABELS, check_keys, refused
from tallyveil.gate.declared.joint_axes import joint_axes
from tallyveil.gate.declared.replaced_changes import needs_version, replaced_axes
from tallyveil.mechanisms.records.sanitiser import Sanitiser
from tallyveil.policy import Policy, Table

__all__ = ["ChangedTable", "Recorded", "Vouched"]


@dataclass(frozen=True)
class Vouched:
    """What the custodian answers for: ``same_rows``, though they are read from elsewhere, and
    that the source has other ``labels`` for values of attributes, by table and attribute."""

    same_rows: bool = False
    labels: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)


class Recorded:
    """What a ledger has recorded: the last numbers by kind, and by table what matters here."""

    def __init__(self, ledger: Ledger) -> None:
        with ledger.snapshot() as view:
            self.lineages = lineages(view)
            self.ends = {
                "charge": view.end(ChargeRecord).number,
                "derivation": view.end(DerivationRecord).number,
                "invariant": view.end(InvariantRecord).number,
            }
            self.published = {
                one.table for one, _ in view.after(InvariantRecord) if one.event == PUBLISHED
            }
            self.digests = {one.table: one.digest for one, _ in view.after(DataRecord)}
            self.versions = {one.table: one.number for one, _ in view.after(VersionRecord)}
            for one, _ in view.after(ReplacementRecord):
                self.versions[one.table] = one.number
            charged = [(one.table, one.mechanism) for one, _ in view.after(ChargeRecord)]
            self.copied = {table for table, mechanism in charged if mechanism == Sanitiser.name}
            self.answers = [charged[one.charge_id - 1][0] for one, _ in view.after(AnswerRecord)]
            self.estimates = [one.table for one, _ in view.after(DerivationRecord)]
        for table, lineage in self.lineages.items():
            if lineage.migrations:
                self.digests[table] = lineage.migrations[-1].digest
        self.keys = ledger.key("rows"), ledger.key("data")


class ChangedTable:
    """A changed table: ``old`` as the ledger knows it, but read from where it is declared now, with
    the attributes' keys ``before``; and ``new``.

    Raises FeatureNotSupported and LedgerMismatch for what cannot be carried over.
    """

    before: Mapping[str, Any]
    moved: list[str]
    anew: bool
    """Whether a version is to be published, since no rows were counted as they are declared."""

    def __init__(self, policy: Policy, new: Table, recorded: Recorded, vouched: Vouched) -> None:
        self.new, self.lineage = new, recorded.lineages[new.name]
        keys = declared_keys(self.lineage.declared, new.name)
        own = declared_keys(new.declaration(), new.name)
        if new.name in recorded.copied:
            raise self._refused("sanitised copies of it were released", "Leave it as it was.")
        labels = vouched.labels.get(new.name, {})
        self.replaced: tuple[JointAxis, ...] | None = None
        if new.data.replace:
            if new.name in recorded.published:
                raise self._refused("exact counts were published", "Leave it as it was.")
            if labels:
                why = "its rows are replaced by each version, and labels are those of the next"
                raise self._refused(why, "Leave --recoded out.")
            self.before, self.moved = keys["attributes"], self._moved(keys, own)
            self.old = former(new, policy.source, keys)
            self.replaced = replaced_axes(self.old, new, keys, own, self.lineage)
            self.anew = needs_version(keys, own)
            return
        self._check_units(policy, keys, own)
        self._check_neighbours(keys, recorded)
        self.moved = moved = self._moved(keys, own)
        if moved and not vouched.same_rows:
            raise self._refused(
                f"it is read from elsewhere ({', '.join(moved)})",
                "If these are the same rows, vouch for it: --vouch same-rows. If they are other"
                " rows of the same people, put it back: their losses would have to be added up.",
            )
        self._check_labels(keys["attributes"], labels)
        before = dict(relabelled(keys["attributes"], labels))
        for name in before.keys() & own["attributes"].keys():
            column = own["attributes"][name].get("column", name)
            before[name] = {**before[name], "column": column}
        self.before = before
        self.old = former(new, policy.source, {**keys, "attributes": before})
        if new.grows:
            same = former(new, policy.source, keys).fingerprint == self.lineage.fingerprint
        else:
            vouches = bool(moved or labels or vouched.same_rows)
            same = vouches or self.old.fingerprint == self.lineage.fingerprint
        if not same:
            raise self._refused(
                "source.url or from differs in a part that may be a secret",
                "Put it back."
                if new.grows
                else "If these are the same rows, vouch for it: --vouch same-rows.",
            )

    def _refused(self, why: str, hint: str) -> FeatureNotSupported:
        return refused(self.new.name, why, hint)

    def _check_labels(
        self, before: Mapping[str, Any], labels: Mapping[str, Mapping[str, str]]
    ) -> None:
        """``labels`` are those that the source has recoded, by attribute."""
        if labels and self.lineage.migrations:
            raise self._refused("labels change after a migration", "Restore the source's labels.")
        if labels and self.new.privacy_unit.column is not None:
            raise self._refused(
                "labels of a table with a column of units change, by which other rows of a unit"
                " could be chosen",
                FORMER_LABELS
                if self.new.grows
                else "Write the former labels in a SELECT given as the table's from, and migrate"
                " them as what they are then.",
            )
        for attribute, changed in labels.items():
            declared = before.get(attribute, {})
            for label in changed.keys() - {*declared.get("values", ()), declared.get("other")}:
                raise InvalidParameterValue(
                    f'tables.{self.new.name}.attributes.{attribute} had no value "{label}"',
                    hint="--recoded names values as the ledger's declaration has them.",
                )

    def _check_units(self, policy: Policy, keys: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        if self.new.grows:
            check_keys(self.new, keys, own)
        elif "data" in keys or "data" in own:
            raise self._refused("its data is or was not fixed", "Put its declaration back.")
        shared = any(one.head is not None and self.new.name in (one.name, one.head.name)
                     for one in policy.tables.values())  # fmt: skip
        if shared or any("keys" in one or "per_unit" in one for one in (keys, own)):
            raise self._refused("it shares its units with other tables", "Leave it as it was.")
        units = [one["privacy_unit"] for one in (keys, own)]
        columns = [one if one == "row" else one["column"].lower() for one in units]
        if columns[0] != columns[1] or keys.get("count") != own.get("count"):
            raise self._refused(
                "its privacy unit is another one, and past answers were not bounded for it",
                "Put privacy_unit and count back.",
            )

    def _check_neighbours(self, keys: Mapping[str, Any], recorded: Recorded) -> None:
        name = self.new.name
        public = name in recorded.published
        if (keys["neighbours"], self.new.neighbours) == ("replace", "add_remove") and public:
            raise self._refused(
                "exact counts were published, which one row more would change",
                'Put neighbours = "replace" back.',
            )

    def _moved(self, keys: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
        """The keys by which the rows are read from elsewhere."""
        found = [key for key in ("url", "from") if keys[key] != own[key]]
        for name in keys["attributes"].keys() & own["attributes"].keys():
            columns = [one["attributes"][name].get("column", name) for one in (keys, own)]
            if columns[0].lower() != columns[1].lower():
                found.append(f"attributes.{name}.column")
        return found

    def migration(self, recorded: Recorded, columns: Mapping[str, str], digest: bytes) -> Migration:
        """The migration. Which rows of a unit are counted follows from the columns that are read,
        ``max_rows`` and ``earliest_by``; of a table that grows, it is settled of days that are
        over."""
        version = recorded.versions.get(self.new.name, 0)
        if self.replaced is not None:
            ends = {**recorded.ends, "version": version if self.anew else 0}
            rows = self.old.privacy_unit.max_rows
            return Migration(self.before, self.replaced, ends, rows, False, False, digest)
        axes = joint_axes(self.lineage, self.before, self.old, self.new, columns)
        unit, former_unit = self.new.privacy_unit, self.old.privacy_unit
        each = [{one.lower() for one in table.source_columns} for table in (self.old, self.new)]
        ordered = [(one.earliest_by or "").lower() for one in (former_unit, unit)]
        chosen_anew = each[0] != each[1] or ordered[0] != ordered[1]
        folds = unit.column is not None and chosen_anew and not self.new.grows
        retires = folds or unit.max_rows != former_unit.max_rows
        uncounted = any(code < 0 for axis in axes for code in axis.new or ())
        if self.new.exact and uncounted:
            raise self._refused(
                "it has invariants, and rows that were counted would be counted no more",
                "Give the attributes other = true, or nullable = true, so that all rows count.",
            )
        ends = {**recorded.ends, "version": version}
        return Migration(self.before, axes, ends, former_unit.max_rows, retires, folds, digest)
