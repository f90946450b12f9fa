"""The accountant: what a charge costs, whether it is allowed, and what was answered before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from tallyveil import deadline
from tallyveil.accountant.background import Background, rest
from tallyveil.accountant.binding import bind, remember_data
from tallyveil.accountant.budget_reports import BudgetReports
from tallyveil.accountant.budgets.account import Account
from tallyveil.accountant.budgets.quote import Quote
from tallyveil.accountant.charges import Charge
from tallyveil.accountant.checkpoint import Arrays, write_summary
from tallyveil.accountant.declarations import budgets_end, declare
from tallyveil.accountant.derivation import Derivation, encode_derivation
from tallyveil.accountant.ledger_state import LedgerState
from tallyveil.accountant.ledger_writer import LedgerWriter, append_answers
from tallyveil.accountant.migrations import lineages
from tallyveil.accountant.published_counts import DECLARED, PUBLISHED, write_invariants
from tallyveil.accountant.releases import Of
from tallyveil.accountant.sale import Draw, Sale, Selling, check_heights
from tallyveil.accountant.store.chain import START
from tallyveil.accountant.store.event_codec import encode_answers
from tallyveil.accountant.store.ledger_records import (
    AnswerRecord,
    ReplacementRecord,
    VersionRecord,
)
from tallyveil.accountant.store.ledger_store import LedgerStore, Seen
from tallyveil.accountant.versions import V, VersionLog, publish_replacement, publish_version
from tallyveil.boundary import Receipt, issue_receipt
from tallyveil.errors import LedgerError, TallyveilError
from tallyveil.workload.workload import Column, Workload

__all__ = ["Accountant", "Budgets"]

Budgets: TypeAlias = Literal["declared", "recorded", "as given"]
"""Which budgets and shares hold: those of the accounts, which are recorded for all processes; the
last ones recorded; or those of the accounts, for a report, without a record."""

_LONG: Final = 1_000  # charges that a summary may lack: composing them takes half a second
_PART: Final = 100  # of a long ledger it may lack one charge in this number


class Accountant(BudgetReports):
    """Keeps the budgets of the tables in ``accounts`` by ``ledger``, and the analysts' shares of
    them. Threads may share it.

    It reads what other processes appended to the ledger before it decides anything. What is spent
    is a function of the ledger alone (`LedgerState`).

    Its lock covers the ledger's transactions, which use one connection, and what follows from
    them. The lock is held while the disk makes charges durable, and with a ``draw`` for `sell`
    while a few answers are drawn, which takes less time than a second wait for the disk. What
    statements read that are answered from history does not wait for that (`Standing`). It is not
    held while estimates are made.
    """

    def __init__(
        self, ledger: LedgerStore, accounts: dict[str, Account], budgets: Budgets = "declared"
    ) -> None:
        """``accounts`` is kept up to date with what other processes declare (`declarations`).

        Raises LedgerMismatch if the ledger belongs to other tables (`binding`) or holds a
        charge that has no cost in the measure of its budget, and LedgerError if a past charge
        cannot be accounted for.
        """
        with ledger.transaction() as transaction:
            bind(ledger, transaction, accounts)
            for name, lineage in lineages(transaction).items():
                if name in accounts:
                    accounts[name] = lineage.account(accounts[name])
            end = START
            if budgets == "declared":
                end = declare(transaction, accounts)
            elif budgets == "as given":
                end = budgets_end(transaction)
        super().__init__(ledger, accounts, LedgerState(ledger, accounts, end))
        self._writer = LedgerWriter(ledger, self._state, self._standing)
        self._versions = VersionLog(ledger)
        self._derive: dict[str, tuple[int, Callable[[], Arrays]]] = {}
        self._background = Background(self.summarise)
        self.summarise()

    @property
    def rows_key(self) -> bytes:
        """The key by which rows of a privacy unit are chosen."""
        return self._ledger.key("rows")

    @property
    def seed(self) -> int:
        """For marks and random combinations of public rows: all processes on the ledger have it in
        common, and no analyst knows it."""
        return int.from_bytes(self._ledger.key("marks"))

    def declare(self, accounts: Mapping[str, Account]) -> None:
        """Record the budgets and shares of these accounts, from now on in force here and in all
        other processes; durable when it returns."""
        with self._lock:
            with self._writer.writing() as transaction:
                declare(transaction, accounts)
            self._state.refresh()

    def remember_data(self, table: str, digest: Callable[[bytes], bytes]) -> None:
        """Bind the table's answers for good to the data whose digest is given.

        ``digest`` takes a key and returns the digest of the counts under it.

        Raises LedgerMismatch if the ledger knows other data of the table.
        """
        with self._lock:
            remember_data(self._ledger, table, digest)

    def versions(self, table: str, kind: type[V]) -> list[V]:
        """All versions of a table, oldest first, of the kind that it has."""
        with self._lock:
            return self._versions.of(table, kind)

    def publish_version(self, record: VersionRecord) -> bool:
        """Record a version (`publish_version`)."""
        with self._lock:
            return publish_version(self._versions, self._accounts, record)

    def publish_replacement(self, record: ReplacementRecord) -> bool:
        """Record a version of a table whose rows are replaced (`publish_replacement`)."""
        with self._lock:
            return publish_replacement(self._ledger, self._accounts, record)

    def declare_exact(self, table: str, counts: Mapping[str, Workload]) -> list[Receipt]:
        """Record counts that are to be exact, by their SQL, before they are counted; they are not
        charged. Return a receipt for each; durable when it returns."""
        with self._lock:
            write_invariants(self._ledger, table, DECLARED, counts)
        return [
            issue_receipt(0, workload.key, (0.0,) * len(workload.columns))
            for workload in counts.values()
        ]

    def publish_exact(self, table: str, counts: Mapping[str, Workload]) -> None:
        """Record that the counts are published, which is permanent."""
        with self._lock:
            write_invariants(self._ledger, table, PUBLISHED, counts)
        self.published(table)

    def published(self, table: str) -> tuple[Column, ...]:
        """The columns of all published counts of a table, by which charges are translated."""
        with self._lock:
            return self._state.published(table)

    def derived(self, table: str, derive: Callable[[], Arrays], version: int = 0) -> Arrays:
        """Return the result of ``derive`` in the last summary, empty if there is none. It must
        follow only from some first releases of a table's last version. From now on ``derive`` is
        called before a summary is written."""
        with self._lock:
            self._derive[table] = version, derive
            return self._state.derived.pop(table, {})

    def summarise(self, least: int | None = None) -> None:
        """Write a summary of the ledger if the last one lacks at least ``least`` charges. The next
        process opens the ledger sooner with it (`summary`), also after a crash.

        By default it may lack 1,000 charges, or a hundredth of a longer ledger, since the time to
        write a summary grows with the ledger.
        """
        least = self._may_lack if least is None else least
        if not self._ledger.has_checkpoint or self._state.unsummarised < least:
            return
        while True:
            with self._lock, self._ledger.snapshot() as view:
                sealing = self._state.sealing(view)
            if sealing is None:
                break
            sealing()  # which takes many times as long as to read the records
            rest()
        # Derived before the position is read, so that the summary covers all that it follows from.
        each = [(one, own, derive()) for one, (own, derive) in tuple(self._derive.items())]
        rest()
        with self._lock:
            current = self._state.version
            derived = {table: own for table, version, own in each if version == current(table)}
            summary = self._state.summary(least, derived)
        if summary is not None:
            write_summary(self._ledger, self._accounts, summary)

    @property
    def _may_lack(self) -> int:
        return max(_LONG, len(self._state.readings) // _PART)

    def close(self) -> None:
        """Write a summary if it is due. The caller closes the ledger afterwards."""
        self._background.wait()
        self.summarise()

    def quote(self, charges: Sequence[Charge], analyst: str = "") -> Quote:
        """What ``charge`` would cost, without charging. Charges are composed before the check.

        Raises InvalidParameterValue and RecordingLimitExceeded, as ``charge`` does.
        """
        priced = [self._state.pricing.price(charge) for charge in charges]
        with self._lock:
            self._state.refresh()
            return self._state.plan(priced, analyst, custodian=False)[0]

    def charge(
        self, charges: Sequence[Charge], analyst: str, *, custodian: bool = False
    ) -> tuple[Receipt, ...]:
        """Make all ``charges`` or none; durable when it returns one receipt for each.

        ``analyst`` is who asked; the caller has authenticated the name. Where a table has shares, a
        ``custodian`` without one may charge too; everyone with a share is held to it.

        Raises BudgetExceeded (53400) if any cell or pair of cells would lose more than the
        budget of its table, or more by this analyst's purchases than the analyst's share;
        InvalidParameterValue (22023) if the whole costs a table less than the least cost,
        RecordingLimitExceeded (53400) if more would be recorded than the policy's limits allow;
        and LedgerError if the ledger cannot be written: then no receipt is issued, whether or not
        the charge was made.
        """
        return self.sell(charges, analyst, custodian=custodian).receipts

    def price(self, charges: Iterable[Charge]) -> None:
        """Compute the costs of charges and their records in advance, while the statement can be
        stopped: `sell` of the same charges reuses them. Also raises what `deadline.check` raises.
        """
        for charge in charges:
            self._state.pricing.price(charge)

    @contextmanager
    def answering(self) -> Iterator[list[int]]:
        """Yield a list for `sell`: until the end, or that of this process, other processes see that
        the charges in it are still being answered or reported (`bought_elsewhere`)."""
        held = list[int]()
        try:
            yield held
        finally:
            for charge_id in held:
                self._ledger.let_go(charge_id)

    def sell(
        self,
        charges: Sequence[Charge],
        analyst: str,
        draw: Draw | None = None,
        *,
        custodian: bool = False,
        decided_on: Mapping[str, Seen] | None = None,
        events_read: int | None = None,
        versions: Mapping[str, int] = MappingProxyType({}),
        held: list[int] | None = None,
    ) -> Sale:
        """As `charge`; with ``draw``, charges and noisy answers become durable in one commit.

        ``draw(n, receipt)`` computes and perturbs the answer to charge n. It runs under the lock,
        after all charges are written and before they are durable; answers are returned only once
        they are. If anything fails from then on, the charges become durable all the same, without
        answers. Only where the ledger cannot be written at all they do not, and then no receipt
        and no answer is returned. docs/guarantees.md has the argument.

        ``decided_on`` are `state`s of tables that must not have changed, in any process, since the
        charges were decided on; nor may `events_read` have changed. ``versions`` are those that the
        charges are about, of tables whose rows are replaced. The charges are added to those
        ``held`` by `answering`, if given.

        Raises LedgerAdvanced if a state has changed, VersionAdvanced if a version has, and what
        `deadline.check` raises, with nothing charged: once the charges are written, they cannot be
        stopped. Raises what `charge` raises; and what ``draw`` raises, with everything charged.
        """
        priced = [self._state.pricing.price(charge) for charge in charges]
        selling = Selling(
            priced, analyst, custodian, decided_on or {}, events_read, versions, draw, held
        )
        try:
            # Others wait for the lock, so its holder must not wait for a turn.
            with deadline.taking(None), self._lock:
                sale = selling.sell(self._ledger, self._state, self._writer)
        finally:
            for end, one in zip(selling.durable, priced, strict=False):
                one.report(end.number, analyst)
        if self._state.unsummarised >= self._may_lack:
            self._background.start()
        return sale

    def record(self, charge: Receipt | int, values: Sequence[Sequence[int]]) -> None:
        """Record the noisy answer to a charge, once: a tuple of integers per column.

        Raises TallyveilError if there is no such charge, it is already answered, or the values do
        not fit it.
        """
        number = charge.charge_id if isinstance(charge, Receipt) else charge
        noisy = {number: tuple(map(tuple, values))}
        # Already charged: a statement that is cancelled now would lose its answer.
        with deadline.unlimited():
            encoded = {number: encode_answers(values)}
        with deadline.unlimited(), self._lock:
            end = None
            try:
                with self._writer.writing() as transaction:
                    awaited = self._state.memory.asked.get(number)
                    if awaited is None:
                        raise TallyveilError(f"charge {number} awaits no answer")
                    check_heights(number, noisy[number], awaited.decoded())
                    end = append_answers(transaction, encoded)
            except LedgerError:
                if end is None or not self._writer.holds(AnswerRecord, end):
                    raise
            else:
                self._state.answered(noisy, end)
                self._state.settled(transaction.version)

    def derive(
        self, table: str, derivations: Sequence[Derivation], analyst: str, version: int = 0
    ) -> None:
        """Record how estimates of rows were made that will be reported to ``analyst``; durable when
        it returns. Nothing is recorded about a version that is not the table's last.

        Since such an estimate may be free, at most a few megabytes are recorded for each analyst.
        """
        encoded = [encode_derivation(one) for one in derivations]
        with self._lock:
            self._writer.derive(Of(table, version), encoded, analyst)
