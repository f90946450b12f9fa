"""`tallyveil history`: every charge and the odometer, from the policy and the ledger alone."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import typer

from tallyveil.accountant import Accountant, Balance, Ledger, Reading
from tallyveil.cli.plotting import spending
from tallyveil.cli.text import aligned, up
from tallyveil.errors import UndefinedTable
from tallyveil.gate.gate import accounts
from tallyveil.policy import Policy, load_policy

__all__ = ["history"]

_COLUMNS = ("id", "time", "analyst", "table", "mechanism", "unit", "cost", "spent", "statement")
_PLACES = {"epsilon": 6, "rho": 9}


def history(path: Path, table: str | None, plot: Path | None, *, json: bool) -> None:
    """Print the charges about ``table`` or all, oldest first, and draw the spending to ``plot``.

    ``cost`` and ``spent`` are rounded up; ``unit`` is that of ``cost`` where the budget has become
    one of ρ since. A ledger that is not there yet is not made.

    Raises PolicyError, UndefinedTable, LedgerError, LedgerMismatch, and what `spending` raises.
    """
    policy = load_policy(path)
    if table is not None and table not in policy.tables:
        known = ", ".join(policy.tables)
        raise UndefinedTable(f'there is no protected table "{table}"', hint=f"Known: {known}.")
    names = list(policy.tables) if table is None else [table]
    readings, balances = _read(policy, names)
    rows = [_row(reading) for reading in readings]
    if plot is not None:
        drawn = [(n, balances[n], [r for r in readings if r.entry.table == n]) for n in names]
        spending(drawn, plot)
    if json:
        typer.echo(json_format.dumps(rows, ensure_ascii=False))
        return
    typer.echo("\n".join(aligned(_COLUMNS, [[row[name] for name in _COLUMNS] for row in rows])))
    if not all(reading.exact for reading in readings):
        typer.echo("spent is an upper bound where so much was asked that it is not added up.")


def _read(policy: Policy, names: Sequence[str]) -> tuple[list[Reading], dict[str, Balance]]:
    found = policy.ledger.exists()
    with closing(Ledger(policy.ledger if found else ":memory:", create=False)) as ledger:
        with ledger.reading():
            charged = {charge.table for charge in ledger.history(None)}
        # An accountant writes down a table it has not met; looking must leave no trace.
        every = accounts(policy)
        accountant = Accountant(ledger, {n: every[n] for n in every if n in charged})
        balances = {
            n: accountant.balance(n) if n in charged else every[n].balance(0, True) for n in names
        }
        return [one for one in accountant.odometer() if one.entry.table in names], balances


def _row(reading: Reading) -> dict[str, Any]:
    entry = reading.entry
    return {
        "id": entry.charge_id,
        "time": entry.time.isoformat(timespec="seconds"),
        "analyst": entry.analyst,
        "table": entry.table,
        "mechanism": entry.mechanism,
        "unit": entry.measure,
        "cost": up(entry.cost, _PLACES[entry.measure]),
        "spent": up(reading.spent, _PLACES[reading.measure]),
        "spent_unit": reading.measure,
        "exact": reading.exact,
        "statement": entry.sql,
    }
