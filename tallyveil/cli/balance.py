"""`tallyveil budget`: what remains, from the policy and the ledger alone."""

from __future__ import annotations

import json as json_format
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import typer

from tallyveil.accountant import Account, Accountant, Amount, Balance, Ledger, Room, Spending
from tallyveil.cli.text import aligned, down, up
from tallyveil.gate.gate import accounts
from tallyveil.policy import Policy, load_policy

__all__ = ["budget"]

_COLUMNS = ("table", "unit", "budget", "spent", "remaining", "charges", "most_expensive")
_OF_ANALYSTS = ("analyst", "table", *_COLUMNS[1:])
_PLACES = {"epsilon": 6, "rho": 9}


def budget(path: Path, *, json: bool) -> None:
    """Print each table's ε or ρ per privacy unit and what each analyst has bought, or with ``json``
    a list of objects.

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
    _print(_COLUMNS, rows)
    own = [{**row, "table": table["table"]} for table in rows for row in table["analysts"]]
    if own:
        _print(_OF_ANALYSTS, own)
    for row in rows:
        if row["delta"] is not None:
            typer.echo(
                f"{row['table']}: epsilon {row['epsilon_spent']:g} of {row['epsilon_budget']:g}"
                f" is spent at delta {row['delta']:g}."
            )
    for row in rows:
        if row["recorded_rows"]:
            typer.echo(
                f"{row['table']}: {row['recorded_rows']:,} rows recorded, room for"
                f" {row['rows_left']:,} rows and {row['bytes_left'] // 10**6:,} megabytes more."
            )
    if not all(row["exact"] for row in (*rows, *own)):
        typer.echo("spent is an upper bound where so much was asked that it is not added up.")
    typer.echo(f"ledger: {policy.ledger}" + ("" if found else " (not there: nothing was asked)"))


def _print(columns: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    typer.echo("\n".join(aligned(columns, [[row[name] for name in columns] for row in rows])))


def _rows(policy: Policy, found: bool) -> list[dict[str, Any]]:
    with closing(Ledger(policy.ledger if found else ":memory:", create=False)) as ledger:
        with ledger.reading():
            charges = Counter(charge.table for charge in ledger.history(None))
        # An accountant writes down a table it has not met; looking must leave no trace.
        every = accounts(policy)
        accountant = Accountant(ledger, {n: every[n] for n in every if charges[n]})
        spending = accountant.spending()
        return [
            {
                "table": name,
                **_balance(accountant.balance(name) if charges[name] else account.balance(0, True)),
                "charges": charges[name],
                "most_expensive": accountant.most_expensive(name) if charges[name] else None,
                **_room(accountant.room(name) if charges[name] else account.room(Amount())),
                "analysts": [
                    _of_analyst(one) | _room(accountant.room(name, one.analyst))
                    for one in spending
                    if one.table == name
                ]
                or _unspent(account),
            }
            for name, account in every.items()
        ]


def _room(room: Room) -> dict[str, Any]:
    return {
        "recorded_rows": room.held.rows,
        "recorded_bytes": room.held.size,
        "rows_left": room.left.rows,
        "bytes_left": room.left.size,
    }


def _balance(balance: Balance) -> dict[str, Any]:
    places = _PLACES[balance.measure]
    declared = balance.delta is None or balance.epsilon is None
    return {
        "unit": balance.measure,
        "budget": float(balance.budget) if declared else down(balance.budget, places),
        "spent": up(balance.spent, places),
        "remaining": down(balance.remaining, places),
        "exact": balance.exact,
        "delta": None if balance.delta is None else float(balance.delta),
        "epsilon_budget": up(balance.epsilon_budget),
        "epsilon_spent": up(balance.epsilon_spent),
    }


def _of_analyst(one: Spending) -> dict[str, Any]:
    """Without a share there is no budget, and nothing is said to remain."""
    row: dict[str, Any] = {"analyst": one.analyst, "charges": one.charges}
    row["most_expensive"] = one.most_expensive
    if one.share is not None:
        return row | _balance(one.share)
    spent = up(one.spent, _PLACES[one.measure])
    nothing = {"budget": None, "remaining": None}
    return row | {"unit": one.measure, "spent": spent, "exact": one.exact} | nothing


def _unspent(account: Account) -> list[dict[str, Any]]:
    """The shares of a table nobody has asked about."""
    rows = []
    for analyst in sorted(account.shares or ()):
        balance = account.share_balance(analyst, 0, True)
        if balance is not None:
            row = {"analyst": analyst, "charges": 0, "most_expensive": None}
            rows.append(row | _balance(balance) | _room(account.room(Amount(), Amount())))
    return rows
