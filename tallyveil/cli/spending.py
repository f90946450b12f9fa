"""`tallyveil budget` and `tallyveil history`: what remains, and every charge. They read no data."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any

from tallyveil.accountant import (
    Account,
    Accountant,
    Balance,
    Budgets,
    Ledger,
    OdometerReading,
    Room,
    Spending,
    listed,
)
from tallyveil.accountant.declarations import budget_text, declaration, shares_text
from tallyveil.accountant.store.ledger_records import BudgetRecord, TableRecord
from tallyveil.cli.error_messages import message_lines, protected
from tallyveil.cli.text import Output, down, table, up
from tallyveil.cube import with_values
from tallyveil.errors import LedgerError
from tallyveil.gate.declared.ledger_witness import check_ledger
from tallyveil.gate.gate import accounts
from tallyveil.policy import Policy, load_policy

__all__ = ["budget", "history", "read_accountants"]

_COLUMNS = ("table", "unit", "budget", "spent", "remaining", "charges", "most_expensive")
_HISTORY = ("id", "time", "analyst", "table", "mechanism", "unit", "cost", "spent", "statement")
_OF_ANALYSTS = ("analyst", "table", *_COLUMNS[1:])
_BUDGETS = ("time", "table", "budget", "shares")
_BOUND = (
    "spent is an upper bound if there are too many charges to add up exactly, or to several tables"
    " that share a budget."
)
_PLACES = {"epsilon": 6, "rho": 9}


def budget(path: Path) -> Output:
    """Return each table's ε or ρ per privacy unit, and what each analyst has spent.

    ``spent`` is rounded up and ``remaining`` down. It does not open the confidential source, except
    for public tables in it that values come from, nor create a ledger.

    Raises PolicyError, LedgerError, LedgerMismatch.
    """
    policy = with_values(load_policy(path))
    rows = _rows(policy)
    return Output(rows, _lines(rows, policy.ledger), _older(policy))


def _older(policy: Policy) -> list[str]:
    """A warning if the ledger lacks what its witness saw."""
    if policy.ledger.exists():
        try:
            check_ledger(policy)
        except LedgerError as error:
            return message_lines("WARNING", error)
    return []


def _lines(rows: list[dict[str, Any]], ledger: Path) -> Iterator[str]:
    yield from table(_COLUMNS, rows)
    own = [{**one, "table": row["table"]} for row in rows for one in row["analysts"]]
    if own:
        yield from table(_OF_ANALYSTS, own)
    for tables in dict.fromkeys(tuple(row.get("shared", ())) for row in rows):
        if tables:
            yield f"{listed(tables)} have one budget: what is spent on one is spent on all."
    for row in rows:
        if row["delta"] is not None:
            yield (
                f"{row['table']}: epsilon {row['epsilon_spent']:.12g} of"
                f" {row['epsilon_budget']:.12g} is spent at delta {row['delta']:.12g}."
            )
    for row in rows:
        if row["recorded_rows"]:
            yield (
                f"{row['table']}: {row['recorded_rows']:,} rows recorded, room for"
                f" {row['rows_left']:,} rows and {row['bytes_left'] // 10**6:,} megabytes more."
            )
    if not all(row["exact"] for row in (*rows, *own)):
        yield _BOUND
    for row in rows:
        if row["in_force"] is not None:
            yield (
                f"{row['table']}: the policy was changed; {row['in_force']} is in force"
                " until a server of this policy is started or gets SIGHUP."
            )
    if ledger.exists():
        yield f"ledger: {ledger}"
    else:
        yield f"There is no ledger {ledger}: a new one would begin with the whole budget."


def _rows(policy: Policy) -> list[dict[str, Any]]:
    declared, given = _declared(policy), accounts(policy)
    with read_accountants(policy) as accountants:
        spending = [one for each in set(accountants.values()) for one in each.spending()]
        return [
            {
                "table": name,
                **_balance(_paying(policy, accountants, name).balance(policy.tables[name].payer)),
                "charges": len(accountant.history(name)),
                "most_expensive": accountant.most_expensive(name),
                **_room(accountant.room(name)),
                **({"shared": own} if len(own := policy.sharing(name)) > 1 else {}),
                "declared": declared[name],
                "in_force": _in_force(declared[name], given[name]),
                "analysts": [
                    _analyst_row(one) | _room(accountant.room(name, one.analyst))
                    for one in spending
                    if one.table == name
                ],
            }
            for name, accountant in accountants.items()
        ]


def _paying(policy: Policy, accountants: Mapping[str, Accountant], table: str) -> Accountant:
    """Return the accountant that knows what is spent of the table's budget."""
    return accountants[policy.tables[table].payer]


def _declared(policy: Policy) -> dict[str, list[dict[str, str]]]:
    """Return each table's budgets and shares as they were declared, oldest first."""
    found: dict[str, list[dict[str, str]]] = {name: [] for name in policy.tables}
    if policy.ledger.exists():
        with closing(Ledger(policy.ledger, create=False)) as ledger, ledger.snapshot() as view:
            for stored, _ in view.after(BudgetRecord):
                if stored.table in found:
                    time = dt.datetime.fromisoformat(stored.time).isoformat(timespec="seconds")
                    words = budget_text(stored.declared), shares_text(stored.declared)
                    row = {"time": time, "table": stored.table, "budget": words[0]}
                    found[stored.table].append(row | {"shares": words[1]})
    return found


def _in_force(declared: Sequence[Mapping[str, str]], given: Account) -> str | None:
    """Return the words of the budget and shares that the ledger has, if the policy has others."""
    text = declaration(given)
    own = {"budget": budget_text(text), "shares": shares_text(text)}
    if not declared or own.items() <= declared[-1].items():
        return None
    last = declared[-1]
    return last["budget"] + (f" ({last['shares']})" if last["shares"] else "")


@contextmanager
def read_accountants(policy: Policy) -> Iterator[dict[str, Accountant]]:
    """Yield an accountant for each table, without writing to the ledger.

    An accountant records tables that its ledger does not have. So tables whose budget has no
    charges get an accountant with a ledger in memory, as does a table that shares one and is new.
    """
    path, every = policy.ledger, accounts(policy)
    there = path.exists() or policy.ledger_file.must_exist
    with (
        closing(Ledger(path if there else ":memory:", create=False)) as ledger,
        closing(Ledger(":memory:")) as empty,
    ):
        with ledger.snapshot() as view:
            paid = {policy.tables[n].payer for n in view.charged_tables() if n in every}
            bound = {one.name for one, _ in view.after(TableRecord)}
        charged = {n for n in bound if n in every and policy.tables[n].payer in paid}
        given: Budgets = "as given"
        known = Accountant(ledger, {n: every[n] for n in every if n in charged}, given)
        fresh = Accountant(empty, {n: every[n] for n in every if n not in charged}, given)
        yield {name: known if name in charged else fresh for name in every}


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


def _analyst_row(one: Spending) -> dict[str, Any]:
    """Return an analyst's row. Without a share, ``budget`` and ``remaining`` are None."""
    row: dict[str, Any] = {"analyst": one.analyst, "charges": one.charges}
    row["most_expensive"] = one.most_expensive
    if one.share is not None:
        return row | _balance(one.share)
    spent = up(one.spent, _PLACES[one.measure])
    nothing = {"budget": None, "remaining": None}
    return row | {"unit": one.measure, "spent": spent, "exact": one.exact} | nothing


def history(path: Path, name: str | None) -> Output:
    """Return the charges to one table or all, oldest first.

    ``cost`` and ``spent`` are rounded up. ``unit`` is that of ``cost``, which differs from that of
    ``spent`` if the budget was changed to ρ later. It does not create a ledger.

    Raises PolicyError, UndefinedTable, LedgerError, LedgerMismatch.
    """
    policy = with_values(load_policy(path))
    names = list(policy.tables) if name is None else [protected(policy, name).name]
    with read_accountants(policy) as accountants:
        own = {accountants[name] for name in names}
        read = [one for accountant in own for one in accountant.odometer()]
    readings = [one for one in read if one.entry.table in names]
    rows = [_charge(reading) for reading in readings]
    bound = [] if all(reading.exact for reading in readings) else [_BOUND]
    declared = _declared(policy)
    budgets = sorted((one for name in names for one in declared[name]), key=itemgetter("time"))
    return Output(rows, [*table(_HISTORY, rows), *bound, *table(_BUDGETS, budgets)])


def _charge(reading: OdometerReading) -> dict[str, Any]:
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
