"""The filters: a meter over each table's budget, and one over each analyst's share of it.

A charge c by analyst a about table t costs unit j (a cell, or under replace a pair of cells) the
loss ℓ_c(j), in units of 10⁻¹² of the table's measure, rounded up. It passes if for every j, the
charges before it included,

    Σ ℓ_c(j) over all charges about t         ≤ budget of t
    Σ ℓ_c(j) over those charges by a          ≤ share of a in t

both rounded down to units. Each sum, or a bound on it, is a `Meter`; its docstring says why
refusing is a valid filter where questions are chosen adaptively, and docs/guarantees.md has the
proof, for budgets and for shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tallyveil.accountant.budgets.account import Account
from tallyveil.accountant.budgets.meter import Meter, meter_for
from tallyveil.accountant.budgets.quote import Quote, TableQuote
from tallyveil.mechanisms import Loss
from tallyveil.mechanisms.units import from_units

__all__ = ["Filters"]


@dataclass(frozen=True)
class Filters:
    """``after`` returns the filters after a charge, which a dry run only reads. Its meters never
    change; its ``accounts`` are those in force now."""

    accounts: Mapping[str, Account]
    tables: Mapping[str, Meter]
    shares: Mapping[tuple[str, str], Meter]

    @classmethod
    def unused(cls, accounts: dict[str, Account]) -> Filters:
        tables = {name: _empty(account) for name, account in accounts.items()}
        shares = {
            (name, analyst): tables[name]
            for name, account in accounts.items()
            for analyst in account.shares or ()
        }
        return cls(MappingProxyType(accounts), tables, shares)

    def after(self, table: str, analyst: str, loss: Loss) -> Filters:
        """The filters after a loss by a charge of ``analyst`` about ``table``."""
        tables = {**self.tables, table: self.tables[table].after(loss)}
        shares, own = self.shares, self.shares.get((table, analyst))
        if own is not None:
            shares = {**shares, (table, analyst): own.after(loss)}
        return Filters(self.accounts, tables, shares)

    def with_table(self, other: Filters, table: str) -> Filters:
        """These filters with the meters of ``other`` for one table."""
        shares = {
            key: other.shares[key] if key[0] == table else own for key, own in self.shares.items()
        }
        return Filters(self.accounts, {**self.tables, table: other.tables[table]}, shares)

    def within_shares(self, table: str) -> bool:
        """Whether no analyst has spent more than a share of a table."""
        shares = self.accounts[table].shares or {}
        return all(
            self.shares[table, analyst].spent <= own.units for analyst, own in shares.items()
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
            quotes.append(
                _quote(account, table, cost, account.units, self.tables[table], after.tables[table])
            )
            if account.shares is None:
                continue
            share, key = account.shares.get(analyst), (table, analyst)
            if share is not None:
                before, later = self.shares[key], after.shares[key]
                shares.append(_quote(account, table, cost, share.units, before, later, analyst))
            elif not custodian:
                shares.append(_quote(account, table, cost, None, _empty(account), meter, analyst))
        return Quote(tuple(quotes), tuple(shares))


def _empty(account: Account) -> Meter:
    return meter_for(account.relation, account.measure)


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
