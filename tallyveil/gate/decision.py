"""The decision: what is known already is free; the rest is bought, and remembered.

For each row of a workload the accountant recalls the best recorded answer. Where its variance is
at most that of what would be bought now, it is used, whichever mechanism gave it. The rows that
fall short are bought together: dry-run, durable charge, receipt, and only then Wx and noise. One
thread decides at a time, so that the same question asked twice at once is paid for once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tallyveil.accountant import Accountant, Charge, Quote, Recorded
from tallyveil.cube import Cube
from tallyveil.errors import BudgetExceeded, QueryCanceled
from tallyveil.gate.choice import Choice, Noise
from tallyveil.gate.settings import Answers, Target
from tallyveil.inference import NoiseLaw
from tallyveil.mechanisms import Mechanism, mechanism
from tallyveil.rewriter import Workload

__all__ = ["Answered", "Decision", "Forecast", "Known", "Request"]

# Variances that differ by less than this are the same precision computed twice.
_SAME_VARIANCE = 1 + 2e-9


@dataclass(frozen=True)
class Known:
    """A noisy answer of one integer row: ``value`` in lattice units, and its noise's law."""

    value: int
    law: NoiseLaw


@dataclass(frozen=True)
class Request:
    """What one statement asks, and how: ``workloads`` by table, ``mechanism`` a name or "auto"."""

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
    """What a request would do: rows known, rows to buy, with which noise and at which cost."""

    known_rows: int
    missing_rows: int
    noise: Mapping[str, Noise]
    quote: Quote | None


@dataclass(frozen=True)
class _Purchase:
    """The part of a table's workload that history does not answer: of ``columns[n]``, the
    rows ``rows[n]``, which are row 0, 1, … of the charge's n-th column."""

    charge: Charge
    mechanism: Mechanism
    columns: tuple[int, ...]
    rows: tuple[np.ndarray[tuple[int], np.dtype[np.int64]], ...]


class Decision:
    """Decides and carries out requests. Threads may share it."""

    def __init__(self, accountant: Accountant, choice: Choice, cubes: Mapping[str, Cube]) -> None:
        self._accountant = accountant
        self._choice = choice
        self._cubes = cubes

    def answer(self, request: Request, cancelled: Callable[[], bool]) -> Answered:
        """Answer from history where it suffices, buy the rest, remember it.

        Raises:
            BudgetExceeded: nothing was charged.
            QueryCanceled: cancelled before anything was charged.
            FeatureNotSupported, InvalidParameterValue: no noise meets the target; nothing was
                charged.
        """
        with self._accountant.transaction():
            wanted = self._wanted(request)
            known = self._recall(request, wanted)
            purchases = self._purchases(request, wanted, known)
            if not purchases:
                return Answered({t: _frozen(k) for t, k in known.items()}, None)
            if cancelled():
                raise QueryCanceled("canceling statement due to user request")
            quote = self._buy(request, purchases, known)
        return Answered({t: _frozen(k) for t, k in known.items()}, quote)

    def forecast(self, request: Request) -> Forecast:
        """What `answer` would do now. Free; it changes nothing."""
        with self._accountant.transaction():
            wanted = self._wanted(request)
            known = self._recall(request, wanted)
            purchases = self._purchases(request, wanted, known)
            quote = self._accountant.quote([p.charge for p in purchases]) if purchases else None
        missing = sum(row is None for table in known.values() for col in table for row in col)
        total = sum(len(col) for table in known.values() for col in table)
        return Forecast(total - missing, missing, wanted, quote)

    def _wanted(self, request: Request) -> dict[str, Noise]:
        """The noise that each table's target asks for."""
        return {
            table: self._choice.noise(workload, request.target, request.mechanism)
            for table, workload in request.workloads.items()
        }

    def _recall(
        self, request: Request, wanted: Mapping[str, Noise]
    ) -> dict[str, list[list[Known | None]]]:
        known: dict[str, list[list[Known | None]]] = {}
        for table, workload in request.workloads.items():
            noise = wanted[table]
            known[table] = []
            for column, scale in zip(workload.columns, noise.scales, strict=True):
                variance = noise.mechanism.law(scale).variance
                recorded = self._accountant.recall(table, column.row_keys)
                known[table].append([_usable(row, variance, request.source) for row in recorded])
        return known

    def _purchases(
        self,
        request: Request,
        wanted: Mapping[str, Noise],
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
            noise, scales = wanted[table].mechanism, wanted[table].scales
            part = workload
            if not whole:
                columns = (workload.columns[n].take(missing[n]) for n in numbers)
                part = Workload(table, tuple(columns))
                scales = self._choice.scales(noise, part, request.target)
            charge = Charge(part, noise.name, scales, request.sql)
            bought = tuple(missing[n] for n in numbers)
            purchases.append(_Purchase(charge, noise, numbers, bought))
        return purchases

    def _buy(
        self,
        request: Request,
        purchases: list[_Purchase],
        known: Mapping[str, list[list[Known | None]]],
    ) -> Quote:
        charges = [purchase.charge for purchase in purchases]
        quote = self._accountant.quote(charges)
        try:
            receipts = self._accountant.charge(charges, request.analyst)
        except BudgetExceeded as error:
            error.hint = _what_remains(error)
            raise
        for purchase, receipt in zip(purchases, receipts, strict=True):
            workload = purchase.charge.workload
            noise = purchase.mechanism
            noisy = noise.release(self._cubes[workload.table].answer(workload), receipt)
            self._accountant.record(receipt, noisy)
            for number, rows, values, scale in zip(
                purchase.columns, purchase.rows, noisy, receipt.scales, strict=True
            ):
                law = noise.law(scale)
                for row, value in zip(rows.tolist(), values, strict=True):
                    known[workload.table][number][row] = Known(value, law)
        return quote


def _usable(recorded: Recorded | None, wanted: float, source: Answers) -> Known | None:
    """The recorded answer, if its variance is at most that of what would be bought instead."""
    if recorded is None or source == "fresh":
        return None
    if source == "auto" and recorded.variance > wanted * _SAME_VARIANCE:
        return None
    return Known(recorded.value, _law(recorded.mechanism, recorded.scale))


@lru_cache(maxsize=4096)
def _law(name: str, scale: float) -> NoiseLaw:
    return mechanism(name).law(scale)


def _frozen(columns: list[list[Known | None]]) -> tuple[tuple[Known | None, ...], ...]:
    return tuple(map(tuple, columns))


def _what_remains(error: BudgetExceeded) -> str:
    if not error.remaining > 0:
        return "What history knows is still answered: SET dp.source = history."
    return (
        f"SET dp.{error.unit} to at most {error.remaining:.12g}, ask about other "
        "attributes' cells, or SET dp.source = history for what is known already."
    )
