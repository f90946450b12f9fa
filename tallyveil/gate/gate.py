"""The gate: everything one policy needs, opened together and shared by all sessions."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from tallyveil.accountant import (
    Account,
    Accountant,
    Budgets,
    Ledger,
    Share,
    VersionLog,
    check_tables,
    is_plan,
)
from tallyveil.cube import (
    Cube,
    Given,
    Kept,
    Passed,
    SealedCubes,
    as_read,
    connected,
    load_cubes,
    load_public,
    relations_read,
    with_values,
)
from tallyveil.errors import InsufficientPrivilege, PolicyError, TallyveilError
from tallyveil.gate.deciding.decisions import Decisions
from tallyveil.gate.declared.declaring import declared_invariants
from tallyveil.gate.declared.guarantee import guarantees
from tallyveil.gate.declared.joint_tables import Counted, JointTables
from tallyveil.gate.declared.ledger_witness import check_witness, write_witness
from tallyveil.gate.declared.policy_check import check_mechanisms
from tallyveil.gate.declared.publishing import publish
from tallyveil.gate.growth.editions import Editions, Versions
from tallyveil.gate.growth.joint_slices import JointSlices
from tallyveil.gate.growth.publisher import Publisher
from tallyveil.gate.growth.publishing import sealed_slices, with_versions
from tallyveil.gate.relations.relations import RELATIONS
from tallyveil.gate.session import GateSession
from tallyveil.gate.shared import Shared
from tallyveil.mechanisms.adjacency import Window
from tallyveil.mechanisms.zcdp import rho_for
from tallyveil.policy import Budget, Policy, Table
from tallyveil.rewriter import Dialect, PublicDatabase, Rewriter
from tallyveil.sanitise import read_copies

__all__ = ["STATEMENT_TIMEOUT", "Gate", "accounts", "ledger_of"]

_WITNESSED: Final = 60.0  # seconds between two witnesses of the ledger

STATEMENT_TIMEOUT: Final = 10.0
"""Seconds that a statement may take by default."""


def ledger_of(policy: Policy, secret: bytes | None = None) -> Ledger:
    """Open the policy's ledger, or create it (`Ledger`) unless the policy says that it must exist.

    Raises LedgerError.
    """
    return Ledger(policy.ledger, create=not policy.ledger_file.must_exist, secret=secret)


def accounts(
    policy: Policy, reads: Mapping[str, frozenset[str] | None] = MappingProxyType({})
) -> dict[str, Account]:
    """What the accountant must know of each table. A table may be new to its ledger only if
    ``reads`` has the relations of the source that each table reads, None for any."""
    return {
        name: Account(
            table.cells,
            table.neighbours,
            table.privacy_unit.protected_rows,
            _amount(table.budget),
            table.fingerprint,
            table.whole,
            "epsilon" if table.budget.pure else "rho",
            table.budget.delta,
            None if table.budget.pure else table.budget.epsilon,
            _shares(policy, name),
            table.limits,
            table.beside,
            _together(reads.get(name, frozenset()), reads.get(table.payer, frozenset())),
            table.declaration(),
            None if table.head is None else table.head.name,
            reserved=table.reserved,
            stable=table.data.stable,
            window=_window(table),
        )
        for name, table in policy.tables.items()
    }


def _window(table: Table) -> Window | None:
    unit = table.privacy_unit
    return None if unit.per is None else Window(table.days.name, unit.window)


def _together(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return None if one is None or other is None else one | other


def _shares(policy: Policy, table: str) -> dict[str, Share] | None:
    """The analysts' shares of one table's budget; None if the policy names no analysts."""
    if not policy.analysts:
        return None
    return {
        analyst: Share(_amount(own), None if own.pure else own.epsilon)
        for analyst in policy.analysts
        if (own := policy.share(analyst, table)) is not None
    }


def _amount(budget: Budget) -> Fraction:
    """The budget in its measure: ε, ρ, or the largest ρ that implies (ε, δ)."""
    if budget.rho is not None:
        return budget.rho
    if budget.epsilon is None:
        raise ValueError("a budget is of epsilon or of rho")
    return budget.epsilon if budget.delta is None else rho_for(budget.epsilon, budget.delta)


class Gate(Shared):
    """Opens the ledger, loads the source and answers sessions until it is closed.

    ``source`` is read instead of the policy's source: an open DuckDB connection or a data frame.
    ``secret`` is that of another ledger, so that a new one counts the same rows. ``budgets``: which
    budgets and shares hold.
    Raises PolicyError, LedgerError, LedgerMismatch, SourceError, and TypeError for any other
    ``source``.
    """

    _witnessed: Path | None
    _seen: float

    def __init__(
        self,
        policy: Policy,
        source: Given = None,
        *,
        time_limit: float = STATEMENT_TIMEOUT,
        secret: bytes | None = None,
        budgets: Budgets = "declared",
    ) -> None:
        check_mechanisms(policy)
        with connected(policy, source) as given, ExitStack() as opened:
            self.policy = policy = with_values(policy, given)
            self._ledger = ledger_of(policy, secret)
            opened.callback(self._ledger.close)
            self._budgets, self._witnessed = budgets, None
            counted, reads, keep = self._fixed(policy, source, given)
            self.accounts = accounts(policy, reads)
            versions = self._published_versions(policy, given, counted)
            self._load(policy, given, counted, versions, time_limit, opened)
            keep()
            self.witness()
            opened.pop_all()

    def _fixed(
        self, policy: Policy, source: Given, given: Passed
    ) -> tuple[Counted, Mapping[str, frozenset[str] | None], Callable[[], None]]:
        """The counts of the tables without versions, the relations that all tables read, and what
        keeps the counts, once the ledger is bound to them."""
        fixed = {name: table for name, table in policy.tables.items() if not table.has_versions}
        alone = policy.model_copy(update={"tables": fixed})
        sealed = None
        if policy.cubes is not None and source is None:
            sealed = SealedCubes(policy.cubes, self._ledger.key("cubes"))
            self._witnessed = policy.cubes
        joint = JointTables.of(alone, self._ledger)
        read = joint.widened
        kept = {} if sealed is None else sealed.read_all(read)
        if self._witnessed is not None:
            check_witness(self._witnessed, self._ledger)
        reads = {name: own.reads for name, own in kept.items()}
        if not kept or len(fixed) < len(policy.tables):
            reads = relations_read(policy, source)
        # First, so that a ledger is not bound to what cannot be read, such as a mistyped file.
        cubes = {name: own.cube for name, own in kept.items()}
        if fixed and not cubes:
            cubes = load_cubes(read, given, key=self._ledger.key("rows"))

        def keep() -> None:
            if sealed is not None and not kept:
                for name, cube in cubes.items():
                    sealed.write(read.tables[name], Kept(cube, reads[name]))

        return joint.counted(cubes), reads, keep

    def _published_versions(self, policy: Policy, given: Passed, counted: Counted) -> Versions:
        """The last versions of tables, whose counts are added to those ``counted``. A version is
        published now of a table that has none, or none over the present cells."""
        files = sealed_slices(policy.ledger, self._ledger.key("cubes"))
        joint = JointSlices(JointTables.of(policy, self._ledger))
        versions = Versions(files, with_versions(policy), joint)
        if not versions.tables:
            return versions
        with self._ledger.snapshot() as view:
            check_tables(self._ledger, view, self.accounts)
        if self._witnessed is None and policy.ledger.name != ":memory:":
            self._witnessed = files.folder
            check_witness(self._witnessed, self._ledger)
        log = VersionLog(self._ledger)
        found = versions.read(log.of)
        new = [name for name in versions.tables if name not in found.every]
        if new:
            publisher = Publisher.of(policy, self._ledger, self.accounts, log, files)
            after = {name: joint.outdated(name) for name in new}
            publisher.publish(given, None, dt.datetime.now(dt.UTC), only=new, after=after)
            found = versions.read(log.of)
        versions.serve(found)
        for name, cube in (*found.grown.items(), *found.replaced.items()):
            counted.cubes[name], counted.domains[name] = cube, joint.domain(name, cube)
        return versions

    def _load(
        self,
        policy: Policy,
        source: Passed,
        counted: Counted,
        versions: Versions,
        time_limit: float,
        opened: ExitStack,
    ) -> None:
        public = load_public(policy, source)
        self.accountant = Accountant(self._ledger, self.accounts, self._budgets)
        domains, cubes, self.digests = counted
        for name, digest in self.digests.items():
            self.accountant.remember_data(name, digest)
        self.policy = as_read(policy, domains)
        self.copies = read_copies(policy, public)
        self.database = PublicDatabase(list(domains.values()), public, time_limit=time_limit)
        opened.callback(self.database.close)
        columns = {name: self.database.columns(name) for name in public}
        units = {
            name: (own.column, own.known_rows if own.alone or cubes[name].counts_units else 0)
            for name, table in policy.tables.items()
            if (own := table.privacy_unit).column
        }
        about = columns, policy.view_sql, policy.keys, units, versions.absent
        rewriter = partial(Rewriter, domains, RELATIONS, *about)
        self._publish(cubes, public, rewriter({}))
        tables = self.policy.tables
        decisions = Decisions(self.accountant, self._ledger, tables, self.accounts, self.published)
        self.editions = Editions(versions, rewriter, decisions, cubes)

    def _publish(
        self, cubes: Mapping[str, Cube], public: Mapping[str, pa.Table], rewriter: Rewriter
    ) -> None:
        cursor = self.database.cursor()
        try:
            declared = declared_invariants(self.policy, cubes, public, rewriter, cursor)
        finally:
            cursor.close()
        self.published = publish(self.policy, declared, self.accountant, self._ledger)
        self.guarantees = guarantees(self.policy, self.accounts)

    def redeclare(self, policy: Policy) -> None:
        """Let the budgets and shares of another version of the policy hold, in all processes.

        Raises PolicyError if it declares other tables, or other records in them.
        """
        policy = with_values(policy)
        own = {name: table.fingerprint for name, table in self.policy.tables.items()}
        if {name: table.fingerprint for name, table in policy.tables.items()} != own:
            raise PolicyError("the policy declares other tables than are served")
        self.accountant.declare(accounts(policy))

    def session(
        self, user: str = "", database: str = "", dialect: Dialect = "postgres"
    ) -> GateSession:
        """Raises InsufficientPrivilege for a name that plans have."""
        if is_plan(user):
            raise InsufficientPrivilege(f'"{user}" is the name of a plan, and no user\'s')
        if time.monotonic() - self._seen > _WITNESSED:
            self.witness()
        return GateSession(self, user, database, dialect)

    def witness(self) -> None:
        """Write down how far the ledger has come, so that an older copy of it is noticed."""
        self._seen = time.monotonic()
        if self._witnessed is not None:
            with suppress(TallyveilError):  # what was seen last stays written down
                write_witness(self._witnessed, self.accountant.witness())

    def close(self) -> None:
        self.database.close()
        self.accountant.close()
        self.witness()
        self._ledger.close()
