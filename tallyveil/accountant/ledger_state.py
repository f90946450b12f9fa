"""What follows from a ledger: what is spent, how much is recorded, and what was answered."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from typing import Final, NamedTuple

from tallyveil import deadline
from tallyveil.accountant.budgets.account import Account
from tallyveil.accountant.budgets.filters import Filters
from tallyveil.accountant.budgets.pricing import Priced, Pricing
from tallyveil.accountant.budgets.quote import Quote, Recording
from tallyveil.accountant.charges import Charge
from tallyveil.accountant.checkpoint import Arrays, Summary, read_summary
from tallyveil.accountant.declarations import adopt, close_shared, head_declared
from tallyveil.accountant.migrations import NONE, lineages
from tallyveil.accountant.published_counts import published_columns
from tallyveil.accountant.readings import Readings
from tallyveil.accountant.releases import Memory, Noisy, Release
from tallyveil.accountant.store.chain import START, Position
from tallyveil.accountant.store.event_codec import decode_answers, decode_charge
from tallyveil.accountant.store.ledger_records import (
    AnswerRecord,
    BudgetRecord,
    ChargeRecord,
    DerivationRecord,
    R,
    ReplacementRecord,
)
from tallyveil.accountant.store.ledger_store import LedgerStore, Seal, Seen, Snapshot
from tallyveil.workload.workload import Column

__all__ = ["BATCH", "LedgerState", "Unread"]

BATCH: Final = 16  # charges that are worked out while others wait, or read at a time at first
_MANY: Final = 2_000  # covered records that are read at a time, and sealed together

_NOTHING: Final = Summary(START, START, {}, {}, {}, Readings(), {}, {})


class Unread(NamedTuple):
    """Records of the ledger, each with its position."""

    charges: Sequence[tuple[ChargeRecord, Position]] = ()
    answers: Sequence[tuple[AnswerRecord, Position]] = ()
    derivations: Sequence[tuple[DerivationRecord, Position]] = ()
    budgets: Sequence[tuple[BudgetRecord, Position]] = ()
    replacements: Sequence[tuple[ReplacementRecord, Position]] = ()


class _OfAnother(Exception):
    """A summary belongs to another ledger, or lacks a table that was charged."""


class LedgerState:
    """A function of the ledger's records and the accounts, kept up to date with what any process
    appends. Used under the accountant's lock.

    Records that a summary covers are not composed again, and are decoded only when used: the chain
    shows that they are unchanged.
    """

    def __init__(
        self, ledger: LedgerStore, accounts: dict[str, Account], budgets: Position
    ) -> None:
        """Budgets and shares recorded after ``budgets`` are set in ``accounts``.

        Raises LedgerMismatch for a charge that has no cost in the measure of its budget, and
        LedgerError for one that cannot be accounted for."""
        self._ledger = ledger
        self._accounts = accounts
        self.pricing = Pricing(accounts)
        self._budgets = budgets
        with ledger.snapshot() as view:
            every = [stored for stored, _ in view.after(BudgetRecord)]
            self._lineages = lineages(view)
            self._replacements = view.end(ReplacementRecord)
        self._heads = {stored.table: head_declared(stored.declared) for stored in every}
        try:
            self._open(read_summary(ledger.checkpoint(), accounts) or _NOTHING)
        except _OfAnother:
            self._open(_NOTHING)
        self._covered = _NOTHING

    def _open(self, summary: Summary) -> None:
        """Read the whole ledger, using the summary for the records it covers.

        Raises _OfAnother if the summary is not of this ledger.
        """
        self._covered = summary
        unused = Filters.unused(self._accounts)
        meters = {**unused.meters, **summary.meters}
        self.filters = Filters(unused.accounts, meters, summary.as_asked)
        self.readings = summary.readings.copy()
        self.memory = Memory()
        self.recording = Recording(self._accounts)
        for (table, analyst), amount in summary.amounts.items():
            self.recording.add(table, analyst, amount)
        self._charges = self._answers = self._derivations = START
        self._version: int | None = None
        self._summarised = summary.charges.number
        self.events_read = 0
        """How many charges and answers were read from the ledger."""
        self.derived = {
            table: own
            for table, own in summary.derived.items()
            if self._lineages.get(table, NONE).version(summary.charges.number)
            == self.version(table)
        }
        """For each table what other rooms derived from its first releases, until they fetch it."""
        self._seals = dict(summary.seals)
        self._worked_out = dict.fromkeys(self._accounts, summary.charges.number)
        self._replay()

    # Reading

    def refresh(self) -> None:
        """Read what other processes have appended. It is worked out between the ledger's
        transactions, so that they can go on."""
        if not self.is_current:
            with self._ledger.snapshot() as view:
                unread, version = self.unread(view), view.version
            self.read(unread)
            self._version = version

    @property
    def is_current(self) -> bool:
        return self._version is not None and self._ledger.version() == self._version

    def settled(self, version: int | None) -> None:
        """Note that the state includes everything up to this version of the ledger, if it is
        known."""
        self._version = version

    @property
    def seen(self) -> Seen:
        return Seen(self._charges.number, self._answers.number)

    @contextmanager
    def reading(self) -> Iterator[Snapshot]:
        """Hold a snapshot of the ledger, with everything in it read."""
        self.refresh()
        with self._ledger.snapshot() as view:
            self.read(self.unread(view))
            self._version = view.version
            yield view

    def plan(
        self, priced: Sequence[Priced], analyst: str, custodian: bool
    ) -> tuple[Quote, list[Filters]]:
        """The quote, and the filters as they would be after each charge.

        Raises what `Recording.check` raises."""
        steps = [self.filters]
        for one in priced:
            steps.append(one.after(steps[-1], analyst))
        losses = [(one.charge.table, one.loss) for one in priced]
        quote = self.filters.quote(steps[-1], losses, analyst, custodian=custodian)
        if quote.refused is None:
            asked = [(one.charge.table, one.amount) for one in priced]
            self.recording.check(quote, asked, analyst)
        return quote, steps[1:]

    @property
    def going_on(self) -> dict[int, Charge]:
        """Charges read from the ledger that some process is still answering or reporting."""
        known = self.memory.elsewhere
        self.memory.elsewhere = {n: one for n, one in known.items() if self._ledger.is_held(n)}
        return self.memory.elsewhere

    def published(self, table: str) -> tuple[Column, ...]:
        """The columns of all published counts of a table, by which charges are priced from now
        on."""
        with self._ledger.snapshot() as view:
            found = self.pricing.published[table] = published_columns(view, table)
        return found

    def charged(
        self,
        ends: Sequence[Position],
        priced: Sequence[Priced],
        analyst: str,
        steps: Sequence[Filters],
    ) -> None:
        """Note that the charges appended are durable."""
        for end, one, filters in zip(ends, priced, steps, strict=True):
            self._admit(end.number, one.charge, filters)
            self.recording.add(one.charge.table, analyst, one.amount)
            self._charges = end

    def answered(self, noisy: Mapping[int, Noisy], end: Position) -> None:
        """Note that the answers appended are durable."""
        for number, values in noisy.items():
            self.memory.learn(number, values)
        self._answers = end

    # Summaries

    @property
    def unsummarised(self) -> int:
        """How many charges the last summary does not cover."""
        return self._charges.number - self._summarised

    def summary(self, least: int, derived: Mapping[str, Arrays]) -> Summary | None:
        """A summary of everything read. None if the last lacks fewer than ``least`` charges."""
        if self.unsummarised < least:
            return None
        self._summarised = self._charges.number
        readings = self.readings.copy()
        ends, spent = (self._charges, self._answers), (self.filters.meters, self.filters.as_asked)
        amounts = dict(self.recording.amounts)
        derived = {**self.derived, **derived}
        return Summary(*ends, *spent, amounts, readings, derived, dict(self._seals))

    def sealing(self, view: Snapshot) -> Callable[[], None] | None:
        """Take some more of the records read; None if none is left. What is returned seals them for
        the next summary, and needs no lock."""
        for kind, read in ((ChargeRecord, self._charges), (AnswerRecord, self._answers)):
            seen = START
            while (found := self._seals.get((kind.__name__, seen))) is not None:
                seen = found.end
            if read.number - seen.number >= _MANY:
                seal = view.seal(kind, seen, _MANY)
                if seal is not None:
                    return partial(self._sealed, (kind.__name__, seen), seal)
        return None

    def _sealed(self, of: tuple[str, Position], seal: Callable[[], Seal]) -> None:
        self._seals[of] = seal()

    def _replay(self) -> None:
        """Read the ledger in transactions short enough for other processes to write in between."""
        for table in self._accounts:
            self.published(table)
        # None of the many objects made from a summary is garbage: to look for it takes a third
        # longer. What is worked out anew leaves some.
        collecting = gc.isenabled() and self._covered is not _NOTHING
        if collecting:
            gc.disable()
        try:
            self._replay_all()
        finally:
            if collecting:
                gc.enable()
        self.refresh()
        for table in self._accounts:
            self._fold(table, self._charges.number + 1)

    def _replay_all(self) -> None:
        charges, answers = self._covered.charges, self._covered.answers
        for answering in (False, True):
            before = None
            while before != (self._charges, self._answers):
                before = self._charges, self._answers
                with self._ledger.snapshot() as view:
                    if answering:
                        unread = self.unread(view, -1, _portion(self._answers, answers))
                    else:
                        unread = self.unread(view, _portion(self._charges, charges), 0)
                self.read(unread)
                for seen, end in ((self._charges, charges), (self._answers, answers)):
                    if seen.number == end.number and seen != end:
                        raise _OfAnother
        if self._charges.number < charges.number or self._answers.number < answers.number:
            raise _OfAnother

    def unread(self, view: Snapshot, charges: int = -1, answers: int = -1) -> Unread:
        """What a view has beyond the state. ``charges`` and ``answers`` limit how many are read, if
        given: answers only once no charge is left. Derivations are read with all answers, which
        they use."""

        def read(kind: type[R], seen: Position, most: int) -> list[tuple[R, Position]]:
            seal = self._seals.get((kind.__name__, seen)) if most == _MANY else None
            return list(view.after(kind, seen, most, seal))

        return Unread(
            read(ChargeRecord, self._charges, charges),
            read(AnswerRecord, self._answers, answers),
            list(view.after(DerivationRecord, self._derivations)) if answers < 0 else [],
            list(view.after(BudgetRecord, self._budgets)),
            list(view.after(ReplacementRecord, self._replacements)),
        )

    @deadline.taking(None)
    def read(self, unread: Unread) -> None:
        """Bring the state up to date.

        A statement can be stopped between two charges. It waits for no turn, since others wait for
        this.

        Raises what `deadline.check` raises.
        """
        for budget, position in unread.budgets:
            adopt(self._accounts, budget, self.filters.meters)
            self._heads[budget.table] = head_declared(budget.declared)
            self._budgets = position
        for version, position in unread.replacements:
            self._lineages[version.table] = self._lineages.get(version.table, NONE).since(version)
            self._replacements = position
        covered = self._covered
        for stored, position in unread.charges:
            if stored.table not in self._accounts:
                close_shared(self._accounts, stored.table, self._heads)
            else:
                if position.number > covered.charges.number:
                    deadline.check()
                    self._work_out(position.number, stored)
                elif (stored.table, None) in covered.meters:
                    lineage = self._lineages[stored.table]
                    if not lineage.retired(position.number):
                        self.memory.expect(Release.of(position.number, stored, lineage))
                else:
                    raise _OfAnother
                self.events_read += 1
            self._charges = position
        for version, _ in unread.replacements:
            if version.table in self._accounts:
                self._fold(version.table, self._charges.number + 1)
        for answer, position in unread.answers:
            awaited = self.memory.asked.get(answer.charge_id)
            if awaited is not None:
                noisy: Noisy | bytes = answer.noisy
                if position.number > covered.answers.number:
                    noisy = decode_answers(answer.noisy, awaited.decoded().heights)
                self.memory.learn(answer.charge_id, noisy)
                self.events_read += 1
            self._answers = position
        for derivation, position in unread.derivations:
            table = derivation.table
            lineage = self._lineages.get(table, NONE)
            if table in self._accounts and not lineage.forgotten(position.number):
                self.memory.derive(derivation, lineage.derived_version(position.number))
            self._derivations = position

    def charge(self, number: int, stored: ChargeRecord) -> Charge:
        """A charge in the ledger, over the present cells. If it is a translate by counts that
        others have published since, it can be priced afterwards."""
        charge = decode_charge(stored.table, stored.mechanism, stored.columns)
        charge = self._lineages[stored.table].charge(number, charge)
        known = sum(column.height for column in self.pricing.published.get(stored.table, ()))
        if any(one is not None and (one.declared >= known).any() for one in charge.translates):
            self.published(stored.table)
        return charge

    def version(self, table: str) -> int:
        """The last version of a table whose rows are replaced, otherwise 0."""
        return len(self._lineages.get(table, NONE).replaced)

    def folded(self, filters: Filters, table: str, before: int, number: int) -> Filters:
        """The filters after charge ``before``, as of charge ``number``: folded where a migration
        in between says so."""
        return filters.folded(table) if self._lineages[table].folded(before, number) else filters

    def _fold(self, table: str, number: int) -> None:
        """Fold what was charged of the table, if it is to be before charge ``number``. To fold
        twice, with nothing charged in between, changes nothing: so it does not matter whether a
        summary was written before or after."""
        self.filters = self.folded(self.filters, table, self._worked_out[table], number)
        self._worked_out[table] = number

    def _work_out(self, number: int, stored: ChargeRecord) -> None:
        self._fold(stored.table, number)
        priced = self.pricing.recorded(number, stored, self.charge(number, stored))
        # A copy, since the price is cached with the charge object itself.
        charge = copy(priced.charge)
        after = priced.after(self.filters, stored.analyst)
        if self._ledger.is_held(number):
            self.memory.elsewhere = self.going_on | {number: charge}
        # From here on nothing fails: the charge would be counted again.
        self._admit(number, charge, after)
        self.recording.add(stored.table, stored.analyst, priced.amount)

    def _admit(self, number: int, charge: Charge, filters: Filters) -> None:
        """Add a charge, the filters after it, and the odometer's reading of its table."""
        self._worked_out[charge.table] = number
        lineage = self._lineages.get(charge.table, NONE)
        if not lineage.retired(number):
            self.memory.expect(Release(number, charge.table, charge.mechanism, charge, lineage))
        self.filters = filters
        self.readings.add(number, filters.spent(charge.table), filters.exact(charge.table))


def _portion(seen: Position, covered: Position) -> int:
    """The number of records to read at a time; covered and uncovered ones are never mixed."""
    left = covered.number - seen.number
    return min(_MANY, left) if left > 0 else BATCH
