"""Reports on budgets from a ledger: balances and shares, charges by analyst, the odometer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Final

from tallyveil import deadline
from tallyveil.accountant.budgets.account import OTHERS, PLANS, Account, Balance, Room
from tallyveil.accountant.budgets.expensive import most_expensive
from tallyveil.accountant.budgets.filters import Filters, Whose
from tallyveil.accountant.budgets.meter import Meter
from tallyveil.accountant.charges import Answer, Charge, Entry, OdometerReading, Spending
from tallyveil.accountant.derivation import Derivation
from tallyveil.accountant.ledger_state import LedgerState
from tallyveil.accountant.releases import Of, Release
from tallyveil.accountant.store.chain import Position
from tallyveil.accountant.store.ledger_copies import witness_of
from tallyveil.accountant.store.ledger_records import ChargeRecord
from tallyveil.accountant.store.ledger_store import LedgerStore, Seen
from tallyveil.accountant.store.standing import Standing
from tallyveil.errors import UndefinedTable
from tallyveil.locks import CheckedLock, Rank
from tallyveil.mechanisms.units import from_units

__all__ = ["BudgetReports"]

_PART: Final = 1_000  # charges that are read at a time
_MOMENT: Final = 0.001  # seconds between two looks whether a transaction is being written


class BudgetReports:
    """The part of `Accountant` that only reads."""

    def __init__(
        self, ledger: LedgerStore, accounts: Mapping[str, Account], state: LedgerState
    ) -> None:
        self._ledger = ledger
        self._accounts = accounts
        self._state = state
        self._standing = Standing(ledger)
        self._lock = CheckedLock(Rank.ACCOUNTANT)

    def balance(self, table: str) -> Balance:
        """What is left of the table's budget, which other tables may share (`sharing`)."""
        self._account(table)
        with self._known() as state:
            own = state.filters
        unplanned = own.spent(table, OTHERS)
        return own.account(table).balance(own.spent(table), own.exact(table), unplanned)

    def sharing(self, table: str) -> list[str]:
        """The tables that have the table's budget."""
        self._account(table)
        return self._state.filters.tables(table)

    def share(self, table: str, analyst: str) -> Balance | None:
        """An analyst's share of a table's budget, and how much of it the analyst's charges have
        spent; without a share nothing remains. None where the table has no shares.
        """
        self._account(table)
        with self._known() as state:
            own = state.filters
        spent = own.spent(table, analyst), own.exact(table, analyst)
        return own.account(table).share_balance(analyst, *spent)

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
            meter = state.filters.meters.get((table, analyst))
        return None if meter is None else most_expensive(meter, account.domain)

    def spending(self) -> list[Spending]:
        """The spending of each analyst in the ledger or with a share, by table and name.

        Analysts without a share have no meter, so their charges are added up anew.
        """
        numbers: dict[tuple[str, str], int] = defaultdict(int)
        with self._lock, self._state.reading() as view:
            charges = [one for one in view.after(ChargeRecord) if one[0].table in self._accounts]
            for stored, _ in charges:
                numbers[stored.table, stored.analyst] += 1
            known = self._state.filters.meters
            missing = [whose for whose in numbers if whose not in known]
            own = {
                whose: meter for whose, meter in known.items() if whose[1] not in (OTHERS, PLANS)
            }
            meters = {**own, **self._added_up(charges, missing)}
        found, filters = [], Filters(self._accounts, meters, {})
        for table, account in self._accounts.items():
            for analyst in sorted(who for name, who in meters if name == table and who is not None):
                meter = meters[table, analyst]
                found.append(
                    Spending(
                        table,
                        analyst,
                        numbers[table, analyst],
                        from_units(meter.spent),
                        meter.exact,
                        account.measure,
                        filters.account(table).share_balance(
                            analyst, filters.spent(table, analyst), filters.exact(table, analyst)
                        ),
                        most_expensive(meter, account.domain),
                    )
                )
        return found

    def _added_up(
        self, charges: Sequence[tuple[ChargeRecord, Position]], analysts: Sequence[tuple[str, str]]
    ) -> Mapping[Whose, Meter]:
        """The meters of analysts over these charges."""
        filters, tables = Filters.counting(self._accounts, analysts), {name for name, _ in analysts}
        done = dict.fromkeys(tables, 0)
        for stored, end in charges:
            if stored.table in tables:
                charge = self._state.charge(end.number, stored)
                priced = self._state.pricing.recorded(end.number, stored, charge)
                before, done[stored.table] = done[stored.table], end.number
                filters = self._state.folded(filters, stored.table, before, end.number)
                filters = priced.after(filters, stored.analyst)
        return filters.meters

    def history(self, table: str | None = None) -> list[Entry]:
        """Every charge, or a table's, oldest first. Public: it holds no answer."""
        return [*self.charges(table)]

    def charges(
        self, table: str | None = None, through: int | None = None, *, latest_first: bool = False
    ) -> Iterator[Entry]:
        """As `history`, up to a number, by default the last one. They are read in parts, between
        which others can charge."""
        with self._lock, self._ledger.snapshot() as view:
            end = view.end(ChargeRecord).number if through is None else through
        starts = range(0, end, _PART)
        for start in reversed(starts) if latest_first else starts:
            deadline.check()
            with self._lock, self._ledger.snapshot() as view:
                part = view.history(table, start, min(start + _PART, end))
            yield from reversed([*part]) if latest_first else part

    def witness(self) -> str:
        """How far the ledger has come (`witness_of`)."""
        with self._lock, self._ledger.snapshot() as view:
            return witness_of(view)

    def odometer(self) -> list[OdometerReading]:
        """Every charge of the accounts' tables, oldest first, with what was spent after it."""
        with self._up_to_date() as state:
            last, readings = state.seen.charges, state.readings.copy()
        after = readings.every()
        return [
            OdometerReading(entry, from_units(spent), exact, self._accounts[entry.table].measure)
            for entry in self.charges(through=last)
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
        cost of a statement. Where none is within the budget and the share, the earlier translates
        of the table are given up if one is then.
        """
        table, pricing = charges[0].table, self._state.pricing
        losses = [pricing.loss(charge) for charge in charges]
        least, most = self._accounts[table].least_cost, losses[0].bound
        chosen = [
            (charge, loss)
            for charge, loss in zip(charges, losses, strict=True)
            if charge is charges[0] or (loss.bound < most and from_units(loss.bound) >= least)
        ]
        with self._up_to_date() as state:
            filters = state.filters
        if len(chosen) == 1 and (table, None) not in filters.as_asked:
            return charges[0]
        found = []
        for number, (_, loss) in enumerate(chosen):
            deadline.check()
            after = filters.as_charged.after(table, analyst, loss)
            spent = after.spent(table), after.spent(table, analyst)
            found.append((*spent, loss.average, number))
        highest, own, _, number = min(found)
        account = filters.account(table)
        cap = (account.shares or {}).get(analyst)
        if highest <= account.units and (cap is None or own <= cap.units):
            return chosen[number][0]
        for charge, loss in chosen:
            deadline.check()
            after = filters.given_up(table).as_charged.after(table, analyst, loss)
            quote = filters.quote(after, [(table, loss)], analyst, custodian=True)
            if quote.allowed and after.within_shares(table):
                return replace(charge, plainly=True)
        return charges[0]

    def learned(
        self, table: str, releases: int, derivations: int, version: int = 0
    ) -> tuple[list[Release], list[Derivation]]:
        """The answered charges of a table's version and its derivations from these numbers on, in
        one snapshot, which includes the answers of all derivations. More are only appended."""
        with self._known() as state:
            memory, of = state.memory, Of(table, version)
            return memory.recorded[of][releases:], memory.derivations[of][derivations:]

    def statistics(self, table: str, first: int, version: int = 0) -> list[Release]:
        """The answered charges for statistics of a table, from this number on. More are only
        appended."""
        with self._known() as state:
            return state.memory.statistics[Of(table, version)][first:]

    def pending(self, table: str) -> list[Answer]:
        """Answers that are charged and not recorded yet, with NaN as values. They may be drawn at
        any moment, here or in another process."""
        with self._up_to_date() as state:
            return state.memory.pending(table)

    def seen(self) -> Seen:
        """The state of the ledger, for `Accountant.sell` to check that no more is charged or
        answered about a table than is known now."""
        with self._known() as state:
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

    def unanswered(self) -> set[int]:
        """The numbers of charges without an answer that nobody is answering any more."""
        with self._up_to_date() as state:
            return {*state.memory.asked} - state.going_on.keys()

    def position(self) -> Hashable:
        """A value that stays equal until any process charges or records something; None if that
        cannot be known. Never waits."""
        return self._ledger.position()

    def recorded(self, table: str) -> int:
        """The number of answered charges of a table."""
        with self._up_to_date() as state:
            return len(state.memory.recorded[Of(table)])

    def extent(self, table: str, version: int = 0) -> tuple[int, int]:
        """How many answered charges and derivations of a table there are."""
        with self._known() as state:
            of = Of(table, version)
            return len(state.memory.recorded[of]), len(state.memory.derivations[of])

    @contextmanager
    def _known(self) -> Iterator[LedgerState]:
        """As `_up_to_date`, to be read quickly, and only read: while a transaction is being written
        here, the state from before it (`Standing`)."""
        while True:
            with self._standing.read() as stands:
                if stands:
                    yield self._state
                    return
            if self._lock.enter_within(_MOMENT):
                break
        with ExitStack() as held:
            held.push(self._lock.__exit__)
            self._state.refresh()
            yield self._state

    @contextmanager
    def _up_to_date(self) -> Iterator[LedgerState]:
        """The state, up to date with the ledger."""
        with self._lock:
            self._state.refresh()
            yield self._state

    def _account(self, table: str) -> Account:
        account = self._accounts.get(table)
        if account is None:
            raise UndefinedTable(f'there is no protected table "{table}"')
        return account
