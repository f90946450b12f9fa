"""Migration: the ledger of a policy is carried to changed declarations of its tables.

The draft of a migrated ledger is a copy of the ledger with one more record for each table
(`accountant.migrations`). It is opened and priced as any ledger before anything is decided, and
takes the ledger's place in one step. What is not known to be sound is refused.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from sqlglot import exp

from tallyveil.accountant import Account, Accountant, Balance, Ledger, check_tables
from tallyveil.accountant.binding import check_moved
from tallyveil.accountant.changed_declaration import changes
from tallyveil.accountant.migrations import JointAxis, Migration
from tallyveil.accountant.store.ledger_copies import drafted, remove_drafts, swap
from tallyveil.accountant.store.ledger_records import MigrationRecord, now
from tallyveil.cube import Given, Passed, columns_of, connected, load_cubes, relations_read
from tallyveil.errors import InvalidParameterValue, LedgerMismatch, StatementError
from tallyveil.gate.declared.changed_tables import ChangedTable, Recorded, Vouched
from tallyveil.gate.declared.ledger_witness import check_ledger
from tallyveil.gate.gate import Gate, accounts
from tallyveil.policy import Policy, Table
from tallyveil.policy.value_checks import LedgerFile
from tallyveil.rewriter.sql.statement_text import parse_query

__all__ = ["Migrated", "Migrating", "Vouched", "migrating"]


@dataclass(frozen=True)
class Migrated:
    """What a migration does to a table: the keys that ``changed``, the axes over which the ledger
    counts since, what was spent ``before`` and is spent ``after``, and how many ``answers`` and
    records of ``estimates`` are forgotten. Answers are kept unless it ``retires`` them. ``begins``
    are axes on which more has a cell, on days that are not published yet. With ``replaced`` rows it
    ``publishes`` a version, or the last one stays."""

    table: str
    changed: Sequence[str]
    axes: Sequence[JointAxis]
    before: Balance
    after: Balance
    answers: int
    estimates: int
    retires: bool
    folds: bool
    begins: Sequence[str]
    replaced: bool
    publishes: bool


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
    check_ledger(policy)
    remove_drafts(path)
    with ExitStack() as drafts:
        with connected(policy, source) as given:
            draft = drafts.enter_context(drafted(path))
            with closing(Ledger(draft)) as ledger:
                recorded = Recorded(ledger)
            changed = {
                name: ChangedTable(policy, table, recorded, vouched)
                for name, table in policy.tables.items()
                if name in recorded.lineages
                and recorded.lineages[name].fingerprint != table.fingerprint
            }
            for name in vouched.labels.keys() - changed.keys():
                raise InvalidParameterValue(f'no declaration of a table "{name}" has changed')
            reads = relations_read(policy, source)
            with closing(Ledger(draft)) as ledger, ledger.snapshot() as view:
                now_declared = accounts(policy, reads)
                if not changed:
                    check_tables(ledger, view, now_declared)
                elsewhere = [n for n, one in changed.items() if {"url", "from"} & {*one.moved}]
                check_moved(view, now_declared, elsewhere)
            if not changed:
                yield Migrating((), path, draft)
                return
            done = _migrations(policy, changed, recorded, given)

            def balances(tables: Mapping[str, Table]) -> dict[str, Balance]:
                tried = drafts.enter_context(drafted(path, of=draft))
                own = accounts(_with_tables(policy, {**policy.tables, **tables}), reads)
                known = {name: recorded.lineages[name].fingerprint for name in tables}
                return _balances(tried, own, known, changed)

            before = balances({name: one.old for name, one in changed.items()})
            with closing(Ledger(draft)) as ledger, ledger.transaction() as transaction:
                for name, one in done.items():
                    table = policy.tables[name]
                    declared = table.fingerprint, table.declaration()
                    transaction.append(MigrationRecord(name, *declared, one.text(), now()))
            after = balances({})
            if recorded.published & changed.keys():
                # A gate finds out whether what was published follows from what is declared.
                last = drafts.enter_context(drafted(path, of=draft))
                update = {"ledger_file": LedgerFile(last), "cubes": None}
                own = _fixed(policy).model_copy(update=update)
                Gate(own, source, budgets="as given").close()
        each = [_migrated(policy, recorded, *one, before, after) for one in done.items()]
        yield Migrating(each, path, draft)


def _fixed(policy: Policy) -> Policy:
    """The policy without the tables that have versions, and the views over them."""
    left_out = {name for name, one in policy.tables.items() if one.has_versions}
    views = dict(policy.views)
    for name, view in policy.views.items():
        with suppress(StatementError):  # which the gate names
            named = parse_query(view.sql, "postgres").find_all(exp.Table)
            if left_out.intersection(one.name.lower() for one in named):
                left_out.add(name)
                del views[name]
    tables = {name: one for name, one in policy.tables.items() if not one.has_versions}
    return policy.model_copy(update={"tables": tables, "views": views})


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
    recorded: Recorded,
    name: str,
    one: Migration,
    before: Mapping[str, Balance],
    after: Mapping[str, Balance],
) -> Migrated:
    table = policy.tables[name]
    grows = [axis for axis in one.axes if table.grows and -1 in (axis.old or ())]
    return Migrated(
        name,
        changes(recorded.lineages[name].declared, table.declaration()),
        one.axes,
        before[name],
        after[name],
        recorded.answers.count(name),
        recorded.estimates.count(name) if one.forgets else 0,
        one.retires,
        one.folds,
        [axis.was or axis.name for axis in grows if axis.name != table.data.append],
        table.data.replace and recorded.versions.get(name, 0) > 0,
        table.data.replace and one.ends["version"] > 0,
    )


def _with_tables(policy: Policy, tables: Mapping[str, Table]) -> Policy:
    return policy.model_copy(update={"tables": tables})


def _migrations(
    policy: Policy, changed: Mapping[str, ChangedTable], recorded: Recorded, source: Passed
) -> dict[str, Migration]:
    """Raises LedgerMismatch unless the source still holds the rows that the ledger knows."""
    rows, data = recorded.keys
    columns = columns_of(_with_tables(policy, {n: one.new for n, one in changed.items()}), source)
    # What is counted of a version is counted once.
    fixed = {name: one for name, one in changed.items() if not one.new.has_versions}
    old = {name: one.old for name, one in fixed.items()}
    known = load_cubes(_with_tables(policy, old), source, key=rows) if fixed else {}
    for name, cube in known.items():
        if name in recorded.digests:
            found = cube.digest(data)
            if not hmac.compare_digest(found, recorded.digests[name]):
                moved = ", ".join(fixed[name].moved)
                put_back = f"These are other rows: put {moved} back, whatever you vouch for."
                raise LedgerMismatch(
                    f'the source holds other data of table "{name}" than the ledger'
                    f" {policy.ledger} knows",
                    detail="A ledger is migrated with the rows it was made with: counted as they"
                    " were declared before, they must give the same counts.",
                    hint=put_back
                    if moved
                    else "Restore the data, migrate, and change them afterwards. If only labels"
                    " were changed in the source, name each: --recoded"
                    f" {name}.ATTRIBUTE:OLD=NEW.",
                )
    new = {name: one.new for name, one in fixed.items()}
    cubes = load_cubes(_with_tables(policy, new), source, key=rows) if fixed else {}
    return {
        name: one.migration(
            recorded, columns[name], cubes[name].digest(data) if name in cubes else b""
        )
        for name, one in changed.items()
    }
