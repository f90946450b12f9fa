"""The accountant: may this be asked, what does it cost, and what is known already."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final

from tallyveil import deadline
from tallyveil.accountant.binding import bind, remember_data
from tallyveil.accountant.chain import START, Position
from tallyveil.accountant.codec import (
    decode_answers,
    encode_answers,
)
from tallyveil.accountant.derivation import Derivation, encode_derivation
from tallyveil.accountant.expensive import most_expensive
from tallyveil.accountant.filters import Filters
from tallyveil.accountant.ledger import Ledger
from tallyveil.accountant.memory import Memory
from tallyveil.accountant.meter import Meter, meter_for
from tallyveil.accountant.pricing import Priced, Pricing
from tallyveil.accountant.quote import Quote
from tallyveil.accountant.recording import Recording
from tallyveil.accountant.refusal import exceeded
from tallyveil.accountant.stored import asked, charge_of, entry
from tallyveil.accountant.stored_charge import StoredCharge
from tallyveil.accountant.values import (
    Account,
    Amount,
    Answer,
    Balance,
    Charge,
    Entry,
    Reading,
    Room,
    Spending,
)
from tallyveil.boundary import Receipt, issue_receipt
from tallyveil.errors import (
    FeatureNotSupported,
    LedgerError,
    LedgerMismatch,
    TallyveilError,
    UndefinedTable,
)
from tallyveil.events import report
from tallyveil.locks import Rank, ranked_lock
from tallyveil.mechanisms.units import from_units

__all__ = ["Accountant", "Overtaken"]

# Of derivations, by table and analyst: those of half a million rows.
_DERIVED_BYTES: Final = 1 << 22


class Overtaken(Exception):
    """More was charged or answered than a charge was decided on. Nothing was charged for it."""


_BATCH: Final = 16  # charges or answers that are taken in at a time when a ledger is opened


class Accountant:
    """Keeps the budgets of the tables in ``accounts`` by ``ledger``, and the analysts' shares of
    them. Threads may share it.

    Whatever other processes append to the ledger is taken in before anything is decided. The
    meters are a function of the ledger alone: they are rebuilt from it on opening.

    Its lock covers the ledger's transactions, which use one connection, and what follows from
    them. It waits for the disk, as durable means; noise and estimates are no part of it.
    """

    def __init__(self, ledger: Ledger, accounts: Mapping[str, Account]) -> None:
        """Raises LedgerMismatch if the ledger belongs to other tables (`binding`) or holds a
        charge that has no cost in the measure of its budget, and LedgerError if a past charge
        cannot be accounted for.
        """
        self._ledger = ledger
        self._accounts = dict(accounts)
        self._lock = ranked_lock(Rank.ACCOUNTANT)
        self._filters = Filters.unused(accounts)
        self._readings: dict[int, tuple[int, bool]] = {}
        self._memory = Memory()
        self._recording = Recording(self._accounts)
        self._pricing = Pricing(self._accounts)
        self._charges_seen = self._answers_seen = self._derivations_seen = START
        with ledger.writing():
            bind(ledger, accounts)
        self._replay()

    def remember_data(self, table: str, digest: Callable[[bytes], bytes]) -> None:
        """Vouch that the table's answers are about the data ``digest`` is of, now and for good.

        ``digest`` takes a key, and gives the digest of the counts under it.

        Raises LedgerMismatch if the ledger knows other data of the table.
        """
        with self._lock:
            remember_data(self._ledger, table, digest)

    def quote(
        self, charges: Sequence[Charge], analyst: str = "", *, custodian: bool = False
    ) -> Quote:
        """What ``charge`` would do, free of charge. Charges are composed before the check.

        Raises InvalidParameterValue and RecordingLimitExceeded, as ``charge`` does.
        """
        priced = [self._pricing.price(charge) for charge in charges]
        with self._lock:
            self._refresh()
            return self._plan(priced, analyst, custodian)[0]

    def charge(
        self,
        charges: Sequence[Charge],
        analyst: str,
        *,
        custodian: bool = False,
        decided_on: Mapping[str, int] | None = None,
    ) -> tuple[Receipt, ...]:
        """Pay for all ``charges`` or for none; durable when it returns one receipt for each.

        ``decided_on`` are `state`s of tables that must not have changed, in any process, since
        somebody looked at what the charges would tell.

        ``analyst`` is who asked, as the caller has made sure of. Where a table has shares, the
        ``custodian`` needs none; who has one is held to it in any case.

        Raises BudgetExceeded (53400) if any cell or pair of cells would lose more than the
        budget of its table, or more by this analyst's purchases than the analyst's share;
        InvalidParameterValue (22023) if all of it costs a table less than the least, and
        RecordingLimitExceeded (53400) if more would be recorded than the policy's limits allow;
        Overtaken if a state has changed; and LedgerError if the ledger cannot be written: then
        there is no receipt, whether or not the charge was made.
        """
        priced = [self._pricing.price(charge) for charge in charges]
        with self._lock:
            with self._ledger.writing():
                self._take_in()
                for table, state in (decided_on or {}).items():
                    if self._memory.state(table) != state:
                        raise Overtaken
                quote, steps = self._plan(priced, analyst, custodian)
                if quote.refused is not None:
                    raise exceeded(quote.refused)
                numbers, end = [], self._charges_seen
                for one in priced:
                    end = self._append(one, analyst, end)
                    numbers.append(end.number)
            for number, charge in zip(numbers, charges, strict=True):
                self._memory.expect(number, asked(charge))
            # If this is interrupted the charges are taken in again from the ledger: never less.
            for number, one, filters in zip(numbers, priced, steps, strict=True):
                self._advance(number, one.table, filters)
                self._recording.add(one.table, analyst, one.amount)
            self._charges_seen = end
        for number, one in zip(numbers, priced, strict=True):
            report(
                "charged",
                analyst=analyst,
                table=one.table,
                charge=number,
                cost=float(from_units(one.loss.bound)),
                unit=one.loss.measure,
                statement=one.sql,
            )
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
        encoded = encode_answers(values)
        with self._lock:
            with self._ledger.writing():
                self._take_in()
                awaited = self._memory.awaited(number)
                if awaited is None:
                    raise TallyveilError(f"charge {number} awaits no answer")
                if tuple(len(column) for column in values) != awaited.heights:
                    raise TallyveilError(f"charge {number} has another number of rows")
                end = self._ledger.answer(number, encoded, self._answers_seen)
            self._memory.learn(number, values)
            self._answers_seen = end

    def derive(self, derivations: Mapping[str, Sequence[Derivation]], analyst: str) -> None:
        """Remember how estimates of tables' rows were made that ``analyst`` is about to be given;
        durable when it returns.

        Since such an estimate may cost nothing, no more is kept than `_DERIVED_BYTES`.
        """
        encoded = [
            (table, encode_derivation(one)) for table, each in derivations.items() for one in each
        ]
        with self._lock:
            encoded = [
                (table, body)
                for table, body in encoded
                if self._memory.derived_bytes(table, analyst) + len(body) <= _DERIVED_BYTES
            ]
            if not encoded:
                return
            with self._ledger.writing():
                self._take_in_derivations()
                end = self._derivations_seen
                for table, body in encoded:
                    end = self._ledger.derive(table, analyst, body, end)

    def learned(
        self, table: str, answers: int, derivations: int
    ) -> tuple[list[Answer], list[Derivation]]:
        """The recorded answers about a table, and the derivations, from these numbers on, in one
        snapshot: a derivation's answers are among them. More are only appended."""
        with self._lock:
            with self._ledger.reading():
                self._take_in()
                self._take_in_derivations()
            return (
                self._memory.answers(table, answers),
                self._memory.derivations(table, derivations),
            )

    def answers(self, table: str, start: int = 0) -> list[Answer]:
        """The recorded answers about a table from number ``start`` on; more are only appended."""
        with self._lock:
            self._refresh()
            return self._memory.answers(table, start)

    def pending(self, table: str) -> list[Answer]:
        """What is charged and not recorded yet, whose values are NaN: it may be drawn at any
        moment, here or in another process."""
        with self._lock:
            self._refresh()
            return self._memory.pending(table)

    def state(self, table: str) -> int:
        """A number that grows with everything that is charged or recorded of a table."""
        with self._lock:
            self._refresh()
            return self._memory.state(table)

    def position(self) -> Hashable:
        """Equal while nobody, in any process, has anything charged or recorded; None if that cannot
        be known. It waits for nobody."""
        return self._ledger.position()

    def recorded(self, table: str) -> int:
        """How many columns of answers are recorded of a table."""
        with self._lock:
            self._refresh()
            return self._memory.recorded(table)

    def balance(self, table: str) -> Balance:
        account = self._account(table)
        with self._lock:
            self._refresh()
            meter = self._filters.tables[table]
        return account.balance(meter.spent, meter.exact)

    def share(self, table: str, analyst: str) -> Balance | None:
        """An analyst's share of a table's budget, and what of it the analyst's purchases have
        spent; of no share nothing remains. None where the table has no shares.
        """
        account = self._account(table)
        with self._lock:
            self._refresh()
            meter = self._filters.shares.get((table, analyst))
        if meter is None:
            return account.share_balance(analyst, 0, True)
        return account.share_balance(analyst, meter.spent, meter.exact)

    def room(self, table: str, analyst: str | None = None) -> Room:
        """What is recorded of a table, and what may be still: in all, or asked by an analyst."""
        self._account(table)
        with self._lock:
            self._refresh()
            return self._recording.room(table, analyst)

    def most_expensive(self, table: str, analyst: str | None = None) -> str | None:
        """The cells most is spent on, as `expensive.most_expensive` tells them: in all, or by what
        an ``analyst`` with a share has bought. None where nothing is spent.
        """
        account = self._account(table)
        with self._lock:
            self._refresh()
            meters = self._filters
        meter = meters.tables[table] if analyst is None else meters.shares.get((table, analyst))
        return None if meter is None else most_expensive(meter, account.domain)

    def spending(self) -> list[Spending]:
        """What each analyst in the ledger or with a share has bought, by table and name.

        Those without a share have no meter: their charges are composed anew.
        """
        numbers: dict[tuple[str, str], int] = defaultdict(int)
        others: dict[tuple[str, str], list[StoredCharge]] = defaultdict(list)
        with self._lock:
            with self._ledger.reading():
                self._take_in()
                for stored, _ in self._ledger.charges_after(START):
                    key = stored.table, stored.analyst
                    numbers[key] += 1
                    if key not in self._filters.shares:
                        others[key].append(stored)
            meters = self._filters.shares
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
        with self._lock:
            with self._ledger.reading():
                self._take_in()
                stored = self._ledger.history(None)
            readings = []
            for charge in stored:
                account = self._accounts.get(charge.table)
                if account is not None:
                    spent, exact = self._readings[charge.id]
                    readings.append(
                        Reading(entry(charge), from_units(spent), exact, account.measure)
                    )
        return readings

    def _plan(
        self, priced: Sequence[Priced], analyst: str, custodian: bool
    ) -> tuple[Quote, list[Filters]]:
        """The quote, and the filters as they would be after each charge."""
        filters, steps = self._filters, []
        for one in priced:
            filters = filters.after(one.table, analyst, one.loss)
            steps.append(filters)
        losses = [(one.table, one.loss) for one in priced]
        quote = self._filters.quote(filters, losses, analyst, custodian=custodian)
        if quote.refused is None:
            self._recording.check(quote, [(one.table, one.amount) for one in priced], analyst)
        return quote, steps

    def _advance(self, number: int, table: str, filters: Filters) -> None:
        """Keep the filters after charge ``number``, and the odometer's reading of its table."""
        meter = filters.tables[table]
        self._filters, self._readings[number] = filters, (meter.spent, meter.exact)

    def _composed(self, charges: Sequence[StoredCharge]) -> Meter:
        """A meter over some charges about one table, at least one."""
        account = self._accounts[charges[0].table]
        meter = meter_for(account.relation, account.measure)
        for stored in charges:
            meter = meter.after(self._pricing.loss(charge_of(stored)))
        return meter

    def _append(self, one: Priced, analyst: str, before: Position) -> Position:
        return self._ledger.append(
            analyst=analyst,
            table=one.table,
            mechanism=one.mechanism,
            sql=one.sql,
            cost=one.loss.bound,
            measure=one.loss.measure,
            height=one.height,
            columns=one.columns,
            before=before,
        )

    def _refresh(self) -> None:
        with self._ledger.reading():
            self._take_in()

    def _replay(self) -> None:
        """Take in a whole ledger, in transactions that are short enough for other processes to
        write in between.
        """
        for charges, answers in ((_BATCH, 0), (-1, _BATCH)):
            before = None
            while before != (self._charges_seen, self._answers_seen):
                before = self._charges_seen, self._answers_seen
                with self._ledger.reading():
                    self._take_in(charges, answers)
        with self._ledger.reading():
            self._take_in()
            self._take_in_derivations()

    def _take_in(self, charges: int = -1, answers: int = -1) -> None:
        """Bring meters and memory up to date with the ledger; inside a transaction. If given, so
        many charges and answers at most: answers only once no charge is left.

        A statement can be stopped between two charges, and waits for no turn, since others wait
        for this.

        Raises what `deadline.check` raises.
        """
        for stored, position in self._ledger.charges_after(self._charges_seen, charges):
            with deadline.taking(None):
                deadline.check()
            if stored.table in self._accounts:
                self._admit(stored)
            self._charges_seen = position
        for answer, position in self._ledger.answers_after(self._answers_seen, answers):
            awaited = self._memory.awaited(answer.charge_id)
            if awaited is not None:
                values = decode_answers(answer.noisy, awaited.heights)
                self._memory.learn(answer.charge_id, values)
            self._answers_seen = position

    def _take_in_derivations(self) -> None:
        """After the answers they are made of; inside the same transaction."""
        for derivation, position in self._ledger.derivations_after(self._derivations_seen):
            if derivation.table in self._accounts:
                self._memory.derive(derivation)
            self._derivations_seen = position

    def _admit(self, stored: StoredCharge) -> None:
        charge = charge_of(stored)
        try:
            with deadline.unlimited():
                loss = self._pricing.loss(charge)
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
        self._memory.expect(stored.id, asked(charge))
        filters = self._filters.after(stored.table, stored.analyst, loss)
        self._advance(stored.id, stored.table, filters)
        amount = Amount.of(stored.mechanism, stored.sql, stored.columns, stored.height)
        self._recording.add(stored.table, stored.analyst, amount)

    def _account(self, table: str) -> Account:
        account = self._accounts.get(table)
        if account is None:
            raise UndefinedTable(f'there is no protected table "{table}"')
        return account
