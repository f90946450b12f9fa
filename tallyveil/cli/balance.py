"""`tallyveil budget`: what remains, from the policy and the ledger alone."""

from __future__ import annotations

import json as json_format
from collections import Counter
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import typer

from tallyveil.accountant import Accountant, Balance, Ledger
from tallyveil.cli.text import aligned, down, up
from tallyveil.gate.gate import accounts
from tallyveil.policy import Policy, Table, load_policy

__all__ = ["budget"]

_COLUMNS = ("table", "budget", "spent", "remaining", "charges")


def budget(path: Path, *, json: bool) -> None:
    """Print each table's ε per privacy unit, or with ``json`` a list of objects.

    ``spent`` is rounded up and ``remaining`` down. The confidential source is not opened, and a
    ledger that is not there yet is not made.

    Raises PolicyError, LedgerError, LedgerMismatch.
    """
    policy = load_policy(path)
    found = policy.ledger.exists()
    rows = _rows(policy, found)
    if json:
        typer.echo(json_format.dumps(rows, ensure_ascii=False))
        return
    typer.echo("\n".join(aligned(_COLUMNS, [[row[name] for name in _COLUMNS] for row in rows])))
    if not all(row["exact"] for row in rows):
        typer.echo("spent is an upper bound where so much was asked that it is not added up.")
    typer.echo(f"ledger: {policy.ledger}" + ("" if found else " (not there: nothing was asked)"))


def _rows(policy: Policy, found: bool) -> list[dict[str, Any]]:
    with closing(Ledger(policy.ledger if found else ":memory:", create=False)) as ledger:
        with ledger.reading():
            charges = Counter(charge.table for charge in ledger.history(None))
        # An accountant writes down a table it has not met; looking must leave no trace.
        known = {name: account for name, account in accounts(policy).items() if charges[name]}
        accountant = Accountant(ledger, known)
        return [
            _row(name, _balance(accountant, name, table, charges[name]), charges[name])
            for name, table in policy.tables.items()
        ]


def _balance(accountant: Accountant, name: str, table: Table, charges: int) -> Balance:
    if charges:
        return accountant.balance(name)
    whole = table.budget.epsilon
    return Balance(budget=whole, spent=Fraction(0), remaining=whole, exact=True)


def _row(name: str, balance: Balance, charges: int) -> dict[str, Any]:
    return {
        "table": name,
        "budget": float(balance.budget),
        "spent": up(balance.spent),
        "remaining": down(balance.remaining),
        "charges": charges,
        "exact": balance.exact,
    }
