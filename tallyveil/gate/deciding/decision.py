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

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Final, TypeAlias, TypeVar

from tallyveil import deadline
from tallyveil.accountant import Accountant, Draw, LedgerAdvanced, Quote, Seen
from tallyveil.cube import Cube
from tallyveil.errors import BudgetExceeded, TallyveilError
from tallyveil.gate.deciding.best_offer import decide, wanted
from tallyveil.gate.deciding.control import Control
from tallyveil.gate.deciding.cost_messages import charge_explained, unanswered
from tallyveil.gate.deciding.noise import Noise
from tallyveil.gate.deciding.other_processes import OtherProcesses
from tallyveil.gate.deciding.outcome import Answered, Forecast, LookIntervals
from tallyveil.gate.deciding.refusal import rest, what_remains
from tallyveil.gate.deciding.request import Request
from tallyveil.gate.deciding.reservations import Reservations
from tallyveil.gate.deciding.statistics import StatisticOffer, Statistics, for_counts
from tallyveil.gate.strategies.conditioned import noise_of, spread
from tallyveil.gate.strategies.direct import as_asked, sums_after
from tallyveil.gate.strategies.offer import Information, Limits, Offer
from tallyveil.gate.strategies.optimal import comparison
from tallyveil.gate.strategies.translated import saving
from tallyveil.knowledge import Answers, Bought, Estimate, Found, Knowledge
from tallyveil.mechanisms import STATISTICS, CountMechanism
from tallyveil.mechanisms.constrained.joint_release import release_together
from tallyveil.mechanisms.protocol import Releasing
from tallyveil.rewriter import Column, Workload

__all__ = ["Decision"]

T = TypeVar("T")
AnyOffer: TypeAlias = Offer | StatisticOffer

_FEW: Final = 256  # the most rows that are drawn while others wait for the ledger
_RETRIES: Final = 20  # decisions repeated because others charged, perhaps for other rows


@dataclass(frozen=True)
class _Settled:
    """``offers`` were charged, and answered by ``bought``; ``found`` is what else is known."""

    found: Mapping[str, Found]
    offers: Sequence[AnyOffer]
    quote: Quote | None
    bought: Mapping[str, Bought]
    drawn: Collection[int] = ()
    """The charges for statistics."""


@dataclass(eq=False)
class Decision:
    """Decides and carries out requests. Threads may share it."""

    accountant: Accountant
    cubes: Mapping[str, Cube]
    knowledge: Mapping[str, Knowledge]
    control: Control
    limits: Mapping[str, Limits]
    others: OtherProcesses
    statistics: Statistics
    versions: Mapping[str, int] = field(default_factory=dict)
    """Of the tables whose rows are replaced."""
    past: Collection[str] = ()
    """The tables of which it knows the past, so that nothing is bought about them."""
    reservations: Reservations = field(default_factory=Reservations)

    def answer(self, request: Request) -> Answered:
        """Answer from history where it suffices; buy and record the rest.

        Raises:
            VersionAdvanced: rows were replaced by a version since; nothing was charged.
            BudgetExceeded: nothing was charged.
            InsufficientPrivilege: the table's inference control does not allow it; nothing was
                charged.
            QueryCanceled: cancelled; nothing was charged unless the answer was recorded too.
            FeatureNotSupported, InvalidParameterValue, StatementTooComplex: no noise meets the
                target; nothing was charged.
        """
        wanted = self._wanted(request)
        state, seen = self._recorded(request), self.accountant.events_read
        found, offers = self._decide(request, wanted)
        deadline.check()
        if not offers:
            return self._report(request, wanted, _Settled(found, offers, None, {}))
        rows = _shareable(request, offers)
        # Any other purchase about these tables changes what the control would allow.
        whole = self.control.state(request.tables)
        try:
            # Until the report, since others may know the rows less precisely before it.
            with self.reservations.of(rows, whole), self.accountant.answering() as held:
                now = self._others_settled(request, offers)
                if self._recorded(request) != state:
                    seen = now
                    found, offers = self._decide(request, wanted)
                settled = self._settle(request, wanted, found, offers, seen, held)
                return self._report(request, wanted, settled)
        except BudgetExceeded as error:
            error.hint = self._hint(error, request, wanted, offers)
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
        count = sum(offer.row_count for offer in settled.offers)
        raised = any(offer.raised_to_least_cost for offer in settled.offers)
        answers = {
            table: settled.found[table].asked_of(rows) for table, (rows, _) in reported.items()
        }
        summed = {table: rows[len(answers[table]) :] for table, (rows, _) in reported.items()}
        apart = frozenset[str]().union(*(own for _, own in reported.values()))
        own = settled.drawn if request.source == "fresh" else ()
        statistics = self.statistics.find(request, self.knowledge, own)
        return Answered(answers, wanted, settled.quote, count, raised, apart, summed, statistics)

    def over_all_looks(
        self, request: Request, answered: Answered, confidence: Fraction
    ) -> LookIntervals:
        """The intervals of the answers over all looks."""
        return {
            table: self.knowledge[table].over_all_looks(
                workload.columns, answered.columns[table], confidence
            )
            for table, workload in request.workloads.items()
        }

    def with_noises(self, table: str, column: Column, rows: Answers) -> list[Estimate | None]:
        """What was reported about a column's rows, with its noises (`joint_errors`)."""
        return self.knowledge[table].with_noises(column, rows)

    def forecast(self, request: Request) -> Forecast:
        """Return what `answer` would do now. Free; it changes nothing."""
        wanted = self._wanted(request)
        found, offers = self._decide(request, wanted)
        quote = self._quote(request, offers) if offers else None
        counts = _of_counts(offers)
        wanted |= {one.table: one.shown for one in counts if one.shown is not None}
        scales = {
            one.table: dict(zip(one.columns, one.charge.scales, strict=True))
            for one in counts
            if not one.by_other_rows
        }
        parts = {one.table: len(one.charge.scales) for one in counts if one.gain < 1 or one.cheaper}
        return Forecast(
            {table: one.asked_of(one.rows) for table, one in found.items()},
            sum(one.row_count for one in offers),
            wanted,
            scales,
            quote,
            self.control.refusal([one.charge for one in offers], request),
            _by_table(counts, lambda one: saving(request, one, self.limits[one.table])),
            _by_table(counts, lambda one: spread(one, self.limits[one.table])),
            _by_table(counts, lambda one: comparison(request, one, self.limits[one.table])),
            sums_after({t: one for t, one in found.items() if t not in parts}, counts),
            parts,
            self.statistics.find(request, self.knowledge),
        )

    def knows(self, request: Request) -> bool:
        """Whether history determines every row. Free; it changes nothing."""
        found, _ = self._decide(replace(request, source="history"), self._wanted(request))
        statistics = (
            one for each in self.statistics.find(request, self.knowledge).values() for one in each
        )
        return all(own.whole for one in found.values() for own in one.asked_of(one.rows)) and all(
            None not in one.known for one in statistics
        )

    def allowed(self, request: Request) -> Request:
        """The request, of history alone where it is about the past."""
        of_past = not set(self.past).isdisjoint(request.tables)
        return replace(request, source="history", past=True) if of_past else request

    def _recorded(self, request: Request) -> tuple[list[tuple[int, int]], list[int]]:
        """How much is recorded about each table; it grows with every answer and every report."""
        counts = [self.knowledge[table].extent for table in request.workloads]
        return counts, self.statistics.extent(request)

    def _others_settled(self, request: Request, offers: Sequence[AnyOffer]) -> int:
        """Wait until other processes have answered and reported these rows (`other_processes`)."""
        narrow = request.target.half_width is not None
        return self.others.settled(_shareable(request, offers), reported=narrow)

    def _quote(self, request: Request, offers: Sequence[AnyOffer]) -> Quote:
        charges = [offer.charge for offer in offers]
        return self.accountant.quote(charges, request.analyst)

    def _wanted(self, request: Request) -> dict[str, Noise]:
        """The noise that meets each table's target without history. Independent of the ledger."""
        return {
            table: wanted(for_counts(request, table), workload, self.limits[table])
            for table, workload in request.workloads.items()
        }

    def _decide(
        self, request: Request, noise: Mapping[str, Noise]
    ) -> tuple[dict[str, Found], list[AnyOffer]]:
        """What history knows of each table's rows, and the best offers of those it leaves: none for
        a request that history alone may answer."""
        found = {
            table: self.knowledge[table].find(
                workload.columns,
                noise[table].aims(workload, request.target),
                fresh=request.source == "fresh",
                summed=request.summed.get(table, ()),
            )
            for table, workload in request.workloads.items()
        }
        offers: list[AnyOffer] = []
        for table, workload in request.workloads.items() if request.source != "history" else ():
            own, limits = (noise[table], found[table]), self.limits[table]
            part = for_counts(request, table)
            asked = as_asked(part, workload, *own, limits.choice, self.knowledge[table])
            if asked is not None:
                known = Information(*own, asked)
                offers.append(decide(part, known, limits, self.accountant))
        offers += self.statistics.offers(request, self.statistics.find(request, self.knowledge))
        return found, offers

    def _settle(
        self,
        request: Request,
        wanted: Mapping[str, Noise],
        found: Mapping[str, Found],
        offers: list[AnyOffer],
        events_read: int,
        held: list[int],
    ) -> _Settled:
        """Pay for the offers and receive their answers, if what the control examined has not
        changed. If other processes have charged or been answered since ``events_read``, decide
        again first, `_RETRIES` times at most: the rows may be known now."""
        others = None if request.source == "fresh" else events_read
        retries = 0
        while True:
            if not offers:
                return _Settled(found, offers, None, {})
            decided_on = self.control.state(one.table for one in offers)
            refused = self.control.refusal([one.charge for one in offers], request)
            if refused is not None:
                raise refused
            self.accountant.price(offer.charge for offer in offers)
            for table, one in found.items():
                self.knowledge[table].prepare(one)
            deadline.check()
            try:
                return self._buy(request, found, offers, decided_on, others, held)
            except LedgerAdvanced:
                seen = self._others_settled(request, offers)
                retries += 1
                others = None if others is None or retries > _RETRIES else seen
                found, offers = self._decide(request, wanted)

    def _buy(
        self,
        request: Request,
        found: Mapping[str, Found],
        offers: Sequence[AnyOffer],
        decided_on: Mapping[str, Seen],
        events_read: int | None,
        held: list[int],
    ) -> _Settled:
        """Pay for all offers, and draw and record their answers: few in the transaction of the
        charges, many without the ledger's lock, once the charges are durable."""

        if any(offer.table in self.past for offer in offers):
            raise ValueError("nothing is bought about the past")
        draw = self._drawing(offers)
        sale = self.accountant.sell(
            [offer.charge for offer in offers],
            request.analyst,
            draw if self._quickly_drawn(offers) else None,
            decided_on=decided_on,
            events_read=events_read,
            versions=self.versions,
            held=held,
        )
        noisy = list(sale.answers)
        # What is charged is drawn and recorded even if the statement is cancelled meanwhile.
        with deadline.unlimited(), unanswered(sale.quote):
            for number, receipt in enumerate(sale.receipts[len(noisy) :]):
                noisy.append(draw(number, receipt))
                self.accountant.record(receipt, noisy[-1])
        each = [*zip(offers, sale.receipts, noisy, strict=True)]
        bought = {
            offer.table: offer.bought(receipt.charge_id, own)
            for offer, receipt, own in each
            if isinstance(offer, Offer)
        }
        drawn = [one.charge_id for offer, one, _ in each if isinstance(offer, StatisticOffer)]
        return _Settled(found, offers, sale.quote, bought, drawn)

    def buy(self, offer: Offer, analyst: str) -> None:
        """Buy rows as offered, for the custodian, whatever is known. Raises what `sell` raises."""
        (receipt,) = self.accountant.charge([offer.charge], analyst, custodian=True)
        with deadline.unlimited():
            self.accountant.record(receipt, self._drawing([offer])(0, receipt))

    def _drawing(self, offers: Sequence[AnyOffer]) -> Draw:
        return lambda number, receipt: _releasing(offers[number])(
            self.cubes[offers[number].table].answer(
                offers[number].charge.workload,
                offers[number].charge.key,
                units=offers[number].charge.counts_units,
            ),
            receipt,
        )

    def _quickly_drawn(self, offers: Sequence[AnyOffer]) -> bool:
        """Whether drawing takes about as long as a wait for the disk. Depends only on what is and
        was asked."""
        return sum(sum(offer.charge.heights) for offer in offers) <= _FEW and all(
            isinstance(offer, Offer)
            and not isinstance(offer.mechanism, CountMechanism)
            and offer.charge.joint is None
            and self.cubes[offer.table].has_ready(offer.charge.workload)
            for offer in offers
        )

    def _hint(
        self,
        error: BudgetExceeded,
        request: Request,
        wanted: Mapping[str, Noise],
        offers: Sequence[AnyOffer],
    ) -> str:
        quote = self._quote(request, offers)
        table = None if quote.refused is None else quote.refused.table
        found, _ = self._decide(replace(request, source="history"), wanted)
        known = {table: one.asked_of(one.rows) for table, one in found.items()}
        affordable = None
        if table is not None and error.remaining > 0:
            less = rest(error, request)
            with suppress(TallyveilError):  # too little remains for any noise
                _, instead = self._decide(less, self._wanted(less))
                left = (one for one in _of_counts(instead) if one.table == table)
                affordable = None if request.histograms else next(left, None)
        return what_remains(error, request, known, wanted, affordable)


def _of_counts(offers: Sequence[AnyOffer]) -> list[Offer]:
    return [offer for offer in offers if isinstance(offer, Offer)]


def _releasing(offer: AnyOffer) -> Releasing:
    """Draws the answers to what is charged."""
    if isinstance(offer, StatisticOffer):
        return partial(STATISTICS[offer.charge.mechanism].release, histogram=offer.histogram)
    drawn = offer.charge.drawn_together
    if drawn is None:
        return offer.mechanism.release
    return partial(release_together, tree=drawn.tree, noise=noise_of(drawn))


def _shareable(request: Request, offers: Sequence[AnyOffer]) -> list[Workload]:
    """The rows that need not be bought if others buy them: none for fresh answers."""
    if request.source == "fresh":
        return []
    asked = [one.asked if isinstance(one, Offer) else one.charge for one in offers]
    pairs = zip(offers, asked, strict=True)
    each = (dict.fromkeys((one.charge.workload, own.workload)) for one, own in pairs)
    return [
        Workload(one.table, tuple(column for own in rows for column in own.columns))
        for one, rows in zip(offers, each, strict=True)
    ]


def _by_table(offers: Sequence[Offer], about: Callable[[Offer], T | None]) -> dict[str, T]:
    each = ((offer.table, about(offer)) for offer in offers)
    return {table: found for table, found in each if found is not None}
