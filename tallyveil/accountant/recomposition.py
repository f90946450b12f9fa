"""Past charges, composed once more: where translates of them are given up.

A translate charges cells that nobody asked about. Where many cells of a group are asked one by one,
that comes to more than the rows themselves cost. λ is book-keeping of public rows, and may be
chosen again for all that was released: what counts is that the ledger's charges, whichever they are
by now, are within the budget. So a later charge can say which earlier ones are charged as they were
asked from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from tallyveil import deadline
from tallyveil.accountant.chain import START
from tallyveil.accountant.charges import Charge
from tallyveil.accountant.filters import Filters
from tallyveil.accountant.invariants import published_columns
from tallyveil.accountant.ledger import Ledger
from tallyveil.accountant.pricing import Pricing
from tallyveil.accountant.stored import charge_of
from tallyveil.accountant.stored_charge import StoredCharge

__all__ = ["Made", "Recomposition"]

Made: TypeAlias = tuple[StoredCharge, Charge]
"""A charge as it is recorded, and as it was accounted for."""


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
