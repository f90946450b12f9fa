"""The filters: a meter over each table's budget, and one over each analyst's share of it.

A charge c by analyst a about table t costs unit j (a cell, or under replace a pair of cells) the
loss ℓ_c(j), in units of 10⁻¹² of the table's measure, rounded up. It passes if for every j, the
charges before it included,

    Σ ℓ_c(j) over all charges about t         ≤ budget of t
    Σ ℓ_c(j) over those charges by a          ≤ share of a in t

both rounded down to units. Each sum, or a bound on it, is a `Meter`; its docstring says why
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
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from tallyveil.accountant.budgets.account import Account
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
        for whose in ((table, None), (table, analyst)):
            own = meters.get(whose)
            if own is None:
                continue
            meters[whose] = own.after(loss)
            if whose in other or asked is not loss:
                other[whose] = other.get(whose, own).after(asked)
        return Filters(self.accounts, meters, other)

    @property
    def as_charged(self) -> Filters:
        """The same, for a dry run of charges that give nothing up: it takes less time."""
        return Filters(self.accounts, self.meters, {})

    def given_up(self, table: str) -> Filters:
        """The filters without any translates of a table."""
        own = {whose: meter for whose, meter in self.as_asked.items() if whose[0] == table}
        other = {whose: meter for whose, meter in self.as_asked.items() if whose not in own}
        return Filters(self.accounts, {**self.meters, **own}, other)

    def within_shares(self, table: str) -> bool:
        """Whether no analyst has spent more than a share of a table."""
        shares = self.accounts[table].shares or {}
        return all(
            self.meters[table, analyst].spent <= own.units for analyst, own in shares.items()
        )

    def quote(
        self,
        after: Filters,
        losses: Sequence[tuple[str, Loss]],
        analyst: str,
        *,
        custodian: bool = False,
    ) -> Quote:
        """The quote for ``losses`` by table, given the filters ``after`` them.

        Where a table has shares, an analyst without one may charge nothing, except the
        ``custodian``.
        """
        alone: dict[str, Meter] = {}
        for table, loss in losses:
            alone[table] = alone.get(table, _empty(self.accounts[table])).after(loss)
        quotes, shares = [], []
        for table, meter in alone.items():
            account, cost = self.accounts[table], meter.spent
            quotes.append(_quote(account, table, cost, account.units, *_change(self, after, table)))
            if account.shares is None:
                continue
            share = account.shares.get(analyst)
            if share is not None:
                change = _change(self, after, table, analyst)
                shares.append(_quote(account, table, cost, share.units, *change, analyst))
            elif not custodian:
                shares.append(_quote(account, table, cost, None, _empty(account), meter, analyst))
        return Quote(tuple(quotes), tuple(shares))


def _empty(account: Account) -> Meter:
    return meter_for(account.relation, account.measure)


def _change(
    before: Filters, after: Filters, table: str, analyst: str | None = None
) -> tuple[Meter, Meter]:
    return before.meters[table, analyst], after.meters[table, analyst]


def _quote(
    account: Account,
    table: str,
    cost: int,
    budget: int | None,
    before: Meter,
    after: Meter,
    analyst: str | None = None,
) -> TableQuote:
    """One table's quote; ``budget`` is None for a share that does not exist."""
    units = 0 if budget is None else budget
    return TableQuote(
        table=table,
        cost=from_units(cost),
        remaining_before=from_units(max(0, units - before.spent)),
        remaining_after=from_units(max(0, units - after.spent)),
        allowed=cost == 0 or after.spent <= units,
        measure=account.measure,
        analyst=analyst,
        has_share=budget is not None,
    )
