"""The accountant: may this be asked, what does it cost, and what is known already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from tallyveil import deadline
from tallyveil.accountant.binding import bind, remember_data
from tallyveil.accountant.books import Books
from tallyveil.accountant.budgets.account import Account
from tallyveil.accountant.budgets.balances import Balances
from tallyveil.accountant.budgets.pricing import Priced
from tallyveil.accountant.budgets.quote import Quote, exceeded
from tallyveil.accountant.charges import Charge
from tallyveil.accountant.derivation import Derivation, encode_derivation
from tallyveil.accountant.invariants import DECLARED, PUBLISHED, published_columns, write_invariants
from tallyveil.accountant.ledger.chain import Position
from tallyveil.accountant.ledger.ledger import Ledger
from tallyveil.accountant.memory import Noisy
from tallyveil.accountant.summary import Arrays, write_summary
from tallyveil.boundary import Receipt, issue_receipt
from tallyveil.errors import TallyveilError
from tallyveil.workload.workload import Column, Workload

__all__ = ["Accountant", "Draw", "Overtaken", "Sale"]


_LONG: Final = 1_000  # charges that a summary may lack: they take half a second to work out
_PART: Final = 100  # of a long ledger it may lack one charge in so many


Draw: TypeAlias = Callable[[int, Receipt], Noisy]
"""Of a charge, by its number among others, the noisy answer to a column each."""


class Overtaken(Exception):
    """More was charged or answered than a charge was decided on. Nothing was charged for it."""


@dataclass(frozen=True)
class Sale:
    """Charges that are paid for, as ``quote`` says: a receipt for each, which is used where
    ``answers`` has its noisy answer."""

    quote: Quote
    receipts: tuple[Receipt, ...]
    answers: tuple[Noisy, ...] = ()


class Accountant(Balances):
    """Keeps the budgets of the tables in ``accounts`` by ``ledger``, and the analysts' shares of
    them. Threads may share it.

    Whatever other processes append to the ledger is taken in before anything is decided. What is
    spent is a function of the ledger alone (`Books`).

    Its lock covers the ledger's transactions, which use one connection, and what follows from
    them. It waits for the disk, as durable means; and where `sell` is told so, for the drawing of a
    few answers, which takes less than a second wait for the disk. Estimates are no part of it.
    """

    def __init__(self, ledger: Ledger, accounts: Mapping[str, Account]) -> None:
        """Raises LedgerMismatch if the ledger belongs to other tables (`binding`) or holds a
        charge that has no cost in the measure of its budget, and LedgerError if a past charge
        cannot be accounted for.
        """
        with ledger.writing():
            bind(ledger, accounts)
        super().__init__(ledger, dict(accounts), Books(ledger, accounts))
        self._published: dict[str, tuple[Column, ...]] = {}
        self._derive: dict[str, Callable[[], Arrays]] = {}
        self.summarise()

    def remember_data(self, table: str, digest: Callable[[bytes], bytes]) -> None:
        """Vouch that the table's answers are about the data ``digest`` is of, now and for good.

        ``digest`` takes a key, and gives the digest of the counts under it.

        Raises LedgerMismatch if the ledger knows other data of the table.
        """
        with self._lock:
            remember_data(self._ledger, table, digest)

    def declare_exact(self, table: str, counts: Mapping[str, Workload]) -> list[Receipt]:
        """Write down counts that are to be exact, by their SQL, before they are counted: they have
        no charge. A receipt for each, durable when it returns."""
        with self._lock:
            write_invariants(self._ledger, table, DECLARED, counts)
        return [
            issue_receipt(0, workload.key, (0.0,) * len(workload.columns))
            for workload in counts.values()
        ]

    def publish_exact(self, table: str, counts: Mapping[str, Workload]) -> None:
        """Write down that they are published, which is for good."""
        with self._lock:
            write_invariants(self._ledger, table, PUBLISHED, counts)

    def published(self, table: str) -> tuple[Column, ...]:
        """The columns of all that was published of a table: what translates are by."""
        with self._lock, self._ledger.reading():
            self._published[table] = published_columns(self._ledger, table)
            return self._published[table]

    def derived(self, table: str, derive: Callable[[], Arrays]) -> Arrays:
        """What ``derive`` gave before the last summary was written, without arrays if there is
        none: it follows from some of a table's first releases, and from nothing else. From now on
        ``derive`` is asked for it before a summary is written."""
        with self._lock:
            self._derive[table] = derive
            return self._books.derived.pop(table, {})

    def summarise(self, least: int | None = None) -> None:
        """Write a summary of the ledger if the last one lacks at least ``least`` charges. The next
        process opens the ledger sooner with it (`summary`), also after a crash.

        By default it may lack 1,000 charges, or a hundredth of a longer ledger, since the time to
        write a summary grows with the ledger.
        """
        if least is None:
            least = max(_LONG, len(self._books.readings) // _PART)
        if self._ledger.path is None or self._books.unsummarised < least:
            return
        # Before the position: what it follows from is no more than the summary covers.
        derived = {table: derive() for table, derive in tuple(self._derive.items())}
        with self._lock:
            summary = self._books.summary(least, derived)
        if summary is not None:
            write_summary(self._ledger.path, self._accounts, summary)

    def quote(
        self, charges: Sequence[Charge], analyst: str = "", *, custodian: bool = False
    ) -> Quote:
        """What ``charge`` would do, free of charge. Charges are composed before the check.

        Raises InvalidParameterValue and RecordingLimitExceeded, as ``charge`` does.
        """
        priced = [self._books.pricing.price(charge) for charge in charges]
        with self._lock, self._books.reading():
            return self._books.plan(priced, analyst, custodian)[0]

    def charge(
        self, charges: Sequence[Charge], analyst: str, *, custodian: bool = False
    ) -> tuple[Receipt, ...]:
        """Pay for all ``charges`` or for none; durable when it returns one receipt for each.

        ``analyst`` is who asked, as the caller has made sure of. Where a table has shares, the
        ``custodian`` needs none; who has one is held to it in any case.

        Raises BudgetExceeded (53400) if any cell or pair of cells would lose more than the
        budget of its table, or more by this analyst's purchases than the analyst's share;
        InvalidParameterValue (22023) if all of it costs a table less than the least, and
        RecordingLimitExceeded (53400) if more would be recorded than the policy's limits allow;
        and LedgerError if the ledger cannot be written: then there is no receipt, whether or not
        the charge was made.
        """
        return self.sell(charges, analyst, custodian=custodian).receipts

    def price(self, charges: Iterable[Charge]) -> None:
        """Work out what they cost, and how they are recorded, while the statement can be stopped:
        `sell` of the same charges finds it done. Raises what `deadline.check` raises, besides.
        """
        for charge in charges:
            self._books.pricing.price(charge)

    def sell(
        self,
        charges: Sequence[Charge],
        analyst: str,
        draw: Draw | None = None,
        *,
        custodian: bool = False,
        decided_on: Mapping[str, int] | None = None,
        taken_in: int | None = None,
    ) -> Sale:
        """As `charge`; with ``draw``, charges and noisy answers become durable in one commit.

        ``draw(n, receipt)`` computes and perturbs the answer to charge n. It runs once all charges
        are written, and before they are durable: what it gives leaves here once they are. If
        anything fails from there on, the charges become durable all the same, without answers;
        only where the ledger cannot be written at all do they not, and neither does a receipt or
        an answer leave. docs/guarantees.md has the argument. It runs under the lock.

        ``decided_on`` are `state`s of tables that must not have changed, in any process, since
        somebody looked at what the charges would tell; and `taken_in` must not have.

        Raises Overtaken if a state has changed, and what `deadline.check` raises, with nothing
        charged: once the charges are written, nothing is stopped here. Raises what `charge` raises;
        and what ``draw`` raises, with everything charged.
        """
        for charge in charges:
            own = self._published.get(charge.table)
            if charge.translates and charge.published is not own:
                raise TallyveilError("a charge by invariants that the ledger does not know")
        priced = [self._books.pricing.price(charge) for charge in charges]
        durable: list[Position] = []
        try:
            # Others wait for the lock: who has it waits for nobody's turn.
            with deadline.taking(None), self._lock:
                sale = self._sell(
                    priced, analyst, custodian, decided_on or {}, taken_in, draw, durable
                )
        finally:
            for end, one in zip(durable, priced, strict=False):
                one.report(end.number, analyst)
        with deadline.unlimited():
            self.summarise()
        return sale

    def _sell(
        self,
        priced: Sequence[Priced],
        analyst: str,
        custodian: bool,
        decided_on: Mapping[str, int],
        taken_in: int | None,
        draw: Draw | None,
        durable: list[Position],
    ) -> Sale:
        """Adds to ``durable`` where the charges end that the ledger holds, also if it raises."""
        books, drawn = self._books, False
        noisy: dict[int, Noisy] = {}
        try:
            with books.writing():
                if any(books.memory.states[table] != state for table, state in decided_on.items()):
                    raise Overtaken
                if taken_in not in (None, books.taken_in):
                    raise Overtaken
                quote, steps = books.plan(priced, analyst, custodian)
                if any(
                    one.charge.plainly and not after.within_shares(one.charge.table)
                    for one, after in zip(priced, steps, strict=True)
                ):
                    raise Overtaken
                if quote.refused is not None:
                    raise exceeded(quote.refused)
                # The last moment at which a cancel costs nothing.
                deadline.check()
                with deadline.unlimited():
                    ends = books.append(priced, analyst)
                    receipts = tuple(
                        issue_receipt(end.number, one.charge.key, one.charge.scales)
                        for end, one in zip(ends, priced, strict=True)
                    )
                    if draw is not None and ends:
                        self._ledger.keep()
                        drawn = True
                        for n, (receipt, one) in enumerate(zip(receipts, priced, strict=True)):
                            noisy[receipt.charge_id] = draw(n, receipt)
                            _check_heights(n, noisy[receipt.charge_id], one.charge)
                        answered = books.append_answers(noisy)
        except BaseException:
            # Of any kind, also an interrupt: who has an answer drawn and sees it fail, by whatever
            # error, has learnt from it. Failing must not be free.
            if drawn:
                durable += books.insist(priced, analyst, ends)
            raise
        durable += ends
        books.charged(ends, priced, analyst, steps)
        if drawn:
            books.answered(noisy, answered)
        books.settled()
        return Sale(quote, receipts, tuple(noisy.values()))

    def record(self, charge: Receipt | int, values: Sequence[Sequence[int]]) -> None:
        """Remember the noisy answer to a charge: a tuple of integers per column, once.

        Raises TallyveilError if there is no such charge, it is answered already, or the values
        do not fit it.
        """
        number = charge.charge_id if isinstance(charge, Receipt) else charge
        noisy = {number: tuple(map(tuple, values))}
        # It is paid for: a statement that is cancelled now would lose it.
        with deadline.unlimited(), self._lock:
            with self._books.writing():
                awaited = self._books.memory.asked.get(number)
                if awaited is None:
                    raise TallyveilError(f"charge {number} awaits no answer")
                _check_heights(number, noisy[number], awaited.decoded())
                end = self._books.append_answers(noisy)
            self._books.answered(noisy, end)
            self._books.settled()

    def derive(self, derivations: Mapping[str, Sequence[Derivation]], analyst: str) -> None:
        """Remember how estimates of tables' rows were made that ``analyst`` is about to be given;
        durable when it returns.

        Since such an estimate may cost nothing, a few megabytes are kept for each analyst at most.
        """
        each = ((table, one) for table, own in derivations.items() for one in own)
        encoded = [(table, encode_derivation(one)) for table, one in each]
        with self._lock:
            self._books.derive(encoded, analyst)


def _check_heights(number: int, noisy: Noisy, charge: Charge) -> None:
    if [len(values) for values in noisy] != charge.heights:
        raise TallyveilError(f"charge {number} has another number of rows")
