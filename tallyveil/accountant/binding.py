"""The binding of a ledger to the declarations of its tables, and to the data that was counted.

Charges add up, and answers may be combined, only while both stay the same. The data is identified
by a digest of the table's counts, from which all answers are computed, and of the units in each
cell, where there are privacy units: the same rows in another order or another file have the same
digest, and one more record changes it. Where there are none, two records that exchange their cells
do not. Its key is the ledger's own, so that ledgers of the same data cannot be linked. Still, a
reader of the ledger can test guesses of a small table. The digest is in no message and no log.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping

from tallyveil.accountant.budgets.account import Account
from tallyveil.accountant.changed_declaration import changes
from tallyveil.accountant.declarations import head_declared
from tallyveil.accountant.migrations import NONE, lineages
from tallyveil.accountant.store.ledger_records import BudgetRecord, DataRecord, TableRecord, now
from tallyveil.accountant.store.ledger_store import LedgerStore, Snapshot, Transaction
from tallyveil.errors import LedgerMismatch

__all__ = ["bind", "check_data", "check_moved", "check_tables", "remember_data"]


def bind(ledger: LedgerStore, transaction: Transaction, accounts: Mapping[str, Account]) -> None:
    """Add new tables to the ledger. Raises what `check_tables` does."""
    for table in check_tables(ledger, transaction, accounts):
        account = accounts[table]
        transaction.append(TableRecord(table, account.fingerprint, account.declared, now()))


def check_tables(ledger: LedgerStore, view: Snapshot, accounts: Mapping[str, Account]) -> list[str]:
    """The tables that are new to the ledger.

    Raises LedgerMismatch if a known table's declaration has changed, if a charged table that shared
    a budget is missing, if a table without charges may be one that was charged under another name,
    or if a new table reads a relation of the source that a charged one reads, unless the custodian
    declares that their budgets add up.
    """
    _check_shared(ledger, view, accounts)
    known = {one.name: one for one, _ in view.after(TableRecord)}
    for table, own in lineages(view).items():
        if table in accounts and own.fingerprint != accounts[table].fingerprint:
            changed = changes(own.declared, accounts[table].declared)
            raise _redeclared(ledger, view, table, changed)
    charged = view.charged_tables()
    for table in (name for name in accounts if name not in charged):
        # For tables charged before it was added, the custodian has declared so already.
        added = known[table].added if table in known else ""
        since = {name for name, first in charged.items() if first > added}
        unsaid = sorted(since - set(accounts[table].beside))
        gone = [name for name in unsaid if name not in accounts]
        if gone:
            raise _renamed(ledger.name, table, gone)
        alike = [name for name in unsaid if accounts[table].may_share(accounts[name])]
        head = accounts[table].head or table
        alike = [name for name in alike if (accounts[name].head or name) != head]
        if alike and table not in known:
            new = f'table "{table}" is new to the ledger {ledger.name}, and reads'
            raise _second_name(new, table, alike)
    return [table for table in accounts if table not in known]


def check_moved(view: Snapshot, accounts: Mapping[str, Account], moved: Iterable[str]) -> None:
    """Raise LedgerMismatch if a table that is read from elsewhere from now on reads a relation that
    another charged table reads, unless the custodian declares that their budgets add up."""
    charged = view.charged_tables().keys() & accounts.keys()
    for table in moved:
        own = accounts[table]
        alike = [
            name
            for name in sorted(charged - {table, *own.beside})
            if own.may_share(accounts[name]) and table not in accounts[name].beside
        ]
        if alike:
            raise _second_name(f'table "{table}" has charges, and is to read', table, alike)


def _check_shared(ledger: LedgerStore, view: Snapshot, accounts: Mapping[str, Account]) -> None:
    """Raise LedgerMismatch for a table that was charged to the budget of a table of the accounts,
    and is none of them: without it the budget would begin to be spent again."""
    heads = {one.table: head_declared(one.declared) for one, _ in view.after(BudgetRecord)}
    for table in view.charged_tables():
        head = heads.get(table)
        if table not in accounts and head in accounts:
            raise LedgerMismatch(
                f'the ledger {ledger.name} has charges of table "{table}" to the budget of'
                f' "{head}", and the policy declares no "{table}"',
                detail=f"Both have rows of the same units: what was spent on {table} counts for"
                f" {head} too.",
                hint=f"Declare table {table} again, as the ledger knows it.",
            )


def remember_data(ledger: LedgerStore, table: str, digest: Callable[[bytes], bytes]) -> None:
    """Bind the table to the data of this ``digest``, unless the ledger has other data for it.

    ``digest`` takes a key. It may take long, so it is computed outside of transactions.

    Raises LedgerMismatch.
    """
    mine = digest(ledger.key("data"))
    with ledger.transaction() as transaction:
        known = _digest(transaction, table)
        if known is None:
            transaction.append(DataRecord(table, mine, now()))
            return
    _compare(ledger, table, known, mine)


def check_data(ledger: LedgerStore, table: str, digest: Callable[[bytes], bytes]) -> None:
    """As `remember_data`, but write nothing."""
    with ledger.snapshot() as view:
        known = _digest(view, table)
    if known is not None:
        _compare(ledger, table, known, digest(ledger.key("data")))


def _digest(view: Snapshot, table: str) -> bytes | None:
    """The digest of the data that the table is bound to, None if to none yet."""
    migrations = lineages(view).get(table, NONE).migrations
    if migrations:
        return migrations[-1].digest
    return next((one.digest for one, _ in view.after(DataRecord) if one.table == table), None)


def _compare(ledger: LedgerStore, table: str, known: bytes, found: bytes) -> None:
    if hmac.compare_digest(known, found):
        return
    with ledger.snapshot() as view:
        hint = _restore(
            ledger,
            view,
            "data",
            "To answer from other data, name another file as ledger: it begins with the whole"
            " budget, and a person in both data can lose both budgets. Where data keeps changing,"
            ' declare data = "replace" there, or append: one budget then holds for all versions.',
        )
    raise LedgerMismatch(
        f'the source holds other data of table "{table}" than the ledger {ledger.name} knows',
        detail='With data = "fixed", all answers about a table are about the same rows: they are'
        " combined with each other, and charged as such.",
        hint=hint,
    )


def _redeclared(
    ledger: LedgerStore, view: Snapshot, table: str, changed: list[str]
) -> LedgerMismatch:
    unseen = "The source's url or from differs in a part that may be a secret, and is not recorded."
    carry = (
        "If the table has the same records, declared in another way, carry the ledger over:"
        " tallyveil migrate POLICY."
    )
    return LedgerMismatch(
        f'the ledger {ledger.name} belongs to another declaration of table "{table}"',
        detail="\n".join(changed) or unseen,
        hint=_restore(
            ledger,
            view,
            "policy",
            f"{carry} Only if it holds other people's records than before, start"
            " a new ledger file: a new ledger starts with the whole budget.",
        ),
    )


def _restore(ledger: LedgerStore, view: Snapshot, what: str, otherwise: str) -> str:
    """The hint on how to continue with a changed table or its data."""
    if view.charged_tables():
        return f"Restore the {what} the ledger was made with. {otherwise}"
    return (
        f"Nothing was charged yet: delete the ledger, and with it what was counted: the folders"
        f" {ledger.name}.slices and cubes of the policy, if there are any. They are made anew for"
        f" this {what}."
    )


def _renamed(ledger: str, table: str, gone: list[str]) -> LedgerMismatch:
    return LedgerMismatch(
        f"the ledger {ledger} has charges of {_listed(gone)}, which the policy no longer declares,"
        f' and none of "{table}", which it does',
        detail=f'Table "{table}" would begin with the whole budget. If it holds the same people,'
        " more would be learnt about them than was promised.",
        hint="If the table was renamed, give it back its name: analysts' names for it can be"
        f" views. If it is another table, say so with {_beside(gone, table)}; for people in both,"
        " the budgets add up.",
    )


def _second_name(reads: str, table: str, alike: list[str]) -> LedgerMismatch:
    return LedgerMismatch(
        f"{reads} the same rows of the source as {_listed(alike)}, which has charges",
        detail=f'Table "{table}" has a budget of its own: both budgets together could be spent on a'
        " record that is in both.",
        hint=f"If it is only another name, use a view. If both budgets are meant, say so with"
        f" {_beside(alike, table)}.",
    )


def _listed(tables: list[str]) -> str:
    names = ", ".join(f'"{name}"' for name in tables)
    return f"table {names}" if len(tables) == 1 else f"tables {names}"


def _beside(others: list[str], table: str) -> str:
    names = ", ".join(f'"{name}"' for name in others)
    return f"beside = [{names}] in [tables.{table}]"
