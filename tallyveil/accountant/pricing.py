"""What a charge costs and takes in the ledger, worked out once and without a lock; and past
charges, composed once more where translates of them are given up.

A translate charges cells that nobody asked about. Where many cells of a group are asked one by one,
that comes to more than the rows themselves cost. λ is book-keeping of public rows, and may be
chosen again for all that was released: what counts is that the ledger's charges, whichever they are
by now, are within the budget. So a later charge can say which earlier ones are charged as they were
asked from then on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias
from weakref import WeakKeyDictionary

from tallyveil import deadline
from tallyveil.accountant.account import Account, Amount
from tallyveil.accountant.chain import START, StoredCharge
from tallyveil.accountant.charges import Charge
from tallyveil.accountant.codec import Event, decode_event, encode_event
from tallyveil.accountant.filters import Filters
from tallyveil.accountant.invariants import published_columns
from tallyveil.accountant.ledger import Ledger
from tallyveil.errors import LedgerError, TallyveilError, UndefinedTable
from tallyveil.invariants import Translate, translated
from tallyveil.mechanisms import (
    Charged,
    Loss,
    additive_by_law,
    charged,
    privacy_loss,
    recorded_law,
    together_loss,
)
from tallyveil.mechanisms.measure import power
from tallyveil.mechanisms.noise.calibrate import rate
from tallyveil.workload.workload import Column, Workload

__all__ = ["Priced", "Pricing", "Recomposition", "charge_of"]

Made: TypeAlias = tuple[StoredCharge, Charge]
"""A charge as it is recorded, and as it was accounted for."""


@dataclass(frozen=True)
class Priced:
    """A charge as it would be recorded. ``columns`` is as `codec` writes them."""

    table: str
    mechanism: str
    sql: str
    columns: bytes
    height: int
    loss: Loss
    amount: Amount
    plainly: tuple[int, ...] = ()


class Pricing:
    """Threads may share it: at worst a charge is priced twice."""

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self._accounts = accounts
        self._priced: WeakKeyDictionary[Charge, Priced] = WeakKeyDictionary()
        self._losses: WeakKeyDictionary[Charge, Loss] = WeakKeyDictionary()

    def price(self, charge: Charge) -> Priced:
        """A charge is quoted and then paid for, and priced the first time.

        Raises what `loss` does.
        """
        priced = self._priced.get(charge)
        if priced is None:
            workload = charge.workload
            _ = charge.key  # of its receipt, which is issued while others wait
            event = Event(
                workload.columns, charge.scales, charge.law, charge.translates, charge.plainly,
                charge.joint,
            )  # fmt: skip
            columns = encode_event(event, self._accounts[workload.table].relation)
            height = sum(column.height for column in workload.columns)
            priced = self._priced[charge] = Priced(
                workload.table,
                charge.mechanism,
                charge.sql,
                columns,
                height,
                self.loss(charge),
                Amount.of(charge.mechanism, charge.sql, columns, height),
                charge.plainly,
            )
        return priced

    def loss(self, charge: Charge) -> Loss:
        """Raises TallyveilError if the workload is not about the table's declared cells."""
        loss = self._losses.get(charge)
        if loss is None:
            loss = self._losses[charge] = self._loss(charge)
        return loss

    def _loss(self, charge: Charge) -> Loss:
        workload = charge.workload
        account = self._accounts.get(workload.table)
        if account is None:
            raise UndefinedTable(f'there is no protected table "{workload.table}"')
        for column in workload.columns:
            for axis, size in zip(column.axes, column.shape, strict=True):
                if axis not in account.domain or account.domain[axis].size != size:
                    raise TallyveilError(f'the workload does not fit table "{workload.table}"')
        family: Charged = (
            charged(charge.mechanism) if charge.law is None else additive_by_law(charge.law)
        )
        loss = family.loss(workload, charge.scales, account.relation, account.measure)
        return _by_invariants(charge, account) if charge.translates or charge.joint else loss


def _by_invariants(charge: Charge, account: Account) -> Loss:
    """Of the rows that are charged in the place of those asked, with the noise of these: row i of
    integers D (w_i − λ_i C) at 1/D of what a step costs, 1/D² in ρ. Gaussian noise that is drawn
    together costs what independent noise does, also in ρ (INVARIANTS §5.1).

    Raises LedgerError for λ of rows that are not published.
    """
    columns, rates = list[Column](), list[Fraction]()
    translates = charge.translates or (None,) * len(charge.scales)
    parts = zip(charge.workload.columns, charge.scales, translates, strict=True)
    for column, scale, translate in parts:
        if scale == 0:
            continue
        step, charged_as = rate(scale, account.measure), column
        if translate is not None:
            charged_as = _rows(column, translate, charge.published)
            step /= translate.denominator ** power(account.measure)
        columns.append(charged_as)
        rates.append(step)
    law = None if charge.joint is None else recorded_law(charge.law, max(charge.scales))
    composed = privacy_loss if law is None or not law.heavy else together_loss
    return composed(columns, rates, account.relation, account.measure)


def _rows(column: Column, translate: Translate, published: Sequence[Column]) -> Column:
    try:
        found = translated(column, translate, published)
    except ValueError as error:
        raise LedgerError("a charge is by invariants that the ledger does not know") from error
    if found is None:
        raise LedgerError("a charge is by invariants of too many cells")
    return found


def charge_of(table: str, mechanism: str, columns: bytes) -> Charge:
    """The charge that is stored so, without its statement."""
    event = decode_event(columns)
    return Charge(
        Workload(table, event.columns), mechanism, event.scales, "", event.law, event.translates,
        plainly=event.plainly, joint=event.joint,
    )  # fmt: skip


class Recomposition:
    """Of the charges of a ledger; used inside its `reading`."""

    def __init__(self, ledger: Ledger, pricing: Pricing) -> None:
        self._ledger = ledger
        self._pricing = pricing

    def charge(self, stored: StoredCharge) -> Charge:
        """As it was accounted for when it was made."""
        charge = charge_of(stored.table, stored.mechanism, stored.columns)
        if charge.translates:
            return replace(charge, published=published_columns(self._ledger, stored.table))
        return charge

    def filters(
        self, filters: Filters, table: str, plainly: frozenset[int], end: int | None = None
    ) -> Filters:
        """With all charges of a table, before number ``end`` if given, composed once more, those of
        ``plainly`` and those given up before without their translates. It takes about a millisecond
        each."""
        stored = [one for one in self._of(table) if end is None or one.id < end]
        return self.composed(filters, table, [(one, self.charge(one)) for one in stored], plainly)

    def composed(
        self, filters: Filters, table: str, charges: Sequence[Made], plainly: frozenset[int]
    ) -> Filters:
        """As `filters`, of all ``charges`` of a table; also outside of a `reading`."""
        plainly = plainly.union(*(charge.plainly for _, charge in charges))
        filters = filters.without(table)
        for one, charge in charges:
            deadline.check()
            own = replace(charge, translates=()) if one.id in plainly else charge
            filters = filters.after(table, one.analyst, self._pricing.loss(own))
        return filters

    def charges(self, table: str, most: int) -> list[Made]:
        """All of a table; none if it has more than ``most``."""
        stored = self._of(table)
        return [] if len(stored) > most else [(one, self.charge(one)) for one in stored]

    def _of(self, table: str) -> list[StoredCharge]:
        return [one for one, _ in self._ledger.charges_after(START) if one.table == table]
