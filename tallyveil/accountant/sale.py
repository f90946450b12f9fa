"""A sale: charges are checked, written, answered and made durable, in this order.

docs/guarantees.md has the argument why no failure in between reveals anything that is not charged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tallyveil import deadline
from tallyveil.accountant.budgets.filters import Filters
from tallyveil.accountant.budgets.pricing import Priced
from tallyveil.accountant.budgets.quote import Quote, exceeded, report_charge
from tallyveil.accountant.charges import Charge
from tallyveil.accountant.ledger_state import LedgerState
from tallyveil.accountant.ledger_writer import LedgerWriter, append_answers, append_charges
from tallyveil.accountant.releases import Noisy
from tallyveil.accountant.store.chain import Position
from tallyveil.accountant.store.event_codec import encode_answers
from tallyveil.accountant.store.ledger_records import AnswerRecord
from tallyveil.accountant.store.ledger_store import (
    LedgerAdvanced,
    LedgerStore,
    Seen,
    Transaction,
    VersionAdvanced,
)
from tallyveil.boundary import Receipt, issue_receipt
from tallyveil.errors import LedgerError, TallyveilError

__all__ = ["Draw", "Sale", "Selling", "check_heights"]

Draw: TypeAlias = Callable[[int, Receipt], Noisy]
"""Return the noisy answer to each column of the charge with this number."""


@dataclass(frozen=True)
class Sale:
    """Charges made as in ``quote``, with a receipt for each. A receipt is used up where ``answers``
    has the noisy answer."""

    quote: Quote
    receipts: tuple[Receipt, ...]
    answers: tuple[Noisy, ...] = ()


@dataclass(eq=False)
class Selling:
    """What is to be sold, and under which conditions: the arguments of `Accountant.sell`."""

    priced: Sequence[Priced]
    analyst: str
    custodian: bool
    expected: Mapping[str, Seen]
    events_read: int | None
    versions: Mapping[str, int]
    draw: Draw | None
    held: list[int] | None
    durable: Sequence[Position] = ()
    """The positions of the charges, once they are durable."""
    _quote: Quote = field(default_factory=lambda: Quote(()))
    _steps: list[Filters] = field(default_factory=list)
    _ends: list[Position] = field(default_factory=list)
    _receipts: tuple[Receipt, ...] = ()
    _noisy: dict[int, Noisy] = field(default_factory=dict)
    _answered: Position | None = None
    _drawn: bool = False

    def sell(self, ledger: LedgerStore, state: LedgerState, writer: LedgerWriter) -> Sale:
        """Under the accountant's lock. Sets ``durable``, also if it raises."""
        try:
            with writer.writing(self.expected) as transaction:
                self._check(state)
                # The last moment at which a cancel costs nothing.
                deadline.check()
                with deadline.unlimited():
                    self._charge(ledger, transaction)
                    if self.draw is not None and self._ends:
                        self._answer(self.draw, transaction)
        except BaseException as error:
            # Also an interrupt: an analyst who sees a drawn answer fail, by whatever error, has
            # learnt from it. So a failure must not be free.
            if not self._is_complete(error, writer):
                raise
        else:
            self.durable = self._ends
            state.charged(self._ends, self.priced, self.analyst, self._steps)
            if self._answered is not None:
                state.answered(self._noisy, self._answered)
            state.settled(transaction.version)
        return Sale(self._quote, self._receipts, tuple(self._noisy.values()))

    def _check(self, state: LedgerState) -> None:
        """Check again, on all that is in the ledger by now, what was decided on a snapshot."""
        for table in dict.fromkeys(one.charge.table for one in self.priced):
            if state.version(table) != self.versions.get(table, 0):
                raise VersionAdvanced(table)
        if self.events_read not in (None, state.events_read):
            raise LedgerAdvanced
        self._quote, self._steps = state.plan(self.priced, self.analyst, self.custodian)
        if any(
            one.charge.plainly and not after.within_shares(one.charge.table)
            for one, after in zip(self.priced, self._steps, strict=True)
        ):
            raise LedgerAdvanced
        if self._quote.refused is not None:
            raise exceeded(self._quote.refused)

    def _charge(self, ledger: LedgerStore, transaction: Transaction) -> None:
        self._ends = append_charges(transaction, self.priced, self.analyst)
        if self.held is not None:
            for end in self._ends:
                ledger.hold(end.number)
                self.held.append(end.number)
        self._receipts = tuple(
            issue_receipt(end.number, one.charge.key, one.charge.scales)
            for end, one in zip(self._ends, self.priced, strict=True)
        )

    def _answer(self, draw: Draw, transaction: Transaction) -> None:
        transaction.keep()
        self._drawn = True
        for n, (receipt, one) in enumerate(zip(self._receipts, self.priced, strict=True)):
            self._noisy[receipt.charge_id] = draw(n, receipt)
            check_heights(n, self._noisy[receipt.charge_id], one.charge)
        encoded = {number: encode_answers(values) for number, values in self._noisy.items()}
        self._answered = append_answers(transaction, encoded)

    def _is_complete(self, error: BaseException, writer: LedgerWriter) -> bool:
        """Find out what a transaction that failed has left in the ledger, and let the error report
        it. Whether that is all that was to be sold, and only the news of it was lost."""
        kept: Sequence[Position] | None = ()
        if self._ends:
            about = self.priced, self.analyst, self._ends, self.versions
            kept = writer.rewrite_lost_charges(*about, drawn=self._drawn)
            self.durable = kept or ()
        if isinstance(error, LedgerError) and kept is self._ends and self._ends:
            if self.draw is None:
                return True
            if self._answered is not None and writer.holds(AnswerRecord, self._answered):
                return True
        report_charge(error, self._quote if kept else None, known=kept is not None)
        return False


def check_heights(number: int, noisy: Noisy, charge: Charge) -> None:
    """Raises TallyveilError unless the answer has a number for each row of the charge."""
    if [len(values) for values in noisy] != charge.heights:
        raise TallyveilError(f"charge {number} has another number of rows")
