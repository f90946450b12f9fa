"""Reports on budgets from a ledger: balances and shares, charges by analyst, the odometer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Final

from tallyveil import deadline
from tallyveil.accountant.budgets.account import Account, Balance, Room
from tallyveil.accountant.budgets.expensive import most_expensive
from tallyveil.accountant.budgets.meter import Meter, meter_for
from tallyveil.accountant.budgets.recomposition import published_rows
from tallyveil.accountant.charges import Answer, Charge, Entry, OdometerReading, Spending
from tallyveil.accountant.derivation import Derivation
from tallyveil.accountant.ledger_state import LedgerState
from tallyveil.accountant.memory import Release
from tallyveil.accountant.store.ledger_store import LedgerStore, Seen
from tallyveil.accountant.store.records import ChargeRecord
from tallyveil.errors import UndefinedTable
from tallyveil.locks import Rank, ranked_lock
from tallyveil.mechanisms.units import from_units

__all__ = ["BudgetReports"]

_COMPOSED: Final = 400  # the most charges of a table that are composed anew while others wait
_LAST: Final = 20  # charges before this number is reached


class BudgetReports:
    """The part of `Accountant` that only reads."""

    def __init__(
        self, ledger: LedgerStore, accounts: Mapping[str, Account], state: LedgerState
    ) -> None:
        self._ledger = ledger
        self._accounts = accounts
        self._state = state
        self._lock = ranked_lock(Rank.ACCOUNTANT)

    def balance(self, table: str) -> Balance:
        with self._up_to_date() as state:
            account = self._account(table)
            meter = state.filters.tables[table]
        return account.balance(meter.spent, meter.exact)

    def share(self, table: str, analyst: str) -> Balance | None:
        """An analyst's share of a table's budget, and how much of it the analyst's charges have
        spent; without a share nothing remains. None where the table has no shares.
        """
        with self._up_to_date() as state:
            account = self._account(table)
            meter = state.filters.shares.get((table, analyst))
        if meter is None:
            return account.share_balance(analyst, 0, True)
        return account.share_balance(analyst, meter.spent, meter.exact)

    def room(self, table: str, analyst: str | None = None) -> Room:
        """The amounts recorded of a table and left, in total or for one analyst's questions."""
        self._account(table)
        with self._up_to_date() as state:
            return state.recording.room(table, analyst)

    def most_expensive(self, table: str, analyst: str | None = None) -> str | None:
        """The cells on which most is spent, as `expensive.most_expensive` describes them: in total,
        or by the charges of an ``analyst`` with a share. None where nothing is spent.
        """
        account = self._account(table)
        with self._up_to_date() as state:
            meters = state.filters
        meter = meters.tables[table] if analyst is None else meters.shares.get((table, analyst))
        return None if meter is None else most_expensive(meter, account.domain)

    def spending(self) -> list[Spending]:
        """The spending of each analyst in the ledger or with a share, by table and name.

        Analysts without a share have no meter, so their charges are composed anew.
        """
        numbers: dict[tuple[str, str], int] = defaultdict(int)
        others: dict[tuple[str, str], dict[int, Charge]] = defaultdict(dict)
        with self._lock, self._state.reading() as view:
            meters = self._state.filters.shares
            for stored, position in view.after(ChargeRecord):
                key = stored.table, stored.analyst
                numbers[key] += 1
                translated = stored.table in self._state.translated
                if stored.table in self._accounts and (translated or key not in meters):
                    others[key][position.number] = self._state.recomposition.charge(stored)
        plainly = {n for own in others.values() for one in own.values() for n in one.plainly}
        found = []
        for table, account in self._accounts.items():
            names = {analyst for name, analyst in (*numbers, *meters) if name == table}
            for analyst in sorted(names):
                meter = meters.get((table, analyst)) or self._composed(
                    table,
                    [
                        replace(charge, translates=()) if n in plainly else charge
                        for n, charge in others[table, analyst].items()
                    ],
                )
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
        with self._lock, self._ledger.snapshot() as view:
            return view.history(table)

    def odometer(self) -> list[OdometerReading]:
        """Every charge of the accounts' tables, oldest first, with what was spent after it."""
        with self._lock, self._state.reading() as view:
            entries, after = view.history(None), self._state.readings.every()
        return [
            OdometerReading(entry, from_units(spent), exact, self._accounts[entry.table].measure)
            for entry in entries
            if entry.table in self._accounts
            for spent, exact in [after[entry.charge_id]]
        ]

    def cost(self, charge: Charge) -> Fraction:
        """The cost of a charge by itself, in the measure of its table's budget."""
        return from_units(self._state.pricing.loss(charge).bound)

    def best(self, charges: Sequence[Charge], analyst: str) -> Charge:
        """Of several charges for the same release, the one after which its table, and then the
        analyst's share of it, has lost least; among equals the one with the least cost of an
        average cell. Nothing is charged.

        Charges are skipped that cost no less by themselves than the first, or less than the least
        cost of a statement. Once the table has too many charges to compose them anew,
        charges that cost an average cell more are skipped too. Just before that, earlier translates
        are given up if the table has then lost less.
        """
        table = charges[0].table
        losses = [self._state.pricing.loss(charge) for charge in charges]
        least, most = self._accounts[table].least_cost, losses[0].bound
        better = [one.bound < most and from_units(one.bound) >= least for one in losses]
        with self._lock:
            many = len(self._state.memory.recorded[table])
            if many >= _COMPOSED:
                average = losses[0].average
                better = [
                    own and one.average <= average for own, one in zip(better, losses, strict=True)
                ]
            if not any(better) and table not in self._state.translated:
                return charges[0]
            self._state.refresh()
            filters = self._state.filters
        found = []
        for number, loss in enumerate(losses):
            if number and not better[number]:
                continue
            deadline.check()
            after = filters.after(table, analyst, loss)
            share = after.shares.get((table, analyst))
            spent = after.tables[table].spent, 0 if share is None else share.spent
            found.append((*spent, loss.average, number))
        highest, own, _, number = min(found)
        account = self._accounts[table]
        cap = (account.shares or {}).get(analyst)
        allowed = [charges[one[-1]] for one in found]
        if highest > account.units or (cap is not None and own > cap.units):
            return self._relieved(allowed, charges, analyst, account.units + 1) or allowed[0]
        relieved = None
        if _COMPOSED - _LAST <= many < _COMPOSED:
            relieved = self._relieved(allowed, charges, analyst, highest)
        return relieved or charges[number]

    def _relieved(
        self, allowed: Sequence[Charge], every: Sequence[Charge], analyst: str, below: int
    ) -> Charge | None:
        """A charge that is allowed once earlier translates by the same invariants, or by any, are
        given up, and after which the table has lost less than ``below``. Translates charge cells
        that nobody asked about; with many of them that is more than the cost of their rows."""
        table, state = allowed[0].table, self._state
        if table not in state.translated:
            return None
        rows = published_rows(every)
        with self._lock:
            state.refresh()
            filters = state.filters
            known = state.recomposition.translated(table, _COMPOSED)
            near = tuple(number for number, own in known.items() if rows & own)
            anew = [
                (plainly, state.recomposition.start(table, plainly))
                for plainly in filter(None, dict.fromkeys((near, tuple(known))))
            ]
        # A proposal made here is checked again when it is charged, so nobody needs to wait for it.
        for plainly, composition in anew:
            before = composition.of(filters)
            for charge in allowed:
                deadline.check()
                loss = state.pricing.loss(charge)
                after = before.after(table, analyst, loss)
                quote = filters.quote(after, [(table, loss)], analyst, custodian=True)
                less = after.tables[table].spent < below
                if less and quote.allowed and after.within_shares(table):
                    return replace(charge, plainly=plainly)
        return None

    def learned(
        self, table: str, releases: int, derivations: int
    ) -> tuple[list[Release], list[Derivation]]:
        """The answered charges of a table and its derivations from these numbers on, in one
        snapshot, which includes the answers of all derivations. More are only appended."""
        with self._up_to_date() as state:
            memory = state.memory
            return memory.recorded[table][releases:], memory.derivations[table][derivations:]

    def pending(self, table: str) -> list[Answer]:
        """Answers that are charged and not recorded yet, with NaN as values. They may be drawn at
        any moment, here or in another process."""
        with self._up_to_date() as state:
            return state.memory.pending(table)

    def seen(self) -> Seen:
        """The state of the ledger, for `Accountant.sell` to check that no more is charged or
        answered about a table than is known now."""
        with self._up_to_date() as state:
            return state.seen

    @property
    def events_read(self) -> int:
        """The number of charges and answers of other processes read from the ledger so far."""
        return self._state.events_read

    def wait(self, seconds: float) -> None:
        """Wait until others may have charged, answered or reported something, ``seconds`` at
        most."""
        self._ledger.wait(seconds)

    def bought_elsewhere(self) -> list[tuple[Charge, bool]]:
        """Charges that other processes are still answering or reporting, each with whether it is
        answered."""
        if not self._state.memory.elsewhere:
            return []
        with self._up_to_date() as state:
            asked = state.memory.asked
            return [(charge, number not in asked) for number, charge in state.going_on.items()]

    def position(self) -> Hashable:
        """A value that stays equal until any process charges or records something; None if that
        cannot be known. Never waits."""
        return self._ledger.position()

    def recorded(self, table: str) -> int:
        """The number of answered charges of a table."""
        with self._up_to_date() as state:
            return len(state.memory.recorded[table])

    def extent(self, table: str) -> tuple[int, int]:
        """How many answered charges and derivations of a table there are."""
        with self._up_to_date() as state:
            return len(state.memory.recorded[table]), len(state.memory.derivations[table])

    @contextmanager
    def _up_to_date(self) -> Iterator[LedgerState]:
        """The state, up to date with the ledger."""
        with self._lock:
            self._state.refresh()
            yield self._state

    def _composed(self, table: str, charges: Sequence[Charge]) -> Meter:
        """A meter over these charges about one table; at least one is needed."""
        account = self._accounts[table]
        meter = meter_for(account.relation, account.measure)
        for charge in charges:
            meter = meter.after(self._state.pricing.loss(charge))
        return meter

    def _account(self, table: str) -> Account:
        account = self._accounts.get(table)
        if account is None:
            raise UndefinedTable(f'there is no protected table "{table}"')
        return account
