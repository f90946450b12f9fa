"""The decisions of a gate: about what is served now, about other versions, or as of a moment in the
past.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tallyveil.accountant import (
    PUBLISHED,
    Account,
    Accountant,
    LedgerStore,
    Past,
    Records,
    invariants_of,
)
from tallyveil.cube import Cube
from tallyveil.gate.deciding.choice import Choice
from tallyveil.gate.deciding.control import Control
from tallyveil.gate.deciding.decision import Decision
from tallyveil.gate.deciding.other_processes import OtherProcesses
from tallyveil.gate.deciding.statistics import Statistics
from tallyveil.gate.declared.publishing import Published
from tallyveil.gate.declared.ranges import Ranges
from tallyveil.gate.strategies.exact_counts import ExactCounts
from tallyveil.gate.strategies.offer import Limits
from tallyveil.knowledge import Knowledge, StatisticHistory
from tallyveil.policy import Table

__all__ = ["Decisions"]


@dataclass(frozen=True, eq=False)
class Decisions:
    """Makes them from what is recorded of ``tables``, and what is ``published`` exactly."""

    accountant: Accountant
    ledger: LedgerStore
    tables: Mapping[str, Table]
    accounts: Mapping[str, Account]
    published: Mapping[str, Published]

    def first(self, cubes: Mapping[str, Cube], versions: Mapping[str, int]) -> Decision:
        """The decision about these counts, once all that is recorded is read. ``versions`` are of
        the tables whose rows are replaced."""
        totals = {n: p.total for n, p in self.published.items() if p.total is not None}
        choice = Choice(self.tables, self.accounts, Ranges(self.tables, totals))
        every = dict.fromkeys(self.tables, 0) | dict(versions)
        knowledge = self._knowledge(self.accountant, every)
        control = Control(self.accountant, self.tables, knowledge)
        limits = {
            name: Limits(
                self.accounts[name],
                choice,
                self._exact(name, own),
                bool(control.state([name])),
                own.follow,
            )
            for name, own in knowledge.items()
        }
        history = {name: StatisticHistory(self.accountant, name, n) for name, n in every.items()}
        return Decision(
            self.accountant,
            cubes,
            knowledge,
            control,
            limits,
            OtherProcesses(self.accountant),
            Statistics(limits, history),
            versions,
        )

    def replaced(
        self, decision: Decision, cubes: Mapping[str, Cube], versions: Mapping[str, int]
    ) -> Decision:
        """The decision once these versions have replaced the rows of tables, with these counts."""
        own = {name: versions[name] for name in cubes}
        return self._about(
            replace(
                decision,
                cubes={**decision.cubes, **cubes},
                versions={**decision.versions, **own},
            ),
            self.accountant,
            own,
        )

    def until(self, moment: dt.datetime) -> int:
        """The number of the last charge made until a moment."""
        return Past.until(self.accountant, moment)

    def past(self, decision: Decision, until: int | None, versions: Mapping[str, int]) -> Decision:
        """The decision by what the first charges, ``until`` one, had made known of these versions
        of tables, or is known of them now: it buys nothing about these tables."""
        records = self.accountant if until is None else Past(self.accountant, until)
        return self._about(replace(decision, past=frozenset(versions)), records, versions)

    def _about(self, decision: Decision, records: Records, versions: Mapping[str, int]) -> Decision:
        """The decision by the records of these versions of tables."""
        known = self._knowledge(records, versions)
        limits = {n: decision.limits[n]._replace(follow=own.follow) for n, own in known.items()}
        limits = {**decision.limits, **limits}
        history = {name: StatisticHistory(records, name, n) for name, n in versions.items()}
        history = {**decision.statistics.history, **history}
        return replace(
            decision,
            knowledge={**decision.knowledge, **known},
            limits=limits,
            statistics=Statistics(limits, history),
        )

    def _knowledge(self, records: Records, versions: Mapping[str, int]) -> dict[str, Knowledge]:
        """What is known of these tables."""
        found = {}
        for name, number in versions.items():
            planned = bool(self.tables[name].plans)
            found[name] = Knowledge(records, name, version=number, planned=planned)
            exact = self.published.get(name)
            if exact is not None:
                found[name].declare(exact.declared.span, exact.values)
        for known in found.values():
            known.learn()
        return found

    def _exact(self, name: str, knowledge: Knowledge) -> ExactCounts | None:
        exact = self.published.get(name)
        if exact is None:
            return None
        each = invariants_of(self.ledger, name, PUBLISHED)
        controlled = self.tables[name].inference_control is not None
        return ExactCounts(
            exact.declared.span,
            self.accountant.published(name),
            [sql for sql, columns in each for _ in columns],
            exact.sources,
            self.accounts[name],
            self.accountant,
            knowledge.follow,
            "inference control allows independent noise only" if controlled else None,
        )
