"""The decision: what is known already is free; the rest is bought, and remembered.

For each row of a workload the accountant recalls the best recorded answer. Where it is at least
as precise as what would be bought now, it is used. The rows that fall short are bought together:
dry-run, durable charge, receipt, and only then Wx and noise. One thread decides at a time, so
that the same question asked twice at once is paid for once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tallyveil.accountant import Account, Accountant, Charge, Quote, Recorded
from tallyveil.cube import Cube
from tallyveil.errors import BudgetExceeded, QueryCanceled
from tallyveil.gate.settings import Answers, Target
from tallyveil.mechanisms import Mechanism, mechanism
from tallyveil.rewriter import Workload

__all__ = ["Answered", "Decision", "Forecast", "Known", "Request"]

# Scales that differ by less than this are the same precision computed twice.
_SAME_SCALE = 1 + 1e-9


@dataclass(frozen=True)
class Known:
    """A noisy answer of one integer row: ``value`` in lattice units, noise scale ``scale``."""

    value: int
    scale: float


@dataclass(frozen=True)
class Request:
    """What one statement asks, and how: ``workloads`` by table."""

    workloads: Mapping[str, Workload]
    target: Target
    source: Answers
    mechanism: str
    sql: str
    analyst: str


@dataclass(frozen=True)
class Answered:
    """``columns[table][c][i]`` is row i of column c, None where only history was asked and
    does not know it. ``quote`` is what was charged, None if nothing was.
    """

    columns: Mapping[str, tuple[tuple[Known | None, ...], ...]]
    quote: Quote | None


@dataclass(frozen=True)
class Forecast:
    """What a request would do: rows known, rows to buy, at which scales and cost."""

    known_rows: int
    missing_rows: int
    scales: Mapping[str, tuple[float, ...]]
    quote: Quote | None


@dataclass(frozen=True)
class _Purchase:
    """The part of a table's workload that history does not answer: of ``columns[n]``, the
    rows ``rows[n]``, which are row 0, 1, … of the charge's n-th column."""

    charge: Charge
    columns: tuple[int, ...]
    rows: tuple[np.ndarray[tuple[int], np.dtype[np.int64]], ...]


class Decision:
    """Decides and carries out requests. Threads may share it."""

    def __init__(
        self, accountant: Accountant, accounts: Mapping[str, Account], cubes: Mapping[str, Cube]
    ) -> None:
        self._accountant = accountant
        self._accounts = accounts
        self._cubes = cubes

    def answer(self, request: Request, cancelled: Callable[[], bool]) -> Answered:
        """Answer from history where it suffices, buy the rest, remember it.

        Raises:
            BudgetExceeded: nothing was charged.
            QueryCanceled: cancelled before anything was charged.
        """
        noise = mechanism(request.mechanism)
        with self._accountant.transaction():
            wanted = self._wanted(request, noise)
            known = self._recall(request, wanted)
            purchases = self._purchases(request, noise, wanted, known)
            if not purchases:
                return Answered({t: _frozen(k) for t, k in known.items()}, None)
            if cancelled():
                raise QueryCanceled("canceling statement due to user request")
            quote = self._buy(request, noise, purchases, known)
        return Answered({t: _frozen(k) for t, k in known.items()}, quote)

    def forecast(self, request: Request) -> Forecast:
        """What `answer` would do now. Free; it changes nothing."""
        noise = mechanism(request.mechanism)
        with self._accountant.transaction():
            wanted = self._wanted(request, noise)
            known = self._recall(request, wanted)
            purchases = self._purchases(request, noise, wanted, known)
            quote = self._accountant.quote([p.charge for p in purchases]) if purchases else None
        missing = sum(row is None for table in known.values() for col in table for row in col)
        total = sum(len(col) for table in known.values() for col in table)
        return Forecast(total - missing, missing, wanted, quote)

    def _wanted(self, request: Request, noise: Mechanism) -> dict[str, tuple[float, ...]]:
        return {t: self._scales(request, noise, w) for t, w in request.workloads.items()}

    def _recall(
        self, request: Request, wanted: Mapping[str, tuple[float, ...]]
    ) -> dict[str, list[list[Known | None]]]:
        known: dict[str, list[list[Known | None]]] = {}
        for table, workload in request.workloads.items():
            known[table] = [
                [
                    _usable(recorded, scale, request.source)
                    for recorded in self._accountant.recall(table, column.row_keys)
                ]
                for column, scale in zip(workload.columns, wanted[table], strict=True)
            ]
        return known

    def _scales(self, request: Request, noise: Mechanism, workload: Workload) -> tuple[float, ...]:
        """The noise scale of each column that the request's target asks for."""
        relation = self._accounts[workload.table].relation
        target = request.target
        if target.half_width is None:
            return noise.scales_for(workload, target.epsilon or Fraction(1), relation)
        movable = noise.scales_for(workload, Fraction(1), relation)
        return tuple(
            noise.scale_for_half_width(
                math.floor(target.half_width / column.multiplier), target.confidence
            )
            if scale > 0
            else 0.0
            for column, scale in zip(workload.columns, movable, strict=True)
        )

    def _purchases(
        self,
        request: Request,
        noise: Mechanism,
        wanted: Mapping[str, tuple[float, ...]],
        known: Mapping[str, list[list[Known | None]]],
    ) -> list[_Purchase]:
        """The rows that history does not answer, per table, at what the request would pay."""
        if request.source == "history":
            return []
        purchases = []
        for table, workload in request.workloads.items():
            missing = [np.flatnonzero([row is None for row in column]) for column in known[table]]
            numbers = tuple(n for n, rows in enumerate(missing) if len(rows))
            if not numbers:
                continue
            # A column without rows is no part of what is bought.
            whole = len(numbers) == len(missing) and all(
                len(r) == c.height for r, c in zip(missing, workload.columns, strict=True)
            )
            part, scales = workload, wanted[table]
            if not whole:
                columns = (workload.columns[n].take(missing[n]) for n in numbers)
                part = Workload(table, tuple(columns))
                scales = self._scales(request, noise, part)
            charge = Charge(part, request.mechanism, scales, request.sql)
            purchases.append(_Purchase(charge, numbers, tuple(missing[n] for n in numbers)))
        return purchases

    def _buy(
        self,
        request: Request,
        noise: Mechanism,
        purchases: list[_Purchase],
        known: Mapping[str, list[list[Known | None]]],
    ) -> Quote:
        charges = [purchase.charge for purchase in purchases]
        quote = self._accountant.quote(charges)
        try:
            receipts = self._accountant.charge(charges, request.analyst)
        except BudgetExceeded as error:
            error.hint = _what_remains(error.remaining)
            raise
        for purchase, receipt in zip(purchases, receipts, strict=True):
            workload = purchase.charge.workload
            noisy = noise.release(self._cubes[workload.table].answer(workload), receipt)
            self._accountant.record(receipt, noisy)
            for number, rows, values, scale in zip(
                purchase.columns, purchase.rows, noisy, receipt.scales, strict=True
            ):
                for row, value in zip(rows.tolist(), values, strict=True):
                    known[workload.table][number][row] = Known(value, scale)
        return quote


def _usable(recorded: Recorded | None, wanted: float, source: Answers) -> Known | None:
    """The recorded answer, if it is as precise as what would be bought instead."""
    if recorded is None or source == "fresh":
        return None
    if source == "auto" and recorded.scale > wanted * _SAME_SCALE:
        return None
    return Known(recorded.value, recorded.scale)


def _frozen(columns: list[list[Known | None]]) -> tuple[tuple[Known | None, ...], ...]:
    return tuple(map(tuple, columns))


def _what_remains(remaining: float) -> str:
    if not remaining > 0:
        return "What history knows is still answered: SET dp.source = history."
    return (
        f"SET dp.epsilon to at most {remaining:.12g}, ask about other attributes' cells, "
        "or SET dp.source = history for what is known already."
    )
