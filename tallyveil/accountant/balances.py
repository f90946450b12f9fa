"""What a ledger says of budgets: balances and shares, who has bought what, the odometer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from tallyveil.accountant.books import Books
from tallyveil.accountant.chain import START
from tallyveil.accountant.expensive import most_expensive
from tallyveil.accountant.ledger import Ledger
from tallyveil.accountant.meter import Meter, meter_for
from tallyveil.accountant.stored import entry
from tallyveil.accountant.values import Account, Balance, Charge, Entry, Reading, Room, Spending
from tallyveil.errors import UndefinedTable
from tallyveil.locks import Rank, ranked_lock
from tallyveil.mechanisms.units import from_units

__all__ = ["Balances"]


class Balances:
    """The part of `Accountant` that only looks."""

    def __init__(self, ledger: Ledger, accounts: Mapping[str, Account], books: Books) -> None:
        self._ledger = ledger
        self._accounts = accounts
        self._books = books
        self._lock = ranked_lock(Rank.ACCOUNTANT)

    def balance(self, table: str) -> Balance:
        account = self._account(table)
        with self._taken_in() as books:
            meter = books.filters.tables[table]
        return account.balance(meter.spent, meter.exact)

    def share(self, table: str, analyst: str) -> Balance | None:
        """An analyst's share of a table's budget, and what of it the analyst's purchases have
        spent; of no share nothing remains. None where the table has no shares.
        """
        account = self._account(table)
        with self._taken_in() as books:
            meter = books.filters.shares.get((table, analyst))
        if meter is None:
            return account.share_balance(analyst, 0, True)
        return account.share_balance(analyst, meter.spent, meter.exact)

    def room(self, table: str, analyst: str | None = None) -> Room:
        """What is recorded of a table, and what may be still: in all, or asked by an analyst."""
        self._account(table)
        with self._taken_in() as books:
            return books.recording.room(table, analyst)

    def most_expensive(self, table: str, analyst: str | None = None) -> str | None:
        """The cells most is spent on, as `expensive.most_expensive` tells them: in all, or by what
        an ``analyst`` with a share has bought. None where nothing is spent.
        """
        account = self._account(table)
        with self._taken_in() as books:
            meters = books.filters
        meter = meters.tables[table] if analyst is None else meters.shares.get((table, analyst))
        return None if meter is None else most_expensive(meter, account.domain)

    def spending(self) -> list[Spending]:
        """What each analyst in the ledger or with a share has bought, by table and name.

        Those without a share have no meter: their charges are composed anew.
        """
        numbers: dict[tuple[str, str], int] = defaultdict(int)
        others: dict[tuple[str, str], list[Charge]] = defaultdict(list)
        with self._lock, self._books.reading():
            meters = self._books.filters.shares
            for stored, _ in self._ledger.charges_after(START):
                key = stored.table, stored.analyst
                numbers[key] += 1
                if key not in meters and stored.table in self._accounts:
                    others[key].append(self._books.charge(stored))
        found = []
        for table, account in self._accounts.items():
            names = {analyst for name, analyst in (*numbers, *meters) if name == table}
            for analyst in sorted(names):
                meter = meters.get((table, analyst)) or self._composed(others[table, analyst])
                found.append(
                    Spending(
                        table,
                        analyst,
                        numbers[table, analyst],
                        from_units(meter.spent),
                        meter.exact,
                        account.measure,
                        account.share_balance(analyst, meter.spent, meter.exact),
                        most_expensive(meter, account.domain),
                    )
                )
        return found

    def history(self, table: str | None = None) -> list[Entry]:
        """Every charge, or a table's, oldest first. Public: it holds no answer."""
        with self._lock, self._ledger.reading():
            stored = self._ledger.history(table)
        return [entry(charge) for charge in stored]

    def odometer(self) -> list[Reading]:
        """Every charge of the accounts' tables, oldest first, with what was spent after it."""
        with self._lock, self._books.reading():
            stored, after = self._ledger.history(None), dict(self._books.readings)
        readings = []
        for charge in stored:
            account = self._accounts.get(charge.table)
            if account is not None:
                spent, exact = after[charge.id]
                readings.append(Reading(entry(charge), from_units(spent), exact, account.measure))
        return readings

    @contextmanager
    def _taken_in(self) -> Iterator[Books]:
        """What follows from the ledger as it is now."""
        with self._lock:
            self._books.refresh()
            yield self._books

    def _composed(self, charges: Sequence[Charge]) -> Meter:
        """A meter over some charges about one table, at least one."""
        account = self._accounts[charges[0].workload.table]
        meter = meter_for(account.relation, account.measure)
        for charge in charges:
            meter = meter.after(self._books.pricing.loss(charge))
        return meter

    def _account(self, table: str) -> Account:
        account = self._accounts.get(table)
        if account is None:
            raise UndefinedTable(f'there is no protected table "{table}"')
        return account
