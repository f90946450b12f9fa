"""The decision: what is known already is free; the rest is bought, and recorded.

`knowledge` finds what is known of each row of a workload. It is the answer if it is good enough:

- for a target, if its interval is no wider than dp.half_width on either side;
- for a cost, if its variance is at most that of what would be bought now.

The rows that fall short are bought together, in one release: dry-run, charge, receipt, and only
then Wx and noise. Nothing leaves before the charge is durable. For a target the noise is the most
with which history and purchase together meet it (`top_up`). The purchase becomes history too, and
history then gives the answer.

A purchase that a policy's inference control does not allow is refused first (`control`).

No lock is held meanwhile: threads decide concurrently. A row is bought by one thread at a time
(`reservations`) and by one process (`other_processes`) until what follows from its answer is
reported, and history is examined again if it has grown since, so that a question asked twice at
once is paid for once. Under inference control the charge is made only if no process has charged or
recorded anything since the control examined it; otherwise the decision starts again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Final

from tallyveil import deadline
from tallyveil.accountant import Accountant, Draw, LedgerAdvanced, Quote, Seen
from tallyveil.cube import Cube
from tallyveil.errors import BudgetExceeded
from tallyveil.gate.deciding.by_invariants import ByInvariants
from tallyveil.gate.deciding.choice import Choice
from tallyveil.gate.deciding.control import Control
from tallyveil.gate.deciding.cost_messages import charge_explained, unanswered
from tallyveil.gate.deciding.noise import Noise
from tallyveil.gate.deciding.other_processes import OtherProcesses
from tallyveil.gate.deciding.outcome import Answered, Forecast, LookIntervals
from tallyveil.gate.deciding.purchase import Purchase, shortfall, sums_after
from tallyveil.gate.deciding.refusal import what_remains
from tallyveil.gate.deciding.request import Request
from tallyveil.gate.deciding.reservations import Reservations
from tallyveil.knowledge import Bought, Found, Knowledge
from tallyveil.mechanisms import CountMechanism
from tallyveil.rewriter import Workload

__all__ = ["Decision"]

_FEW: Final = 256  # the most rows that are drawn while others wait for the ledger
_RETRIES: Final = 20  # decisions repeated because others charged, perhaps for other rows


@dataclass(frozen=True)
class _Settled:
    """``purchases`` were charged, and answered by ``bought``; ``found`` is what else is known."""

    found: Mapping[str, Found]
    purchases: Sequence[Purchase]
    quote: Quote | None
    bought: Mapping[str, Bought]


@dataclass(eq=False)
class Decision:
    """Decides and carries out requests. Threads may share it."""

    accountant: Accountant
    choice: Choice
    cubes: Mapping[str, Cube]
    knowledge: Mapping[str, Knowledge]
    control: Control
    by_invariants: ByInvariants
    others: OtherProcesses
    reservations: Reservations = field(default_factory=Reservations)

    def answer(self, request: Request) -> Answered:
        """Answer from history where it suffices; buy and record the rest.

        Raises:
            BudgetExceeded: nothing was charged.
            InsufficientPrivilege: the table's inference control does not allow it; nothing was
                charged.
            QueryCanceled: cancelled; nothing was charged unless the answer was recorded too.
            FeatureNotSupported, InvalidParameterValue, StatementTooComplex: no noise meets the
                target; nothing was charged.
        """
        wanted = self._wanted(request)
        state, seen = self._recorded(request), self.accountant.events_read
        found, purchases = self._decide(request, wanted)
        deadline.check()
        if not purchases:
            return self._report(request, wanted, _Settled(found, purchases, None, {}))
        rows = _shareable(request, purchases)
        # Any other purchase about these tables changes what the control would allow.
        whole = self.control.state(request.workloads)
        try:
            # Until the report, since others may know the rows less precisely before it.
            with self.reservations.of(rows, whole), self.accountant.answering() as held:
                now = self._others_settled(request, purchases)
                if self._recorded(request) != state:
                    seen = now
                    found, purchases = self._decide(request, wanted)
                settled = self._settle(request, wanted, found, purchases, seen, held)
                return self._report(request, wanted, settled)
        except BudgetExceeded as error:
            error.hint = self._hint(error, request, wanted, purchases)
            raise

    def _report(self, request: Request, wanted: Mapping[str, Noise], settled: _Settled) -> Answered:
        """The answer from what is known now, once the ledger has how its estimates were made.

        Once a statement is charged, the time limit does not end the work here, which is bounded.
        """
        limit = deadline.uncounted() if settled.quote else nullcontext()
        with charge_explained(request, settled.quote), limit:
            deadline.check()
            reported = {
                table: self.knowledge[table].after(
                    found,
                    settled.bought.get(table),
                    request.analyst,
                    nonnegative=request.nonnegative,
                )
                for table, found in settled.found.items()
            }
        count = sum(purchase.row_count for purchase in settled.purchases)
        raised = any(purchase.raised_to_least_cost for purchase in settled.purchases)
        answers = {
            table: settled.found[table].asked_of(rows) for table, (rows, _) in reported.items()
        }
        summed = {table: rows[len(answers[table]) :] for table, (rows, _) in reported.items()}
        apart = frozenset[str]().union(*(own for _, own in reported.values()))
        return Answered(answers, wanted, settled.quote, count, raised, apart, summed)

    def over_all_looks(self, request: Request, answered: Answered) -> LookIntervals:
        """The intervals of the answers over all looks."""
        confidence = request.target.confidence
        return {
            table: self.knowledge[table].over_all_looks(
                workload.columns, answered.columns[table], confidence
            )
            for table, workload in request.workloads.items()
        }

    def forecast(self, request: Request) -> Forecast:
        """Return what `answer` would do now. Free; it changes nothing."""
        wanted = self._wanted(request)
        found, purchases = self._decide(request, wanted)
        plain, purchases = purchases, self.by_invariants.charged(request, purchases)
        quote = self._quote(request, purchases) if purchases else None
        scales = {
            p.table: dict(zip(p.columns, p.charge.scales, strict=True))
            for p in purchases
            if not p.by_other_rows
        }
        exact = self.by_invariants
        return Forecast(
            {table: one.asked_of(one.rows) for table, one in found.items()},
            sum(p.row_count for p in purchases),
            wanted,
            scales,
            quote,
            self.control.refusal([p.charge for p in purchases], request),
            exact.savings(plain, purchases),
            exact.spreads(purchases),
            exact.comparisons(plain, purchases),
            sums_after(found, plain),
        )

    def knows(self, request: Request) -> bool:
        """Whether history determines every row. Free; it changes nothing."""
        found, _ = self._decide(replace(request, source="history"), self._wanted(request))
        return all(own.whole for one in found.values() for own in one.asked_of(one.rows))

    def _recorded(self, request: Request) -> list[tuple[int, int]]:
        """How much is recorded about each table; it grows with every answer and every report."""
        return [self.knowledge[table].extent for table in request.workloads]

    def _others_settled(self, request: Request, purchases: Sequence[Purchase]) -> int:
        """Wait until other processes have answered and reported these rows (`other_processes`)."""
        narrow = request.target.half_width is not None
        return self.others.settled(_shareable(request, purchases), reported=narrow)

    def _quote(self, request: Request, purchases: Sequence[Purchase]) -> Quote:
        charges = [purchase.charge for purchase in purchases]
        return self.accountant.quote(charges, request.analyst)

    def _wanted(self, request: Request) -> dict[str, Noise]:
        """The noise that meets each table's target without history. Independent of the ledger."""
        found = {}
        for table, workload in request.workloads.items():
            noise = self.choice.noise(
                workload,
                request.target,
                self.by_invariants.mechanism(request, table),
                additive=table in request.additive,
                named=request.by_invariants,
            )
            found[table] = self.by_invariants.noise(request, workload, noise)
        return found

    def _decide(
        self, request: Request, wanted: Mapping[str, Noise]
    ) -> tuple[dict[str, Found], list[Purchase]]:
        """What history knows of each table's rows, and the purchases that it leaves."""
        found = {
            table: self.knowledge[table].find(
                workload.columns,
                wanted[table].aims(workload, request.target),
                fresh=request.source == "fresh",
                summed=request.summed.get(table, ()),
            )
            for table, workload in request.workloads.items()
        }
        purchases = shortfall(request, wanted, found, self.choice, self.knowledge)
        return found, self.by_invariants.bought(request, wanted, purchases)

    def _settle(
        self,
        request: Request,
        wanted: Mapping[str, Noise],
        found: Mapping[str, Found],
        purchases: list[Purchase],
        events_read: int,
        held: list[int],
    ) -> _Settled:
        """Pay for the purchases and receive their answers, if what the control examined has not
        changed. If other processes have charged or been answered since ``events_read``, decide
        again first, `_RETRIES` times at most: the rows may be known now."""
        others = None if request.source == "fresh" else events_read
        retries = 0
        while True:
            if not purchases:
                return _Settled(found, purchases, None, {})
            decided_on = self.control.state(p.table for p in purchases)
            refused = self.control.refusal([p.charge for p in purchases], request)
            if refused is not None:
                raise refused
            purchases = self.by_invariants.charged(request, purchases)
            self.accountant.price(purchase.charge for purchase in purchases)
            for table, one in found.items():
                self.knowledge[table].prepare(one)
            deadline.check()
            try:
                quote, bought = self._buy(request, purchases, decided_on, others, held)
            except LedgerAdvanced:
                seen = self._others_settled(request, purchases)
                retries += 1
                others = None if others is None or retries > _RETRIES else seen
                found, purchases = self._decide(request, wanted)
                continue
            return _Settled(found, purchases, quote, bought)

    def _buy(
        self,
        request: Request,
        purchases: Sequence[Purchase],
        decided_on: Mapping[str, Seen],
        events_read: int | None,
        held: list[int],
    ) -> tuple[Quote, dict[str, Bought]]:
        """Pay for all purchases, and draw and record their answers: few in the transaction of the
        charges, many without the ledger's lock, once the charges are durable."""
        draw = self._drawing(purchases)
        sale = self.accountant.sell(
            [purchase.charge for purchase in purchases],
            request.analyst,
            draw if self._quickly_drawn(purchases) else None,
            decided_on=decided_on,
            events_read=events_read,
            held=held,
        )
        noisy = list(sale.answers)
        # What is charged is drawn and recorded even if the statement is cancelled meanwhile.
        with deadline.unlimited(), unanswered(sale.quote):
            for number, receipt in enumerate(sale.receipts[len(noisy) :]):
                noisy.append(draw(number, receipt))
                self.accountant.record(receipt, noisy[-1])
        bought = {
            purchase.table: purchase.bought(receipt.charge_id, own)
            for purchase, receipt, own in zip(purchases, sale.receipts, noisy, strict=True)
        }
        return sale.quote, bought

    def _drawing(self, purchases: Sequence[Purchase]) -> Draw:
        return lambda number, receipt: purchases[number].release(
            self.cubes[purchases[number].table].answer(purchases[number].charge.workload), receipt
        )

    def _quickly_drawn(self, purchases: Sequence[Purchase]) -> bool:
        """Whether drawing takes about as long as a wait for the disk. Depends only on what is and
        was asked."""
        return sum(purchase.row_count for purchase in purchases) <= _FEW and all(
            not isinstance(purchase.mechanism, CountMechanism)
            and purchase.joint_noise is None
            and self.cubes[purchase.table].has_ready(purchase.charge.workload)
            for purchase in purchases
        )

    def _hint(
        self,
        error: BudgetExceeded,
        request: Request,
        wanted: Mapping[str, Noise],
        purchases: Sequence[Purchase],
    ) -> str:
        quote = self._quote(request, self.by_invariants.charged(request, list(purchases)))
        table = None if quote.refused is None else quote.refused.table
        charged = (purchase.charge.workload for purchase in purchases)
        part = next((workload for workload in charged if workload.table == table), None)
        found, _ = self._decide(replace(request, source="history"), wanted)
        known = {table: one.asked_of(one.rows) for table, one in found.items()}
        return what_remains(error, request, known, self.choice, wanted, part)


def _shareable(request: Request, purchases: Sequence[Purchase]) -> list[Workload]:
    """The rows that need not be bought if others buy them: none for fresh answers."""
    return [purchase.charge.workload for purchase in purchases if request.source != "fresh"]
