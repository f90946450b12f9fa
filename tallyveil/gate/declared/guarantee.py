"""What is guaranteed about a table, in one sentence: nothing promises more than that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tallyveil.accountant import Account
from tallyveil.policy import Policy, Table

__all__ = ["Guarantee", "guarantees"]

_EXACT = "; the invariants are exact and have no protection"


class Guarantee(NamedTuple):
    """``agreeing``: it covers only tables that agree on invariants."""

    sentence: str
    agreeing: bool


def guarantees(policy: Policy, accounts: Mapping[str, Account]) -> dict[str, Guarantee]:
    """By table."""
    found = {}
    for name, table in policy.tables.items():
        others = _others(policy, accounts, table)
        sentence = _sentence(table, accounts[name], others)
        found[name] = Guarantee(sentence, bool(table.exact or others))
    return found


def _others(policy: Policy, accounts: Mapping[str, Account], table: Table) -> list[str]:
    """The tables whose invariants may count the same records, in their order. Under replace a
    public number of records makes no difference."""
    own = accounts[table.name]
    return [
        name
        for name, other in policy.tables.items()
        if name != table.name
        and (other.invariants if table.neighbours == "replace" else other.exact)
        and (
            own.reads & accounts[name].reads
            or name in own.beside
            or table.name in accounts[name].beside
        )
    ]


def _sentence(table: Table, account: Account, others: list[str]) -> str:
    """With invariants, the guarantee covers only tables that agree on them: others are
    distinguished with certainty. If these do not fix the number of records, two tables that agree
    on them need not be neighbours, and the records in which they differ are counted. The same holds
    if ``others`` have invariants that count the same records.
    """
    beside = f" of {', '.join(others)}, which may count the same records," if others else ""
    if not table.exact:
        agree, exact = (f" agree on the invariants{beside} and", _EXACT) if others else ("", "")
        return (
            f"for any two tables that{agree} differ in {_difference(table)}, {_bound(account)}"
            f"{exact}"
        )
    beside = f", also those{beside}" if others else ""
    agree = f"for any two tables that agree on the invariants{beside} and"
    if table.neighbours == "replace":
        return f"{agree} differ in {_difference(table)}, {_bound(account)}{_EXACT}"
    moved = "records" if table.privacy_unit.column is None else table.privacy_unit.column
    return (
        f"{agree} differ in n {moved} (one added or removed counts 1, one changed 2),"
        f" {_bound(account, 'n ')}{_EXACT}"
    )


def _difference(table: Table) -> str:
    column, present = table.privacy_unit.column, table.neighbours == "add_remove"
    if column is None:
        return "the presence of one record" if present else "one record's value"
    return f"the presence of one {column}" if present else f"the records of one {column}"


def _bound(account: Account, times: str = "") -> str:
    """The bound for all that is released together."""
    if account.measure == "epsilon":
        exponent = f"{times}{float(account.budget):.6g}"
        return f"the probability of any answers differs by a factor of at most exp({exponent})"
    squared = times.replace("n", "n^2")
    found = f"the answers are {squared}{float(account.budget):.6g}-zCDP"
    if times:
        return found
    epsilon = float(account.balance(0, exact=True).epsilon_budget)
    return (
        f"{found}: but for {float(account.delta or 0):g} their probability differs by a factor of"
        f" at most exp({epsilon:.6g})"
    )
