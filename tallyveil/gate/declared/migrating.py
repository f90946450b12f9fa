"""Migration: the ledger of a policy is carried to changed declarations of its tables.

The draft of a migrated ledger is a copy of the ledger with one more record for each table
(`accountant.migrations`). It is opened and priced as any ledger before anything is decided, and
takes the ledger's place in one step. What is not known to be sound is refused.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tallyveil.accountant import PUBLISHED, Account, Accountant, Balance, Ledger
from tallyveil.accountant.changed_declaration import changes
from tallyveil.accountant.migrations import JointAxis, Migration, lineages
from tallyveil.accountant.store.ledger_copies import drafted, swap
from tallyveil.accountant.store.ledger_records import (
    AnswerRecord,
    ChargeRecord,
    DataRecord,
    DerivationRecord,
    InvariantRecord,
    MigrationRecord,
    now,
)
from tallyveil.cube import Given, Passed, columns_of, connected, load_cubes, relations_read
from tallyveil.errors import FeatureNotSupported, InvalidParameterValue, LedgerMismatch
from tallyveil.gate.declared.former import declared_keys, former, relabelled
from tallyveil.gate.declared.joint_axes import joint_axes
from tallyveil.gate.gate import Gate, accounts
from tallyveil.mechanisms.records.sanitiser import Sanitiser
from tallyveil.policy import Policy, Table
from tallyveil.policy.value_checks import LedgerFile

__all__ = ["Migrated", "Migrating", "Vouched", "migrating"]


@dataclass(frozen=True)
class Vouched:
    """What the custodian answers for: ``same_rows``, though they are read from elsewhere, and
    that the source has other ``labels`` for values of attributes, by table and attribute."""

    same_rows: bool = False
    labels: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Migrated:
    """What a migration does to a table: the keys that ``changed``, the axes over which the ledger
    counts since, what was spent ``before`` and is spent ``after``, and how many ``answers`` and
    records of ``estimates`` are forgotten. Answers are kept unless it ``retires`` them."""

    table: str
    changed: Sequence[str]
    axes: Sequence[JointAxis]
    before: Balance
    after: Balance
    answers: int
    estimates: int
    retires: bool
    folds: bool


class _Recorded:
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
            charged = [(one.table, one.mechanism) for one, _ in view.after(ChargeRecord)]
            self.copied = {table for table, mechanism in charged if mechanism == Sanitiser.name}
            self.answers = [charged[one.charge_id - 1][0] for one, _ in view.after(AnswerRecord)]
            self.estimates = [one.table for one, _ in view.after(DerivationRecord)]
        for table, lineage in self.lineages.items():
            if lineage.migrations:
                self.digests[table] = lineage.migrations[-1].digest
        self.keys = ledger.key("rows"), ledger.key("data")


@dataclass(frozen=True)
class Migrating:
    """A migration that is prepared: what it does to ``tables``, none if nothing has changed."""

    tables: Sequence[Migrated]
    path: Path
    draft: Path

    def apply(self) -> Path:
        """Do it; return the name by which the former ledger is kept. Raises LedgerError."""
        kept = self.path.with_name(f"{self.path.name}.{datetime.now(UTC):%Y%m%dT%H%M%S.%f}")
        swap(self.path, self.draft, kept)
        return kept


@contextmanager
def migrating(
    policy: Policy, source: Given = None, vouched: Vouched | None = None
) -> Iterator[Migrating]:
    """Prepare the migration of the policy's ledger to its declarations.

    Raises PolicyError, SourceError, LedgerError, LedgerMismatch, and FeatureNotSupported for a
    change that cannot be carried over.
    """
    path, vouched = policy.ledger, vouched or Vouched()
    drafts = list[Path]()
    try:
        with connected(policy, source) as given:
            drafts.append(drafted(path))
            draft = drafts[0]
            with closing(Ledger(draft)) as ledger:
                recorded = _Recorded(ledger)
            changed = {
                name: _Change(policy, table, recorded, vouched)
                for name, table in policy.tables.items()
                if name in recorded.lineages
                and recorded.lineages[name].fingerprint != table.fingerprint
            }
            for name in vouched.labels.keys() - changed.keys():
                raise InvalidParameterValue(f'no declaration of a table "{name}" has changed')
            if not changed:
                yield Migrating((), path, draft)
                return
            done = _migrations(policy, changed, recorded, given)
            reads = relations_read(policy, source)

            def balances(tables: Mapping[str, Table]) -> dict[str, Balance]:
                drafts.append(drafted(draft))
                own = accounts(_with_tables(policy, {**policy.tables, **tables}), reads)
                known = {name: recorded.lineages[name].fingerprint for name in tables}
                return _balances(drafts[-1], own, known, changed)

            before = balances({name: one.old for name, one in changed.items()})
            with closing(Ledger(draft)) as ledger, ledger.transaction() as transaction:
                for name, one in done.items():
                    table = policy.tables[name]
                    declared = table.fingerprint, table.declaration()
                    transaction.append(MigrationRecord(name, *declared, one.text(), now()))
            after = balances({})
            if recorded.published & changed.keys():
                # A gate finds out whether what was published follows from what is declared.
                elsewhere: dict[str, Any] = {"ledger_file": LedgerFile(drafts[-1]), "cubes": None}
                fixed = {name: one for name, one in policy.tables.items() if not one.grows}
                elsewhere["tables"] = fixed
                Gate(policy.model_copy(update=elsewhere), source, budgets="as given").close()
        each = [_migrated(policy, recorded, *one, before, after) for one in done.items()]
        yield Migrating(each, path, draft)
    finally:
        for file in drafts:
            for ending in ("", "-journal", "-summary"):
                file.with_name(f"{file.name}{ending}").unlink(missing_ok=True)


def _balances(
    draft: Path, own: dict[str, Account], known: Mapping[str, str], names: Iterable[str]
) -> dict[str, Balance]:
    """What the draft says was spent, if the tables ``known`` were declared as their fingerprints
    say."""
    for name, fingerprint in known.items():
        own[name] = replace(own[name], fingerprint=fingerprint)
    with closing(Ledger(draft)) as ledger:
        accountant = Accountant(ledger, own, "as given")
        return {name: accountant.balance(name) for name in names}


def _migrated(
    policy: Policy,
    recorded: _Recorded,
    name: str,
    one: Migration,
    before: Mapping[str, Balance],
    after: Mapping[str, Balance],
) -> Migrated:
    declared = policy.tables[name].declaration()
    return Migrated(
        name,
        changes(recorded.lineages[name].declared, declared),
        one.axes,
        before[name],
        after[name],
        recorded.answers.count(name),
        recorded.estimates.count(name) if one.forgets else 0,
        one.retires,
        one.folds,
    )


def _with_tables(policy: Policy, tables: Mapping[str, Table]) -> Policy:
    return policy.model_copy(update={"tables": tables})


class _Change:
    """A changed table: ``old`` as the ledger knows it, but read from where it is declared now, with
    the attributes' keys ``before``; and ``new``.

    Raises FeatureNotSupported and LedgerMismatch for what cannot be carried over.
    """

    def __init__(self, policy: Policy, new: Table, recorded: _Recorded, vouched: Vouched) -> None:
        self.new, self.lineage = new, recorded.lineages[new.name]
        self._place = f"tables.{new.name}"
        keys = declared_keys(self.lineage.declared, new.name)
        own = declared_keys(new.declaration(), new.name)
        self._check_units(policy, keys, own)
        self._check_neighbours(keys, recorded)
        if new.name in recorded.copied:
            raise self._refused("sanitised copies of it were released", "Leave it as it was.")
        labels = vouched.labels.get(new.name, {})
        moved = self._moved(keys, own)
        if moved and not vouched.same_rows:
            raise self._refused(
                f"it is read from elsewhere ({', '.join(moved)})",
                "If these are the same rows, vouch for it: --vouch same-rows. If they are other"
                " rows of the same people, put it back: their losses would have to be added up.",
            )
        before = dict(keys["attributes"])
        if labels and self.lineage.migrations:
            raise self._refused("labels change after a migration", "Restore the source's labels.")
        if labels and new.privacy_unit.column is not None:
            raise self._refused(
                "labels of a table with a column of units change, by which other rows of a unit"
                " could be chosen",
                "Write the former labels in a SELECT given as the table's from, and migrate them as"
                " what they are then.",
            )
        for attribute, changed in labels.items():
            declared = before.get(attribute, {})
            for label in changed.keys() - {*declared.get("values", ()), declared.get("other")}:
                raise InvalidParameterValue(
                    f'{self._place}.attributes.{attribute} had no value "{label}"',
                    hint="--recoded names values as the ledger's declaration has them.",
                )
        before = dict(relabelled(before, labels))
        for name in before.keys() & own["attributes"].keys():
            column = own["attributes"][name].get("column", name)
            before[name] = {**before[name], "column": column}
        self.before: Mapping[str, Any] = before
        self.old = former(new, policy.source, {**keys, "attributes": before})
        if not (moved or labels) and self.old.fingerprint != self.lineage.fingerprint:
            raise self._refused(
                "source.url or from differs in a part that may be a secret",
                "If these are the same rows, vouch for it: --vouch same-rows.",
            )

    def _refused(self, why: str, hint: str) -> FeatureNotSupported:
        return FeatureNotSupported(
            f"{self._place} cannot be migrated: {why}",
            hint=f"{hint} A new ledger file would begin with the whole budget.",
        )

    def _check_units(self, policy: Policy, keys: Mapping[str, Any], own: Mapping[str, Any]) -> None:
        if self.new.grows or "data" in keys:
            raise self._refused(
                "its data grow, and the days that were counted are kept as they were declared",
                "Put its declaration back.",
            )
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

    def _check_neighbours(self, keys: Mapping[str, Any], recorded: _Recorded) -> None:
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

    def migration(
        self, recorded: _Recorded, columns: Mapping[str, str], digest: bytes
    ) -> Migration:
        """The migration. Which rows of a unit are counted follows from the columns that are read,
        and from ``max_rows``."""
        axes = joint_axes(self.lineage, self.before, self.old, self.new, columns)
        unit, former_unit = self.new.privacy_unit, self.old.privacy_unit
        each = [{one.lower() for one in table.source_columns} for table in (self.old, self.new)]
        folds = unit.column is not None and each[0] != each[1]
        retires = folds or unit.max_rows != former_unit.max_rows
        uncounted = any(code < 0 for axis in axes for code in axis.new or ())
        if self.new.exact and uncounted:
            raise self._refused(
                "it has invariants, and rows that were counted would be counted no more",
                "Give the attributes other = true, or nullable = true, so that all rows count.",
            )
        return Migration(
            self.before, axes, recorded.ends, former_unit.max_rows, retires, folds, digest
        )


def _migrations(
    policy: Policy, changed: Mapping[str, _Change], recorded: _Recorded, source: Passed
) -> dict[str, Migration]:
    """Raises LedgerMismatch unless the source still holds the rows that the ledger knows."""
    rows, data = recorded.keys
    old = {name: one.old for name, one in changed.items()}
    new = {name: one.new for name, one in changed.items()}
    columns = columns_of(_with_tables(policy, new), source)
    known = load_cubes(_with_tables(policy, old), source, key=rows)
    for name, cube in known.items():
        if name in recorded.digests:
            found = cube.digest(data)
            if not hmac.compare_digest(found, recorded.digests[name]):
                raise LedgerMismatch(
                    f'the source holds other data of table "{name}" than the ledger'
                    f" {policy.ledger} knows",
                    detail="A ledger is migrated with the rows it was made with: counted as they"
                    " were declared before, they must give the same counts.",
                    hint="Restore the data, migrate, and change them afterwards. If only labels"
                    " were changed in the source, name each: --recoded"
                    f" {name}.ATTRIBUTE:OLD=NEW.",
                )
    cubes = load_cubes(_with_tables(policy, new), source, key=rows)
    return {
        name: one.migration(recorded, columns[name], cubes[name].digest(data))
        for name, one in changed.items()
    }
