"""Composition of past charges anew, where their translates are given up.

A translate charges cells that nobody asked about. Where many cells of a group are asked one by one,
the sum exceeds the cost of the rows themselves. λ is book-keeping of public rows, and may be chosen
again for everything released: it is enough that the ledger's charges, as they are charged by now,
are within the budget. So a later charge can list earlier ones that are charged as asked from then
on.

Compositions are cached: a repeated question, or a charge that was proposed, composes only what was
charged since.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from weakref import WeakValueDictionary

from tallyveil import deadline
from tallyveil.accountant.budgets.account import Account
from tallyveil.accountant.budgets.filters import Filters
from tallyveil.accountant.budgets.pricing import Pricing
from tallyveil.accountant.charges import Charge
from tallyveil.accountant.published_counts import published_columns
from tallyveil.accountant.store.chain import START, Position
from tallyveil.accountant.store.event_codec import decode_charge
from tallyveil.accountant.store.ledger_store import LedgerStore
from tallyveil.accountant.store.records import ChargeRecord
from tallyveil.mechanisms import Loss
from tallyveil.workload.workload import Column

__all__ = ["Composition", "NotComposed", "Recomposition", "published_rows"]

_KEPT: Final = 2  # compositions of a table: without some translates, and without any


class NotComposed(Exception):
    """Many charges have to be composed anew, where others wait for that."""


def published_rows(charges: Sequence[Charge]) -> int:
    """The published rows by which the charges are translated: row n is bit n."""
    used = (translate for charge in charges for translate in charge.translates if translate)
    numbers = {number for translate in used for number in translate.declared.tolist()}
    return sum(1 << number for number in numbers)


@dataclass
class _Past:
    """A table's charges up to ``end``. By number: the published rows by which each is translated,
    and the earlier charges whose translates it gave up."""

    end: Position = START
    rows: dict[int, int] = field(default_factory=dict)
    given_up: dict[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Composed:
    """The ``filters`` after one table's charges up to ``end``, those of ``plainly`` without their
    translates."""

    plainly: frozenset[int]
    end: Position
    filters: Filters

    def starts(self, plainly: frozenset[int], before: int | None) -> bool:
        """Whether a composition without the translates of ``plainly``, up to number ``before``,
        starts with this one."""
        last = self.end.number
        return (before is None or last < before) and self.plainly == {
            number for number in plainly if number <= last
        }


class Recomposition:
    """Composes charges of a ledger anew. Used under the accountant's lock, and outside of the
    ledger's transactions where many charges may have to be composed: others wait for these."""

    def __init__(self, ledger: LedgerStore, pricing: Pricing, accounts: dict[str, Account]) -> None:
        self._ledger = ledger
        self.pricing = pricing
        self._unused = Filters.unused(accounts)
        self._past: dict[str, _Past] = {}
        self._kept: dict[str, tuple[_Composed, ...]] = {}
        self._read: WeakValueDictionary[tuple[int, bool], Charge] = WeakValueDictionary()

    def charge(self, stored: ChargeRecord) -> Charge:
        """The charge as it was accounted for when it was made."""
        charge = decode_charge(stored.table, stored.mechanism, stored.columns)
        known = self.pricing.published.get(stored.table, ())
        if published_rows([charge]) >> sum(column.height for column in known):
            self.published(stored.table)
        return charge

    def published(self, table: str) -> tuple[Column, ...]:
        """The columns of all published counts of a table, by which charges are priced from now
        on."""
        with self._ledger.snapshot() as view:
            found = self.pricing.published[table] = published_columns(view, table)
        return found

    def translated(self, table: str, most: int) -> dict[int, int]:
        """The charges of a table that are charged as translates, with their `published_rows`; none
        if it has more than ``most`` charges."""
        past = self._up_to_date(table)
        if len(past.given_up) > most:
            return {}
        gone = {number for own in past.given_up.values() for number in own}
        return {number: rows for number, rows in past.rows.items() if rows and number not in gone}

    @deadline.taking(None)
    def start(self, table: str, plainly: Sequence[int], before: int | None = None) -> Composition:
        """The composition of all charges of a table, before number ``before`` if given, with those
        of ``plainly`` and those given up before without their translates: the part that is cached,
        and the rest."""
        past = self._up_to_date(table)
        gone = (own for n, own in past.given_up.items() if before is None or n < before)
        whole = frozenset(plainly).union(*gone)
        empty = _Composed(frozenset(), START, self._unused)
        fit = [one for one in self._kept.get(table, ()) if one.starts(whole, before)]
        composed = max(fit, key=lambda one: one.end.number, default=empty)
        end, rest = composed.end, list[tuple[ChargeRecord, Charge]]()
        for stored, position in self._charges_after(composed.end):
            number = position.number
            if before is not None and number >= before:
                break
            end = position
            if stored.table == table:
                deadline.check()
                rest.append((stored, self._charged(number, stored, number in whole)))
        return Composition(self, table, replace(composed, plainly=whole, end=end), rest)

    def after(
        self,
        filters: Filters,
        charge: Charge,
        analyst: str,
        loss: Loss,
        number: int | None = None,
        most: int | None = None,
    ) -> Filters:
        """The filters after a charge, the next one or that of ``number``, with the earlier charges
        composed anew whose translates it gives up.

        Raises NotComposed if that is more than ``most`` charges."""
        if charge.plainly:
            composition = self.start(charge.table, charge.plainly, number)
            if most is not None and len(composition.rest) > most:
                raise NotComposed
            with deadline.taking(None):
                filters = composition.of(filters)
        return filters.after(charge.table, analyst, loss)

    def gives_up(self, stored: ChargeRecord) -> bool:
        """Whether the charge has earlier ones composed anew."""
        return bool(decode_charge(stored.table, stored.mechanism, stored.columns).plainly)

    def keep(self, table: str, composed: _Composed) -> None:
        others = (
            one for one in self._kept.get(table, ()) if not one.starts(composed.plainly, None)
        )
        self._kept[table] = (composed, *others)[:_KEPT]

    def _charged(self, number: int, stored: ChargeRecord, plainly: bool) -> Charge:
        """The charge, one object for several compositions, so that it is priced once."""
        charge = self._read.get((number, plainly))
        if charge is None:
            charge = self.charge(stored)
            charge = replace(charge, translates=()) if plainly else charge
            self._read[number, plainly] = charge
        return charge

    def _charges_after(self, seen: Position) -> list[tuple[ChargeRecord, Position]]:
        with self._ledger.snapshot() as view:
            return list(view.after(ChargeRecord, seen))

    @deadline.taking(None)
    def _up_to_date(self, table: str) -> _Past:
        past = self._past.setdefault(table, _Past())
        for stored, position in self._charges_after(past.end):
            if stored.table == table:
                deadline.check()
                charge = decode_charge(table, stored.mechanism, stored.columns)
                past.rows[position.number] = published_rows([charge])
                past.given_up[position.number] = charge.plainly
            past.end = position
        return past


@dataclass(frozen=True)
class Composition:
    """A cached composition and the ``rest`` of the charges, which may be composed without the
    lock."""

    by: Recomposition
    table: str
    composed: _Composed
    rest: Sequence[tuple[ChargeRecord, Charge]]

    def of(self, filters: Filters) -> Filters:
        """The filters with all charges of the table composed. A charge takes a few milliseconds."""
        own = self.composed.filters
        for stored, charge in self.rest:
            deadline.check()
            own = own.after(self.table, stored.analyst, self.by.pricing.loss(charge))
        self.by.keep(self.table, replace(self.composed, filters=own))
        return filters.with_table(own, self.table)
