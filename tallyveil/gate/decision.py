"""The decision: what is known already is free; the rest is bought, and remembered.

For each row of a workload there is the best recorded answer of this very row, and the best
combination of everything recorded that bears on it (`estimates`); the narrower of the two is what
history says. Where that is good enough it is the answer:

- for a target, if its interval is no wider than dp.half_width on either side;
- for a cost, if its variance is at most that of what would be bought now.

The rows that fall short are bought together, in one release: dry-run, durable charge, receipt, and
only then Wx and noise. For a target the noise is the most with which history and purchase together
meet it (`top_up`). What is bought becomes history too, and the answer is what history then says.
Which of several estimates is taken is decided by the laws of their errors, never by their values.

One thread decides at a time, so that the same question asked twice at once is paid for once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from tallyveil.accountant import Accountant, Charge, Quote
from tallyveil.cube import Cube
from tallyveil.errors import BudgetExceeded, QueryCanceled
from tallyveil.gate.choice import Choice, Noise
from tallyveil.gate.estimates import Estimated, Estimates
from tallyveil.gate.known import InRange, Known, Noisy, known, narrower, released
from tallyveil.gate.refusal import what_remains
from tallyveil.gate.settings import Answers, Target
from tallyveil.gate.topping_up import topped_up
from tallyveil.mechanisms import AnyMechanism, CountMechanism
from tallyveil.rewriter import Workload
from tallyveil.rewriter.workload import Column, IntArray

__all__ = ["Answered", "Decision", "Forecast", "Request", "Rows"]

# Widths and variances that differ by less than this are the same precision computed twice.
_SAME = 1 + 2e-9

Rows: TypeAlias = tuple[tuple[Known | None, ...], ...]
"""By column and row; None for what is not known."""


@dataclass(frozen=True)
class Request:
    """What one statement asks, and how: ``workloads`` by table, ``mechanism`` a name or "auto".

    Of the tables in ``summed`` answers are added up, which takes additive noise.
    """

    workloads: Mapping[str, Workload]
    target: Target
    source: Answers
    mechanism: str
    sql: str
    analyst: str
    summed: frozenset[str] = frozenset()


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
    ``scales[table][c]`` for column c, if rows of it would be bought."""

    found: Mapping[str, Rows]
    bought: int
    noise: Mapping[str, Noise]
    scales: Mapping[str, Mapping[int, float]]
    quote: Quote | None

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


class Decision:
    """Decides and carries out requests. Threads may share it."""

    def __init__(self, accountant: Accountant, choice: Choice, cubes: Mapping[str, Cube]) -> None:
        self._accountant = accountant
        self._choice = choice
        self._cubes = cubes
        self._estimates = Estimates(accountant)

    def answer(self, request: Request, cancelled: Callable[[], bool]) -> Answered:
        """Answer from history where it suffices, buy the rest, remember it.

        Raises:
            BudgetExceeded: nothing was charged.
            QueryCanceled: cancelled before anything was charged.
            FeatureNotSupported, InvalidParameterValue, StatementTooComplex: no noise meets the
                target; nothing was charged.
        """
        wanted = self._wanted(request)
        with self._accountant.transaction():
            found = self._recall_all(request, wanted)
            purchases = self._purchases(request, wanted, found)
            if not purchases:
                return Answered(found, wanted, None)
            if cancelled():
                raise QueryCanceled("canceling statement due to user request")
            quote, fresh = self._buy(request, purchases, wanted, found)
            if _alone(found):
                found = fresh
            elif request.source != "fresh":
                found = self._recall_all(request, wanted)
        bought = sum(len(rows) for purchase in purchases for rows in purchase.rows)
        return Answered(fresh if request.source == "fresh" else found, wanted, quote, bought)

    def forecast(self, request: Request) -> Forecast:
        """What `answer` would do now. Free; it changes nothing."""
        wanted = self._wanted(request)
        with self._accountant.transaction():
            found = self._recall_all(request, wanted)
            purchases = self._purchases(request, wanted, found)
            quote = self._accountant.quote([p.charge for p in purchases]) if purchases else None
        bought = sum(len(rows) for purchase in purchases for rows in purchase.rows)
        scales = {
            p.charge.workload.table: dict(zip(p.columns, p.charge.scales, strict=True))
            for p in purchases
        }
        return Forecast(found, bought, wanted, scales, quote)

    def _wanted(self, request: Request) -> dict[str, Noise]:
        """The noise that each table's target asks for if history says nothing. It depends on
        nothing in the ledger, and is worked out while others decide.
        """
        return {
            table: self._choice.noise(
                workload, request.target, request.mechanism, additive=table in request.summed
            )
            for table, workload in request.workloads.items()
        }

    def _recall_all(self, request: Request, wanted: Mapping[str, Noise]) -> dict[str, Rows]:
        return {
            table: tuple(
                self._recall(request, table, column, wanted[table], scale)
                for column, scale in zip(workload.columns, wanted[table].scales, strict=True)
            )
            for table, workload in request.workloads.items()
        }

    def _recall(
        self, request: Request, table: str, column: Column, wanted: Noise, scale: float
    ) -> tuple[Known | None, ...]:
        """What history says of each row of a column; nothing under "fresh"."""
        if request.source == "fresh":
            return (None,) * column.height
        noise = wanted.mechanism
        if not isinstance(noise, CountMechanism) or scale == 0:
            return self._additive(request.target, table, column)
        own = self._accountant.recall(table, column.row_keys, noise.name)
        ranged = [None if recorded is None else known(recorded) for recorded in own]
        if not wanted.by_auto:
            return tuple(ranged)
        return tuple(
            a if a is not None and (b is None or _suffices(a, request.target, column, wanted, scale)
                                    or not _suffices(b, request.target, column, wanted, scale))
            else b
            for a, b in zip(ranged, self._additive(request.target, table, column), strict=True)
        )  # fmt: skip

    def _additive(
        self, target: Target, table: str, column: Column
    ) -> tuple[Noisy | Estimated | None, ...]:
        by_width = target.confidence if target.half_width is not None else None
        recorded = self._accountant.recall(table, column.row_keys)
        own = [None if one is None else known(one) for one in recorded]
        estimates = self._estimates.rows(table, column)
        return tuple(
            narrower(one if isinstance(one, Noisy) else None, estimate, by_width)
            for one, estimate in zip(own, estimates, strict=True)
        )

    def _purchases(
        self, request: Request, wanted: Mapping[str, Noise], found: Mapping[str, Rows]
    ) -> list[_Purchase]:
        """The rows that history does not answer well enough, per table."""
        if request.source == "history":
            return []
        purchases = []
        for table, workload in request.workloads.items():
            noise = wanted[table]
            short = [
                np.flatnonzero(
                    [not _suffices(row, request.target, column, noise, scale) for row in rows]
                )
                for column, rows, scale in zip(
                    workload.columns, found[table], noise.scales, strict=True
                )
            ]
            # A column without rows is no part of what is bought.
            numbers = tuple(n for n, rows in enumerate(short) if len(rows))
            if numbers:
                rows = tuple(short[n] for n in numbers)
                part, scales = self._part(request, workload, noise, numbers, rows, found[table])
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
        found: Rows,
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
                [row if not isinstance(row := found[n][i], InRange) else None for i in r.tolist()],
                target.half_width / column.multiplier,
                target.confidence,
            )
            for n, r, column, scale in zip(numbers, rows, part.columns, scales, strict=True)
        )

    def _buy(
        self,
        request: Request,
        purchases: list[_Purchase],
        wanted: Mapping[str, Noise],
        found: Mapping[str, Rows],
    ) -> tuple[Quote, dict[str, Rows]]:
        """What was charged, and the purchases' answers alone in the places of ``found``."""
        charges = [purchase.charge for purchase in purchases]
        quote = self._accountant.quote(charges)
        try:
            receipts = self._accountant.charge(charges, request.analyst)
        except BudgetExceeded as error:
            refused = next((t.table for t in quote.tables if not t.allowed), None)
            part = next((c.workload for c in charges if c.workload.table == refused), None)
            history = self._recall_all(replace(request, source="history"), wanted)
            error.hint = what_remains(error, request, history, self._choice, wanted, part)
            raise
        fresh = {table: [list(rows) for rows in columns] for table, columns in found.items()}
        for purchase, receipt in zip(purchases, receipts, strict=True):
            workload = purchase.charge.workload
            noisy = purchase.mechanism.release(
                self._cubes[workload.table].answer(workload), receipt
            )
            self._accountant.record(receipt, noisy)
            for number, rows, values, scale in zip(
                purchase.columns, purchase.rows, noisy, receipt.scales, strict=True
            ):
                for row, value in zip(rows.tolist(), values, strict=True):
                    fresh[workload.table][number][row] = released(purchase.mechanism, scale, value)
        return quote, {table: _frozen(columns) for table, columns in fresh.items()}


def _suffices(
    row: Known | None, target: Target, column: Column, wanted: Noise, scale: float
) -> bool:
    """Whether history's answer is as good as the target asks. An answer of a mechanism with a
    public range serves for this mechanism only, and only at the same scale or a smaller one."""
    if row is None:
        return False
    if isinstance(row, InRange):
        if row.mechanism != wanted.mechanism:
            return False
        return row.mechanism.spread(row.scale) <= wanted.mechanism.spread(scale) * _SAME
    if target.half_width is None:
        return row.variance <= wanted.mechanism.worst_error(scale) * _SAME
    return row.half_width(target.confidence) <= float(target.half_width / column.multiplier) * _SAME


def _alone(found: Mapping[str, Rows]) -> bool:
    """Whether one row was asked that history does not determine: then nothing recorded can better
    its fresh answer, for in A H + a q = q the a is 1 and A has no part in it."""
    return [row for rows in found.values() for row in rows] == [(None,)]


def _frozen(columns: Sequence[Sequence[Known | None]]) -> Rows:
    return tuple(map(tuple, columns))
