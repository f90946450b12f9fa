"""The filters: a meter over each table's budget, and one over each analyst's share of it.

A charge c by analyst a about table t costs unit j (a cell, or under replace a pair of cells) the
loss ℓ_c(j), in units of 10⁻¹² of the table's measure, rounded up. It passes if for every j, the
charges before it included,

    Σ ℓ_c(j) over all charges about t         ≤ budget of t
    Σ ℓ_c(j) over those charges by a          ≤ share of a in t

both rounded down to units. Tables that share a unit have one budget, their head's, and so do shares
of it. A unit has rows in each, so the sum over these tables of the largest loss in each must be
within it: every release is about one table's counts, so a unit loses at most the sum over tables of
what it loses in each. Each sum, or a bound on it, is a `Meter`; its docstring says why
refusing is a valid filter where questions are chosen adaptively, and docs/guarantees.md has the
proof, for budgets and for shares.

A charge may be a translate: ℓ_c(j) is then computed from other rows, which the public λ chooses. λ
may be chosen again for everything released, since a filter bounds what was released, however it is
counted: it is enough that the charges, as they are counted by now, are within the budget. So all
translates of a table can be given up, which then has lost what its rows cost as they were asked. A
second meter counts that from the start where a table has translates. n cells of a group asked one
by one cost n/2 as translates, and 1 as they were asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

from tallyveil.accountant.budgets.account import OTHERS, PLANS, Account, is_plan
from tallyveil.accountant.budgets.meter import Meter, meter_for
from tallyveil.accountant.budgets.quote import Quote, TableQuote
from tallyveil.mechanisms import Loss
from tallyveil.mechanisms.units import from_units

__all__ = ["Filters", "Whose"]


Whose: TypeAlias = tuple[str, str | None]
"""A table, and an analyst with a share of its budget, or None for the budget itself."""


@dataclass(frozen=True)
class Filters:
    """``after`` returns the filters after a charge, which a dry run only reads. Its meters never
    change; its ``accounts`` are those in force now.

    ``as_asked`` are the meters as they would be if no charge were a translate, where that differs.
    """

    accounts: Mapping[str, Account]
    meters: Mapping[Whose, Meter]
    as_asked: Mapping[Whose, Meter]

    @classmethod
    def unused(cls, accounts: dict[str, Account]) -> Filters:
        shares = [(name, one) for name, account in accounts.items() for one in account.shares or ()]
        planned = [name for name, account in accounts.items() if account.reserved]
        shares += [(name, whose) for name in planned for whose in (OTHERS, PLANS)]
        return cls.counting(accounts, [*((name, None) for name in accounts), *shares])

    @classmethod
    def counting(cls, accounts: Mapping[str, Account], whose: Iterable[Whose]) -> Filters:
        """Filters with meters for these, on which nothing is spent."""
        meters = {own: _empty(accounts[own[0]]) for own in whose}
        return cls(MappingProxyType(accounts), meters, {})

    def after(
        self,
        table: str,
        analyst: str,
        loss: Loss,
        as_asked: Loss | None = None,
        *,
        plainly: bool = False,
    ) -> Filters:
        """The filters after a loss by a charge of ``analyst`` about ``table``, which loses
        ``as_asked`` if its translates are given up, by default the same. If ``plainly``, all
        earlier translates of the table are given up with it."""
        asked = loss if as_asked is None else as_asked
        before = self.given_up(table) if plainly else self
        meters, other = {**before.meters}, {**before.as_asked}
        for whose in ((table, None), (table, analyst), (table, _part(analyst))):
            own = meters.get(whose)
            if own is None:
                continue
            meters[whose] = own.after(loss)
            if whose in other or asked is not loss:
                other[whose] = other.get(whose, own).after(asked)
        return Filters(self.accounts, meters, other)

    def tables(self, table: str) -> list[str]:
        """The tables that have the same budget, of which the table is one."""
        payer = self.payer(table)
        return [name for name in self.accounts if self.payer(name) == payer]

    def payer(self, table: str) -> str:
        """The table whose budget and shares hold for the table."""
        return self.accounts[table].head or table

    def account(self, table: str) -> Account:
        """The account of the `payer`, or the table's own where only that is known."""
        return self.accounts.get(self.payer(table), self.accounts[table])

    def spent(self, table: str, analyst: str | None = None) -> int:
        """What a unit has lost at most of the table's budget, or by the analyst's charges to it."""
        found = (self.meters.get((name, analyst)) for name in self.tables(table))
        return sum(meter.spent for meter in found if meter is not None)

    def exact(self, table: str, analyst: str | None = None) -> bool:
        """Whether some unit has lost what `spent` says, and not only at most that. No single unit
        need have the highest loss in two tables, nor on each of several days."""
        found = (self.meters.get((name, analyst)) for name in self.tables(table))
        lost = [meter for meter in found if meter is not None and meter.spent]
        window = self.account(table).window
        alone = len(lost) <= 1 and (window is None or window.days == 1 or not lost)
        return alone and all(meter.exact for meter in lost)

    @property
    def as_charged(self) -> Filters:
        """The same, for a dry run of charges that give nothing up: it takes less time."""
        return Filters(self.accounts, self.meters, {})

    def given_up(self, table: str) -> Filters:
        """The filters without any translates of a table."""
        own = {whose: meter for whose, meter in self.as_asked.items() if whose[0] == table}
        other = {whose: meter for whose, meter in self.as_asked.items() if whose not in own}
        return Filters(self.accounts, {**self.meters, **own}, other)

    def folded(self, table: str) -> Filters:
        """The filters once the table's units may be in any cells with the values of its stable
        attributes (`CellMeter.folded`)."""
        stable = self.accounts[table].stable

        def each(meters: Mapping[Whose, Meter]) -> dict[Whose, Meter]:
            return {w: one.folded(stable) if w[0] == table else one for w, one in meters.items()}

        return Filters(self.accounts, each(self.meters), each(self.as_asked))

    def within_shares(self, table: str) -> bool:
        """Whether no analyst has spent more than a share of a table's budget."""
        shares = self.account(table).shares or {}
        return all(self.spent(table, analyst) <= own.units for analyst, own in shares.items())

    def quote(
        self,
        after: Filters,
        losses: Sequence[tuple[str, Loss]],
        analyst: str,
        *,
        custodian: bool = False,
    ) -> Quote:
        """The quote for ``losses`` by table, given the filters ``after`` them: one for each budget.

        Where a budget has shares, an analyst without one may charge nothing, except the
        ``custodian``.
        """
        alone: dict[str, Meter] = {}
        for table, loss in losses:
            alone[table] = alone.get(table, _empty(self.accounts[table])).after(loss)
        costs: dict[str, int] = {}
        for table, meter in alone.items():
            payer = self.payer(table)
            costs[payer] = costs.get(payer, 0) + meter.spent
        quotes, shares = [], []
        for payer, cost in costs.items():
            table = next(name for name in alone if self.payer(name) == payer)
            account = self.account(table)
            whole = self._quote(after, table, cost, account.units)
            if account.reserved:
                whose = _part(analyst)
                left = self._quote(after, table, cost, account.part(whose), whose)
                left = replace(left, analyst=None)
                whole = min(whole, left, key=lambda one: (one.allowed, one.remaining_before))
            quotes.append(whole)
            if account.shares is None:
                continue
            share = account.shares.get(analyst)
            if share is not None:
                shares.append(self._quote(after, table, cost, share.units, analyst))
            elif not custodian:
                shares.append(self._quote(after, table, cost, None, analyst))
        return Quote(tuple(quotes), tuple(shares))

    def _quote(
        self,
        after: Filters,
        table: str,
        cost: int,
        budget: int | None,
        analyst: str | None = None,
    ) -> TableQuote:
        """The quote of the table's budget or of a share; ``budget`` is None for one that does not
        exist."""
        units, spent = 0 if budget is None else budget, after.spent(table, analyst)
        return TableQuote(
            table=self.payer(table),
            cost=from_units(cost),
            remaining_before=from_units(max(0, units - self.spent(table, analyst))),
            remaining_after=from_units(max(0, units - spent)),
            allowed=cost == 0 or (budget is not None and spent <= units),
            measure=self.accounts[table].measure,
            analyst=analyst,
            has_share=budget is not None,
            tables=tuple(self.tables(table)),
        )


def _part(analyst: str) -> str:
    """Whose part of a budget with plans the analyst's charges are of."""
    return PLANS if is_plan(analyst) else OTHERS


def _empty(account: Account) -> Meter:
    return meter_for(account.relation, account.measure)
