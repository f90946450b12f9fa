"""`tallyveil budget`: what remains, from the policy and the ledger alone."""

from __future__ import annotations

import json as json_format
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import typer

from tallyveil.accountant import Accountant, Balance, Ledger
from tallyveil.cli.text import aligned, down, up
from tallyveil.gate.gate import accounts
from tallyveil.policy import Policy, load_policy

__all__ = ["budget"]

_COLUMNS = ("table", "unit", "budget", "spent", "remaining", "charges")
_PLACES = {"epsilon": 6, "rho": 9}


def budget(path: Path, *, json: bool) -> None:
    """Print each table's ε or ρ per privacy unit, or with ``json`` a list of objects.

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
    for row in rows:
        if row["delta"] is not None:
            typer.echo(
                f"{row['table']}: epsilon {row['epsilon_spent']:g} of {row['epsilon_budget']:g}"
                f" is spent at delta {row['delta']:g}."
            )
    if not all(row["exact"] for row in rows):
        typer.echo("spent is an upper bound where so much was asked that it is not added up.")
    typer.echo(f"ledger: {policy.ledger}" + ("" if found else " (not there: nothing was asked)"))


def _rows(policy: Policy, found: bool) -> list[dict[str, Any]]:
    with closing(Ledger(policy.ledger if found else ":memory:", create=False)) as ledger:
        with ledger.reading():
            charges = Counter(charge.table for charge in ledger.history(None))
        # An accountant writes down a table it has not met; looking must leave no trace.
        every = accounts(policy)
        accountant = Accountant(ledger, {n: every[n] for n in every if charges[n]})
        return [
            _row(
                name,
                accountant.balance(name) if charges[name] else account.balance(0, True),
                charges[name],
            )
            for name, account in every.items()
        ]


def _row(name: str, balance: Balance, charges: int) -> dict[str, Any]:
    places = _PLACES[balance.measure]
    declared = balance.delta is None or balance.epsilon is None
    return {
        "table": name,
        "unit": balance.measure,
        "budget": float(balance.budget) if declared else down(balance.budget, places),
        "spent": up(balance.spent, places),
        "remaining": down(balance.remaining, places),
        "charges": charges,
        "exact": balance.exact,
        "delta": None if balance.delta is None else float(balance.delta),
        "epsilon_budget": up(balance.epsilon_budget),
        "epsilon_spent": up(balance.epsilon_spent),
    }
