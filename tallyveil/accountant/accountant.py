"""The accountant: may this be asked, what does it cost, and what is known already."""

from __future__ import annotations

import datetime as dt
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from weakref import WeakKeyDictionary

from tallyveil.accountant.codec import (
    decode_answers,
    decode_columns,
    encode_answers,
    encode_columns,
)
from tallyveil.accountant.ledger import Ledger, StoredCharge
from tallyveil.accountant.memory import Asked, Memory
from tallyveil.accountant.meter import Meter, meter_for
from tallyveil.accountant.values import (
    Account,
    Balance,
    Charge,
    Entry,
    Quote,
    Reading,
    Recorded,
    TableQuote,
)
from tallyveil.boundary import Receipt, issue_receipt
from tallyveil.errors import (
    BudgetExceeded,
    FeatureNotSupported,
    LedgerError,
    LedgerMismatch,
    TallyveilError,
    UndefinedTable,
)
from tallyveil.mechanisms import Loss, charged
from tallyveil.mechanisms.units import from_units
from tallyveil.rewriter.workload import Workload

__all__ = ["Accountant"]


class Accountant:
    """Keeps the budgets of the tables in ``accounts`` by ``ledger``. Threads may share it.

    Whatever other processes append to the ledger is taken in before anything is decided. The
    meters are a function of the ledger alone: they are rebuilt from it on opening.
    """

    def __init__(self, ledger: Ledger, accounts: Mapping[str, Account]) -> None:
        """Raises LedgerMismatch if the ledger knows a table by another fingerprint or holds a
        charge that has no cost in the measure of its budget, and LedgerError if a past charge
        cannot be accounted for.
        """
        self._ledger = ledger
        self._accounts = dict(accounts)
        self._lock = threading.RLock()
        self._meters: dict[str, Meter] = {
            table: meter_for(account.relation, account.measure)
            for table, account in accounts.items()
        }
        self._memory = Memory()
        self._losses: WeakKeyDictionary[Charge, Loss] = WeakKeyDictionary()
        self._last, self._chain, self._last_answer = 0, b"", 0
        with ledger.writing():
            ledger.bind({table: account.fingerprint for table, account in accounts.items()})
            self._take_in()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Keep other threads of this process out, for recall, charge and record in one step.

        Other processes are not kept out; a charge is decided on what they have appended anyway.
        """
        with self._lock:
            yield

    def quote(self, charges: Sequence[Charge]) -> Quote:
        """What ``charge`` would do, free of charge. Charges are composed before the check."""
        losses = [self._loss(charge) for charge in charges]
        with self._lock:
            self._refresh()
            quote, _ = self._plan(charges, losses)
            return quote

    def charge(self, charges: Sequence[Charge], analyst: str) -> tuple[Receipt, ...]:
        """Pay for all ``charges`` or for none; durable when it returns one receipt for each.

        Raises BudgetExceeded (53400) if any cell or pair of cells would lose more than the
        budget of its table, and LedgerError if the ledger cannot be written: then there is no
        receipt, whether or not the charge was made.
        """
        losses = [self._loss(charge) for charge in charges]
        with self._lock:
            with self._ledger.writing():
                self._take_in()
                quote, meters = self._plan(charges, losses)
                for refused in quote.tables:
                    if not refused.allowed:
                        raise _exceeded(refused)
                numbers, chain = [], self._chain
                for charge, loss in zip(charges, losses, strict=True):
                    stored, chain = self._append(charge, loss, analyst, chain)
                    numbers.append(stored.id)
            for number, charge in zip(numbers, charges, strict=True):
                self._memory.expect(number, _asked(charge))
            # If this is interrupted the charges are taken in again from the ledger: never less.
            self._meters = {**self._meters, **meters}
            self._last, self._chain = max([self._last, *numbers]), chain
        return tuple(
            issue_receipt(number, charge.key, charge.scales)
            for number, charge in zip(numbers, charges, strict=True)
        )

    def record(self, charge: Receipt | int, values: Sequence[Sequence[int]]) -> None:
        """Remember the noisy answer to a charge: a tuple of integers per column, once.

        Raises TallyveilError if there is no such charge, it is answered already, or the values
        do not fit it.
        """
        number = charge.charge_id if isinstance(charge, Receipt) else charge
        with self._lock:
            with self._ledger.writing():
                self._take_in()
                asked = self._memory.awaited(number)
                if asked is None:
                    raise TallyveilError(f"charge {number} awaits no answer")
                if tuple(len(column) for column in values) != asked.heights:
                    raise TallyveilError(f"charge {number} has another number of rows")
                answer = self._ledger.answer(number, encode_answers(values))
            self._memory.learn(number, values)
            self._last_answer = answer.id

    def recall(
        self, table: str, row_keys: Sequence[bytes], own: str | None = None
    ) -> list[Recorded | None]:
        """The recorded answer of least spread for each row, or None; keys as in
        `Column.row_keys`, values in units of the row's integer lattice.

        Those with additive noise or none; or, if ``own`` names a mechanism with a public range,
        those of that mechanism alone.
        """
        with self._lock:
            self._refresh()
            return self._memory.recall(table, row_keys, own)

    def balance(self, table: str) -> Balance:
        account = self._account(table)
        with self._lock:
            self._refresh()
            meter = self._meters[table]
        return account.balance(meter.spent, meter.exact)

    def history(self, table: str | None = None) -> list[Entry]:
        """Every charge, or a table's, oldest first. Public: it holds no answer."""
        with self._lock, self._ledger.reading():
            stored = self._ledger.history(table)
        return [_entry(charge) for charge in stored]

    def odometer(self) -> list[Reading]:
        """Every charge of the accounts' tables, oldest first, with what was spent after it."""
        meters = {
            table: meter_for(account.relation, account.measure)
            for table, account in self._accounts.items()
        }
        readings = []
        with self._lock, self._ledger.reading():
            for stored, _ in self._ledger.charges_after(0, b""):
                account = self._accounts.get(stored.table)
                if account is None:
                    continue
                meter = meters[stored.table].after(self._work_out(_charge(stored)))
                meters[stored.table] = meter
                spent = from_units(meter.spent)
                readings.append(Reading(_entry(stored), spent, meter.exact, account.measure))
        return readings

    def _plan(
        self, charges: Sequence[Charge], losses: Sequence[Loss]
    ) -> tuple[Quote, dict[str, Meter]]:
        """The quote, and the touched tables' meters as they would be."""
        meters: dict[str, Meter] = {}
        alone: dict[str, Meter] = {}
        for charge, loss in zip(charges, losses, strict=True):
            table = charge.workload.table
            account = self._accounts[table]
            empty = meter_for(account.relation, account.measure)
            alone[table] = alone.get(table, empty).after(loss)
            meters[table] = meters.get(table, self._meters[table]).after(loss)
        quotes = (self._quote(table, alone[table].spent, meters[table]) for table in meters)
        return Quote(tuple(quotes)), meters

    def _quote(self, table: str, cost: int, after: Meter) -> TableQuote:
        budget, before, spent = (
            self._accounts[table].units,
            self._meters[table].spent,
            after.spent,
        )
        return TableQuote(
            table=table,
            cost=from_units(cost),
            spent_before=from_units(before),
            spent_after=from_units(spent),
            remaining_before=from_units(max(0, budget - before)),
            remaining_after=from_units(max(0, budget - spent)),
            allowed=cost == 0 or spent <= budget,
            exact=after.exact,
            measure=self._accounts[table].measure,
        )

    def _append(
        self, charge: Charge, loss: Loss, analyst: str, chain: bytes
    ) -> tuple[StoredCharge, bytes]:
        columns = charge.workload.columns
        return self._ledger.append(
            analyst=analyst,
            table=charge.workload.table,
            mechanism=charge.mechanism,
            sql=charge.sql,
            cost=loss.bound,
            measure=loss.measure,
            height=sum(column.height for column in columns),
            columns=encode_columns(columns, charge.scales),
            before=chain,
        )

    def _refresh(self) -> None:
        with self._ledger.reading():
            self._take_in()

    def _take_in(self) -> None:
        """Bring meters and memory up to date with the ledger; inside a transaction."""
        for stored, chain in self._ledger.charges_after(self._last, self._chain):
            if stored.table in self._accounts:
                self._admit(stored)
            self._last, self._chain = stored.id, chain
        for answer in self._ledger.answers_after(self._last_answer):
            asked = self._memory.awaited(answer.charge_id)
            if asked is not None:
                values = decode_answers(answer.noisy, asked.heights)
                self._memory.learn(answer.charge_id, values)
            self._last_answer = answer.id

    def _admit(self, stored: StoredCharge) -> None:
        charge = _charge(stored)
        try:
            loss = self._work_out(charge)
        except FeatureNotSupported as error:
            raise LedgerMismatch(
                f'the ledger holds charges of table "{stored.table}" that its budget cannot count',
                detail=f"Charge {stored.id}, by {stored.mechanism}, was paid from a budget of"
                f" {stored.measure}; the policy now declares one of"
                f" {self._accounts[stored.table].measure}.",
                hint="Declare the budget as { rho = …, delta = … } or { epsilon = …, delta = … }"
                " again. A budget of epsilon alone can become one of these, and charges are then"
                " counted anew in rho; not the other way round.",
            ) from error
        except TallyveilError as error:
            raise LedgerError(
                f"charge {stored.id} of the ledger cannot be accounted for", detail=error.message
            ) from error
        self._memory.expect(stored.id, _asked(charge))
        self._meters[stored.table] = self._meters[stored.table].after(loss)

    def _loss(self, charge: Charge) -> Loss:
        """Raises TallyveilError if the workload is not about the table's declared cells.

        A charge is quoted and then paid for; what it costs is worked out once.
        """
        loss = self._losses.get(charge)
        if loss is None:
            loss = self._losses[charge] = self._work_out(charge)
        return loss

    def _work_out(self, charge: Charge) -> Loss:
        workload = charge.workload
        account = self._account(workload.table)
        for column in workload.columns:
            for axis, size in zip(column.axes, column.shape, strict=True):
                if axis not in account.domain or account.domain[axis].size != size:
                    raise TallyveilError(f'the workload does not fit table "{workload.table}"')
        family = charged(charge.mechanism)
        return family.loss(workload, charge.scales, account.relation, account.measure)

    def _account(self, table: str) -> Account:
        account = self._accounts.get(table)
        if account is None:
            raise UndefinedTable(f'there is no protected table "{table}"')
        return account


def _asked(charge: Charge) -> Asked:
    workload = charge.workload
    return Asked(workload.table, charge.mechanism, workload.columns, charge.scales)


def _charge(stored: StoredCharge) -> Charge:
    columns, scales = decode_columns(stored.columns)
    return Charge(Workload(stored.table, columns), stored.mechanism, scales, stored.sql)


def _entry(stored: StoredCharge) -> Entry:
    return Entry(
        stored.id,
        dt.datetime.fromisoformat(stored.time),
        stored.analyst,
        stored.table,
        stored.sql,
        stored.mechanism,
        from_units(stored.cost),
        stored.measure,
        stored.height,
    )


def _exceeded(quote: TableQuote) -> BudgetExceeded:
    # Shown rounded to the private side: what is asked up, what is left down.
    requested, remaining = float(quote.cost), float(quote.remaining_before)
    if Fraction(requested) < quote.cost:
        requested = math.nextafter(requested, math.inf)
    if Fraction(remaining) > quote.remaining_before:
        remaining = math.nextafter(remaining, 0.0)
    return BudgetExceeded(
        f'the budget of table "{quote.table}" does not allow this: it costs {quote.measure}'
        f" {requested:.6g}, and {remaining:.6g} remains where most was asked",
        requested=requested,
        remaining=remaining,
        unit=quote.measure,
        hint=f"Ask with a smaller dp.{quote.measure} or a wider dp.half_width, about records that"
        " less was asked about, or again what is answered from history for free.",
    )
