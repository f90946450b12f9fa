"""A charge's cost and its record in the ledger, computed once and without a lock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from tallyveil import deadline
from tallyveil.accountant.budgets.account import Account, Amount
from tallyveil.accountant.budgets.filters import Filters
from tallyveil.accountant.charges import Charge
from tallyveil.accountant.joint_law import Joint
from tallyveil.accountant.store.event_codec import encode_charge
from tallyveil.accountant.store.ledger_records import ChargeRecord
from tallyveil.cache import Cache
from tallyveil.errors import (
    FeatureNotSupported,
    LedgerError,
    LedgerMismatch,
    TallyveilError,
    UndefinedTable,
)
from tallyveil.events import report
from tallyveil.invariants import Translate, translated
from tallyveil.mechanisms import STATISTICS, Loss, recorded_law
from tallyveil.mechanisms.losses.privacy_loss import privacy_loss, together_loss
from tallyveil.mechanisms.measure import power
from tallyveil.mechanisms.noise.calibrate import rate
from tallyveil.mechanisms.protocol import Charged
from tallyveil.mechanisms.registry import additive_by_law, charged
from tallyveil.mechanisms.units import from_units
from tallyveil.workload.histogram import Histogram
from tallyveil.workload.workload import Column

__all__ = ["Priced", "Pricing"]

_CELLS: Final = 1 << 23  # of losses that are kept: 64 MB


class Priced(NamedTuple):
    """A charge as it would be recorded; ``columns`` is as `event_codec` encodes them. ``as_asked``
    is its loss without its translates."""

    charge: Charge
    loss: Loss
    as_asked: Loss
    columns: bytes
    amount: Amount

    def after(self, filters: Filters, analyst: str) -> Filters:
        """The filters after the charge."""
        one = self.charge
        return filters.after(one.table, analyst, self.loss, self.as_asked, plainly=one.plainly)

    def report(self, number: int, analyst: str) -> None:
        """Log the charge to the server's log."""
        report(
            "charged",
            analyst=analyst,
            table=self.charge.table,
            charge=number,
            cost=float(from_units(self.loss.bound)),
            unit=self.loss.measure,
            statement=self.charge.sql,
        )


class Pricing:
    """Prices of charges. Threads may share it: at worst a charge is priced twice."""

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self._accounts = accounts
        self.published: dict[str, tuple[Column, ...]] = {}
        """By table the published columns in the ledger's order, by which charges are translated.
        More are only appended, so a row keeps its number."""
        self._priced: WeakKeyDictionary[Charge, tuple[bytes, Amount]] = WeakKeyDictionary()
        # Not for as long as the charges live: a loss has entries for days far ahead.
        self._losses: Cache[Loss] = Cache(1024, _CELLS, lambda _, loss: loss.cells)
        self._as_asked: Cache[tuple[_Noise, Loss]] = Cache(1024, _CELLS, lambda _, o: o[1].cells)

    def price(self, charge: Charge) -> Priced:
        """The price of a charge, computed once for its quote and for the charge itself.

        Raises what `loss` raises.
        """
        priced = self._priced.get(charge)
        if priced is None:
            _ = charge.key  # computed now, since receipts are issued while others wait
            columns = encode_charge(charge, self._accounts[charge.table].relation)
            amount = Amount.of(charge.mechanism, charge.sql, columns, sum(charge.heights))
            priced = self._priced[charge] = columns, amount
        losses = self.loss(charge), self.as_asked(charge)
        _ = [loss.bound for loss in losses]  # so is what the filters need of them
        return Priced(charge, *losses, *priced)

    def loss(self, charge: Charge) -> Loss:
        """The loss. Raises TallyveilError if the workload does not fit the table's cells."""
        loss = self._losses.find(charge)
        if loss is None:
            loss = self._loss(charge)
            self._losses.put(charge, loss)
            if not charge.translates:
                self._as_asked.put(charge.workload, (_noise(charge), loss))
        return loss

    def as_asked(self, charge: Charge) -> Loss:
        """The loss of the rows themselves where the charge is for translates of them. It is often
        known: a translate is chosen by comparing both."""
        if not charge.translates:
            return self.loss(charge)
        noise, known = _noise(charge), self._as_asked.find(charge.workload)
        if known is None or known[0] != noise:
            known = noise, self._loss(replace(charge, translates=()))
            self._as_asked.put(charge.workload, known)
        return known[1]

    def recorded(self, number: int, stored: ChargeRecord, charge: Charge) -> Priced:
        """The price of a charge in the ledger. Raises LedgerMismatch if it has no cost in the
        measure of its budget, and LedgerError if its loss cannot be computed."""
        amount = Amount.of(stored.mechanism, stored.sql, stored.columns, stored.height)
        try:
            with deadline.unlimited():
                losses = self.loss(charge), self.as_asked(charge)
                return Priced(charge, *losses, stored.columns, amount)
        except FeatureNotSupported as error:
            raise LedgerMismatch(
                f'the ledger holds charges of table "{stored.table}" that its budget cannot count',
                detail=f"Charge {number}, by {stored.mechanism}, was paid from a budget of"
                f" {stored.measure}; the policy now declares one of"
                f" {self._accounts[stored.table].measure}.",
                hint="Declare the budget as { rho = …, delta = … } or { epsilon = …, delta = … }"
                " again. A budget of epsilon alone can become one of these, and charges are then"
                " counted anew in rho; not the other way round.",
            ) from error
        except TallyveilError as error:
            raise LedgerError(
                f"charge {number} of the ledger cannot be accounted for", detail=error.message
            ) from error

    def _loss(self, charge: Charge) -> Loss:
        workload = charge.workload
        account = self._accounts.get(workload.table)
        if account is None:
            raise UndefinedTable(f'there is no protected table "{workload.table}"')
        for column in workload.columns:
            for axis, size in zip(column.axes, column.shape, strict=True):
                if axis not in account.domain or account.domain[axis].size != size:
                    if account.migrated:
                        raise FeatureNotSupported(
                            f'the ledger of table "{workload.table}" was migrated: neither copies'
                            f" nor agents' parts are released of {axis}, which changed",
                            hint="Ask for counts in SQL, or leave this attribute out.",
                        )
                    raise TallyveilError(f'the workload does not fit table "{workload.table}"')
        if charge.histogram is not None:
            statistic, (scale,) = STATISTICS[charge.mechanism], charge.scales
            return statistic.loss(charge.histogram, scale, account.relation, account.measure)
        if charge.translates or charge.joint:
            return _by_invariants(charge, account, self.published.get(workload.table, ()))
        family: Charged = (
            charged(charge.mechanism) if charge.law is None else additive_by_law(charge.law)
        )
        return family.loss(workload, charge.scales, account.relation, account.measure)


_Noise: TypeAlias = tuple[str, str | None, tuple[float, ...], Joint | None, Histogram | None]


def _noise(charge: Charge) -> _Noise:
    return charge.mechanism, charge.law, charge.scales, charge.joint, charge.histogram


def _by_invariants(charge: Charge, account: Account, published: Sequence[Column]) -> Loss:
    """The loss of the rows charged in place of those asked, with the same noise: row i of integers
    D (w_i − λ_i C) at 1/D of the cost of a step, 1/D² in ρ. Gaussian noise that is drawn together
    costs as much as independent noise, also in ρ (INVARIANTS §5.1).

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
            charged_as = _rows(column, translate, published)
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
