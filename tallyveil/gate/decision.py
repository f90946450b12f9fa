"""The decision: what is known already is free; the rest is bought, and remembered.

For each row of a workload there is what `history` says. Where that is good enough it is the answer:

- for a target, if its interval is no wider than dp.half_width on either side;
- for a cost, if its variance is at most that of what would be bought now.

The rows that fall short are bought together, in one release: dry-run, durable charge, receipt, and
only then Wx and noise. For a target the noise is the most with which history and purchase together
meet it (`top_up`). What is bought becomes history too, and the answer is what history then says.

What a policy's inference control does not allow is refused before that (`control`).

Estimates are worked out while others decide; they are worked out again where the history has grown
meanwhile. One thread at a time decides and buys, so that the same question asked twice at once is
paid for once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tallyveil import deadline
from tallyveil.accountant import Accountant, Charge, Quote
from tallyveil.cube import Cube
from tallyveil.errors import BudgetExceeded, InsufficientPrivilege
from tallyveil.gate.choice import Choice, Noise
from tallyveil.gate.control import Control
from tallyveil.gate.history import Bought, Found, History, falling_short
from tallyveil.gate.refusal import what_remains
from tallyveil.gate.request import Request, Rows
from tallyveil.gate.topping_up import topped_up
from tallyveil.mechanisms import AnyMechanism, CountMechanism
from tallyveil.rewriter import Workload
from tallyveil.rewriter.workload import IntArray

__all__ = ["Answered", "Decision", "Forecast"]


@dataclass(frozen=True)
class Answered:
    """``columns[table][c][i]`` is row i of column c, None where only history was asked and
    does not know it. ``noise`` is by table what was wanted, ``quote`` what was charged, None if
    nothing was, and ``bought`` for how many rows.
    """

    columns: Mapping[str, Rows]
    noise: Mapping[str, Noise]
    quote: Quote | None
    bought: int = 0


@dataclass(frozen=True)
class Forecast:
    """What a request would do: ``found`` is what history says, ``bought`` how many rows would be
    bought, with the noise of ``noise`` or, for a target, as much more as history allows:
    ``scales[table][c]`` for column c, if rows of it would be bought. ``refused`` says why the
    inference control would not allow it, None if it would."""

    found: Mapping[str, Rows]
    bought: int
    noise: Mapping[str, Noise]
    scales: Mapping[str, Mapping[int, float]]
    quote: Quote | None
    refused: InsufficientPrivilege | None = None

    @property
    def known_rows(self) -> int:
        """How many rows history knows well enough."""
        rows = sum(len(column) for columns in self.found.values() for column in columns)
        return rows - self.bought


@dataclass(frozen=True)
class _Purchase:
    """The part of a table's workload that history does not answer: of ``columns[n]``, the
    rows ``rows[n]``, which are row 0, 1, … of the charge's n-th column."""

    charge: Charge
    mechanism: AnyMechanism
    columns: tuple[int, ...]
    rows: tuple[IntArray, ...]

    @property
    def height(self) -> int:
        return sum(map(len, self.rows))


class Decision:
    """Decides and carries out requests. Threads may share it."""

    def __init__(
        self,
        accountant: Accountant,
        choice: Choice,
        cubes: Mapping[str, Cube],
        control: Control,
    ) -> None:
        self._accountant = accountant
        self._control = control
        self._choice = choice
        self._cubes = cubes
        self._history = History(accountant)

    def answer(self, request: Request) -> Answered:
        """Answer from history where it suffices, buy the rest, remember it.

        Raises:
            BudgetExceeded: nothing was charged.
            InsufficientPrivilege: the table's inference control does not allow it; nothing was
                charged.
            QueryCanceled: cancelled; nothing was charged unless the answer was recorded too.
            FeatureNotSupported, InvalidParameterValue, StatementTooComplex: no noise meets the
                target; nothing was charged.
        """
        wanted = self._wanted(request)
        state = self._history.state(request)
        found, purchases = self._allowed(request, wanted)
        deadline.check()
        quote: Quote | None = None
        bought: list[Bought] = []
        if purchases:
            with self._accountant.transaction():
                if self._history.state(request) != state:
                    found, purchases = self._allowed(request, wanted)
                if purchases:
                    quote, bought = self._buy(request, purchases, wanted, found)
        rows = self._history.after(request, found, bought)
        return Answered(rows, wanted, quote, sum(p.height for p in purchases))

    def forecast(self, request: Request) -> Forecast:
        """What `answer` would do now. Free; it changes nothing."""
        wanted = self._wanted(request)
        found, purchases = self._weigh(request, wanted)
        quote = self._quote(request, purchases) if purchases else None
        scales = {
            p.charge.workload.table: dict(zip(p.columns, p.charge.scales, strict=True))
            for p in purchases
        }
        refused = self._refusal(request, purchases)
        return Forecast(
            found.rows, sum(p.height for p in purchases), wanted, scales, quote, refused
        )

    def _allowed(
        self, request: Request, wanted: Mapping[str, Noise]
    ) -> tuple[Found, list[_Purchase]]:
        """As `_weigh`. Raises InsufficientPrivilege if it may not be bought."""
        found, purchases = self._weigh(request, wanted)
        refused = self._refusal(request, purchases)
        if refused is not None:
            raise refused
        return found, purchases

    def _refusal(
        self, request: Request, purchases: Sequence[_Purchase]
    ) -> InsufficientPrivilege | None:
        charges = [purchase.charge for purchase in purchases]
        return self._control.refusal(charges, request)

    def _quote(self, request: Request, purchases: Sequence[_Purchase]) -> Quote:
        charges = [purchase.charge for purchase in purchases]
        return self._accountant.quote(charges, request.analyst, custodian=request.custodian)

    def _wanted(self, request: Request) -> dict[str, Noise]:
        """The noise that each table's target asks for if history says nothing. It depends on
        nothing in the ledger.
        """
        return {
            table: self._choice.noise(
                workload, request.target, request.mechanism, additive=table in request.summed
            )
            for table, workload in request.workloads.items()
        }

    def _weigh(
        self, request: Request, wanted: Mapping[str, Noise]
    ) -> tuple[Found, list[_Purchase]]:
        """What history says, and what has to be bought beside it."""
        found = self._history.find(request, wanted)
        return found, self._purchases(request, wanted, found)

    def _purchases(
        self, request: Request, wanted: Mapping[str, Noise], found: Found
    ) -> list[_Purchase]:
        """The rows that history does not answer well enough, per table."""
        if request.source == "history":
            return []
        purchases = []
        for table, workload in request.workloads.items():
            noise = wanted[table]
            short = [
                falling_short(rows, request.target, column, noise, scale)
                for column, rows, scale in zip(
                    workload.columns, found.rows[table], noise.scales, strict=True
                )
            ]
            # A column without rows is no part of what is bought.
            numbers = tuple(n for n, rows in enumerate(short) if len(rows))
            if numbers:
                rows = tuple(short[n] for n in numbers)
                part, scales = self._part(request, workload, noise, numbers, rows, found)
                charge = Charge(part, noise.mechanism.name, scales, request.sql)
                purchases.append(_Purchase(charge, noise.mechanism, numbers, rows))
        return purchases

    def _part(
        self,
        request: Request,
        workload: Workload,
        noise: Noise,
        numbers: tuple[int, ...],
        rows: tuple[IntArray, ...],
        found: Found,
    ) -> tuple[Workload, tuple[float, ...]]:
        """Of columns ``numbers`` the ``rows``, and the scales to buy them at."""
        part, scales, target = workload, noise.scales, request.target
        heights = tuple(column.height for column in workload.columns)
        if tuple(map(len, rows)) != heights:
            columns = (workload.columns[n].take(r) for n, r in zip(numbers, rows, strict=True))
            part = Workload(workload.table, tuple(columns))
            scales = self._choice.part(noise, part, numbers, target)
        mechanism = noise.mechanism
        if target.half_width is None or isinstance(mechanism, CountMechanism):
            return part, scales
        return part, tuple(
            topped_up(
                mechanism,
                scale,
                found.estimates(workload.table, n, r),
                target.half_width / column.multiplier,
                target.confidence,
            )
            for n, r, column, scale in zip(numbers, rows, part.columns, scales, strict=True)
        )

    def _buy(
        self,
        request: Request,
        purchases: Sequence[_Purchase],
        wanted: Mapping[str, Noise],
        found: Found,
    ) -> tuple[Quote, list[Bought]]:
        """What was charged, and what was received for it."""
        charges = [purchase.charge for purchase in purchases]
        quote = self._quote(request, purchases)
        deadline.check()
        try:
            # What is charged is drawn and recorded, whoever has given up meanwhile.
            with deadline.unlimited():
                return quote, self._receive(request, purchases)
        except BudgetExceeded as error:
            table = None if quote.refused is None else quote.refused.table
            part = next((c.workload for c in charges if c.workload.table == table), None)
            known = self._history.find(replace(request, source="history"), wanted)
            error.hint = what_remains(error, request, known.rows, self._choice, wanted, part)
            raise

    def _receive(self, request: Request, purchases: Sequence[_Purchase]) -> list[Bought]:
        """Pay for all purchases, then draw and record their answers."""
        receipts = self._accountant.charge(
            [purchase.charge for purchase in purchases],
            request.analyst,
            custodian=request.custodian,
        )
        bought = []
        for purchase, receipt in zip(purchases, receipts, strict=True):
            workload = purchase.charge.workload
            truth = self._cubes[workload.table].answer(workload)
            noisy = purchase.mechanism.release(truth, receipt)
            self._accountant.record(receipt, noisy)
            bought.append(
                Bought(
                    workload.table,
                    receipt.charge_id,
                    purchase.mechanism,
                    purchase.columns,
                    purchase.rows,
                    receipt.scales,
                    noisy,
                )
            )
        return bought
