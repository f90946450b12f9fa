"""What is guaranteed about a table, in one sentence: nothing promises more than that.

Its numbers are rounded up. A budget may be lowered below what is already spent; then the guarantee
is that of what is spent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tallyveil.accountant import Account, Balance, listed
from tallyveil.mechanisms.units import text_up
from tallyveil.policy import Policy, Table

__all__ = ["Guarantee", "guarantees"]

_EXACT = "; the invariants are exact and have no protection"
_DIGITS: Final = 6


@dataclass(frozen=True)
class Guarantee:
    """Which two tables it is ``about``. ``agreeing``: only tables that agree on invariants.
    ``several``: they differ in n records or units, else in one."""

    about: str
    agreeing: bool
    several: bool = False

    def sentence(self, balance: Balance) -> str:
        """The guarantee of all that is released together, answers in the past included."""
        exact = _EXACT if self.agreeing else ""
        return f"{self.about}, {_bound(balance, self.several)}{exact}"


def guarantees(policy: Policy, accounts: Mapping[str, Account]) -> dict[str, Guarantee]:
    """By table."""
    found = {}
    for name, table in policy.tables.items():
        others = _others(policy, accounts, table)
        several = bool(table.exact) and table.neighbours != "replace"
        about = _about(table, others)
        if len(policy.sharing(name)) > 1:
            about = about.replace("tables", f"versions of {listed(policy.sharing(name))}", 1)
        found[name] = Guarantee(about, bool(table.exact or others), several)
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
            own.may_share(accounts[name])
            or name in own.beside
            or table.name in accounts[name].beside
        )
    ]


def _about(table: Table, others: list[str]) -> str:
    """With invariants, the guarantee covers only tables that agree on them: others are
    distinguished with certainty. If these do not fix the number of records, two tables that agree
    on them need not be neighbours, and the records in which they differ are counted. The same holds
    if ``others`` have invariants that count the same records.
    """
    beside = f" of {', '.join(others)}, which may count the same records," if others else ""
    if not table.exact:
        agree = f" agree on the invariants{beside} and" if others else ""
        return f"for any two tables that{agree} differ in {_difference(table)}"
    beside = f", also those{beside}" if others else ""
    agree = f"for any two tables that agree on the invariants{beside} and"
    if table.neighbours == "replace":
        return f"{agree} differ in {_difference(table)}"
    moved = "records" if table.privacy_unit.column is None else table.privacy_unit.column
    return f"{agree} differ in n {moved} (one added or removed counts 1, one changed 2)"


def _difference(table: Table) -> str:
    unit, present = table.privacy_unit, table.neighbours == "add_remove"
    column = unit.column
    if column is not None and unit.per is not None:
        days = f"a {unit.per}" if unit.window == 1 else f"{unit.window} successive {unit.per}s"
        return f"the {'presence of the ' if present else ''}records of one {column} in {days}"
    if column is None:
        return "the presence of one record" if present else "one record's value"
    return f"the presence of one {column}" if present else f"the records of one {column}"


def _bound(balance: Balance, several: bool) -> str:
    if balance.delta is None:
        exponent = f"{'n ' if several else ''}{text_up(balance.bound, _DIGITS)}"
        return f"the probability of any answers differs by a factor of at most exp({exponent})"
    squared = "n^2 " if several else ""
    found = f"the answers are {squared}{text_up(balance.bound, _DIGITS)}-zCDP"
    if several:
        return found
    return (
        f"{found}: but for {text_up(balance.delta, _DIGITS)} their probability differs by a factor"
        f" of at most exp({text_up(balance.epsilon_bound, _DIGITS)})"
    )
