"""Budgets and shares as policies declare them: recorded in the ledger, and in force once recorded.

A process that opens a ledger with a policy records the budget and the shares of each table where
they differ from the last ones recorded. The last ones hold for all processes of the ledger, which
read them before they decide on a charge. So the chain of the ledger proves who could have spent how
much, and when.

A running process cannot adopt everything: a budget of another unit, and shares of analysts for whom
it keeps no meter, since they had none when it started. It then stays on the private side: the
budget stays as it was, and these analysts cannot buy anything from it until it is restarted. Nobody
can once another process charges the budget for a table that shares it and is unknown here.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Container, Mapping, MutableMapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

from tallyveil.accountant.budgets.account import OTHERS, Account, Share
from tallyveil.accountant.budgets.filters import Whose
from tallyveil.accountant.store.chain import START, Position
from tallyveil.accountant.store.ledger_records import BudgetRecord, now
from tallyveil.accountant.store.ledger_store import Snapshot, Transaction
from tallyveil.events import report
from tallyveil.mechanisms.units import text_up

__all__ = [
    "adopt", "budget_text", "budgets_end", "close_shared", "declaration", "declare",
    "head_declared", "shares_text",
]  # fmt: skip

_DIGITS: Final = 12


def declaration(account: Account) -> str:
    """The budget and shares as the ledger records them."""
    shares = account.shares
    own = None if shares is None else {n: _amount(shares[n]) for n in sorted(shares)}
    found = {"measure": account.measure, "delta": _text(account.delta), **_amount(account)}
    head = {} if account.head is None else {"head": account.head}
    kept = {"reserved": str(account.reserved)} if account.reserved else {}
    return json.dumps(found | {"shares": own} | head | kept)


def head_declared(declared: str) -> str | None:
    """The table whose budget is shared, by a recorded budget; None for a budget of its own."""
    head: str | None = json.loads(declared).get("head")
    return head


def close_shared(
    accounts: MutableMapping[str, Account], table: str, heads: Mapping[str, str | None]
) -> None:
    """Close the budget that a charged ``table`` shares, if the table is unknown here: its charges
    cannot be counted."""
    head = heads.get(table)
    if table in accounts or head is None or head not in accounts:
        return
    if not accounts[head].closed:
        accounts[head] = replace(accounts[head], closed=True)
        _restart(head, f"table {table} shares its budget, and the policy did not declare it")


def _amount(of: Account | Share) -> dict[str, str | None]:
    return {"budget": _text(of.budget), "epsilon": _text(of.epsilon)}


def _text(number: Fraction | None) -> str | None:
    return None if number is None else str(number)


def declare(transaction: Transaction, accounts: Mapping[str, Account]) -> Position:
    """Record what is not recorded yet, and return the end of the records."""
    last = {stored.table: stored.declared for stored, _ in transaction.after(BudgetRecord)}
    for table, account in accounts.items():
        declared = declaration(account)
        if last.get(table) != declared:
            transaction.append(BudgetRecord(now(), table, declared))
            _report("budget declared", table, declared)
    return budgets_end(transaction)


def budgets_end(view: Snapshot) -> Position:
    """The end of the records of budgets."""
    return max((end for _, end in view.after(BudgetRecord)), default=START)


def adopt(
    accounts: MutableMapping[str, Account],
    stored: BudgetRecord,
    meters: Container[Whose],
) -> None:
    """Let what was recorded hold from now on, as far as possible. ``meters`` are those of shares,
    by table and analyst."""
    table, account = stored.table, accounts.get(stored.table)
    if account is None or declaration(account) == stored.declared:
        return
    found = json.loads(stored.declared)
    if (found["measure"], found["delta"]) != (account.measure, _text(account.delta)):
        _restart(table, "its budget has another unit")
        return
    shares, reserved = found["shares"], Fraction(found.get("reserved", 0))
    if reserved and (table, OTHERS) not in meters:
        _restart(table, "its plans are new")
        return
    own = None
    if shares is not None:
        own = {n: Share(**_numbers(one)) for n, one in shares.items() if (table, n) in meters}
        if len(own) < len(shares):
            _restart(table, f"new shares: {', '.join(sorted(shares.keys() - own.keys()))}")
    accounts[table] = replace(account, **_numbers(found), shares=own, reserved=reserved)
    _report("budget changed", table, stored.declared)


def _numbers(amount: Mapping[str, str | None]) -> dict[str, Any]:
    epsilon = amount["epsilon"]
    return {
        "budget": Fraction(amount["budget"] or 0),
        "epsilon": None if epsilon is None else Fraction(epsilon),
    }


def _restart(table: str, reason: str) -> None:
    report("restart needed", level=logging.WARNING, table=table, reason=reason)


def _report(event: str, table: str, declared: str) -> None:
    shares = shares_text(declared) or "none"
    report(event, table=table, budget=budget_text(declared), shares=shares)


def budget_text(declared: str) -> str:
    """A recorded budget in words, such as "epsilon 3" or "epsilon 3 at delta 1e-09"."""
    found = json.loads(declared)
    return _words(found, found) + _at(found["delta"])


def shares_text(declared: str) -> str:
    """Recorded shares in words; empty if everybody may spend the budget."""
    found = json.loads(declared)
    shares = found["shares"]
    if shares is None:
        return ""
    return "; ".join(f"{name} {_words(one, found)}" for name, one in shares.items()) or "nobody"


def _words(amount: Mapping[str, str | None], of: Mapping[str, Any]) -> str:
    declared = amount["epsilon"]
    measure = of["measure"] if declared is None else "epsilon"
    return f"{measure} {text_up(Fraction(declared or amount['budget'] or 0), _DIGITS)}"


def _at(delta: str | None) -> str:
    return "" if delta is None else f" at delta {float(Fraction(delta)):g}"
