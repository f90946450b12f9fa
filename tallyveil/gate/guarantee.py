"""What is guaranteed about a table, in one sentence: no more than that is said anywhere."""

from __future__ import annotations

from tallyveil.accountant import Account
from tallyveil.policy import Table

__all__ = ["guarantee"]

_EXACT = "; the invariants are exact and have no protection"


def guarantee(table: Table, account: Account) -> str:
    """Where there are invariants all that can be said is said of tables that agree on them: others
    are told apart with certainty. Where these do not fix the number of records, two tables that
    agree on them need not be neighbours, and it counts what is moved from the one to the other.
    """
    if not table.exact:
        return f"for any two tables that differ in {_difference(table)}, {_bound(account)}"
    agree = "for any two tables that agree on the invariants and"
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
    """Of all that is released together."""
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
