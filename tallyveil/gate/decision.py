"""The decision: what is known already is free; the rest is bought, and remembered.

For each row of a workload the accountant recalls the best recorded answer. Where it is at least as
precise as what would be bought now, it is used:

- additive noise is compared by its variance, whichever mechanism gave it;
- an answer of a mechanism with a public range serves a question that means this mechanism, with
  its parameters, at the same scale or a larger one;
- where such a mechanism was chosen by "auto", additive noise serves too, if its variance is at
  most the mechanism's mean squared error where that is largest.

The rows that fall short are bought together: dry-run, durable charge, receipt, and only then Wx
and noise. One thread decides at a time, so that the same question asked twice at once is paid for
once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tallyveil.accountant import Accountant, Charge, Quote, Recorded
from tallyveil.cube import Cube
from tallyveil.errors import BudgetExceeded, QueryCanceled
from tallyveil.gate.choice import Choice, Noise
from tallyveil.gate.known import Known, known
from tallyveil.gate.settings import Answers, Target
from tallyveil.mechanisms import AnyMechanism, mechanism
from tallyveil.rewriter import Workload

__all__ = ["Answered", "Decision", "Forecast", "Request"]

# Spreads that differ by less than this are the same precision computed twice.
_SAME_SPREAD = 1 + 2e-9


@dataclass(frozen=True)
class Request:
    """What one statement asks, and how: ``workloads`` by table, ``mechanism`` a name or "auto".

    Of the tables in ``summed`` answers are added up, which takes additive noise. ``custodian``:
    it is the custodian who asks, and needs no share of a budget.
    """

    workloads: Mapping[str, Workload]
    target: Target
    source: Answers
    mechanism: str
    sql: str
    analyst: str
    summed: frozenset[str] = frozenset()
    custodian: bool = False


@dataclass(frozen=True)
class Answered:
    """``columns[table][c][i]`` is row i of column c, None where only history was asked and
    does not know it. ``noise`` is by table what was wanted, and ``quote`` what was charged, None
    if nothing was.
    """

    columns: Mapping[str, tuple[tuple[Known | None, ...], ...]]
    noise: Mapping[str, Noise]
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
    mechanism: AnyMechanism
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
            FeatureNotSupported, InvalidParameterValue, StatementTooComplex: no noise meets the
                target; nothing was charged.
        """
        wanted = self._wanted(request)
        with self._accountant.transaction():
            found = self._recall(request, wanted)
            purchases = self._purchases(request, wanted, found)
            if not purchases:
                return Answered({t: _frozen(k) for t, k in found.items()}, wanted, None)
            if cancelled():
                raise QueryCanceled("canceling statement due to user request")
            quote = self._buy(request, purchases, found)
        return Answered({t: _frozen(k) for t, k in found.items()}, wanted, quote)

    def forecast(self, request: Request) -> Forecast:
        """What `answer` would do now. Free; it changes nothing."""
        wanted = self._wanted(request)
        with self._accountant.transaction():
            found = self._recall(request, wanted)
            purchases = self._purchases(request, wanted, found)
            quote = self._quote(request, purchases) if purchases else None
        missing = sum(row is None for table in found.values() for col in table for row in col)
        total = sum(len(col) for table in found.values() for col in table)
        return Forecast(total - missing, missing, wanted, quote)

    def _quote(self, request: Request, purchases: list[_Purchase]) -> Quote:
        charges = [purchase.charge for purchase in purchases]
        return self._accountant.quote(charges, request.analyst, custodian=request.custodian)

    def _wanted(self, request: Request) -> dict[str, Noise]:
        """The noise that each table's target asks for. It depends on nothing in the ledger, and is
        worked out while others decide.
        """
        return {
            table: self._choice.noise(
                workload, request.target, request.mechanism, additive=table in request.summed
            )
            for table, workload in request.workloads.items()
        }

    def _recall(
        self, request: Request, wanted: Mapping[str, Noise]
    ) -> dict[str, list[list[Known | None]]]:
        found: dict[str, list[list[Known | None]]] = {}
        for table, workload in request.workloads.items():
            found[table] = [
                self._best(table, column.row_keys, wanted[table], scale, request.source)
                for column, scale in zip(workload.columns, wanted[table].scales, strict=True)
            ]
        return found

    def _best(
        self,
        table: str,
        row_keys: Sequence[bytes],
        wanted: Noise,
        scale: float,
        source: Answers,
    ) -> list[Known | None]:
        """For each row the recorded answer that will do, or None."""
        noise = wanted.mechanism
        if not noise.needs.public_range or scale == 0:
            recorded = self._accountant.recall(table, row_keys)
            return [_usable(row, noise.spread(scale), source) for row in recorded]
        own = self._accountant.recall(table, row_keys, noise.name)
        best = [_usable(row, noise.spread(scale), source) for row in own]
        if wanted.by_auto:
            additive = self._accountant.recall(table, row_keys)
            error = noise.worst_error(scale)
            best = [a or _usable(b, error, source) for a, b in zip(best, additive, strict=True)]
        return best

    def _purchases(
        self,
        request: Request,
        wanted: Mapping[str, Noise],
        found: Mapping[str, list[list[Known | None]]],
    ) -> list[_Purchase]:
        """The rows that history does not answer, per table, at what the request would pay."""
        if request.source == "history":
            return []
        purchases = []
        for table, workload in request.workloads.items():
            missing = [np.flatnonzero([row is None for row in column]) for column in found[table]]
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
                scales = self._choice.part(wanted[table], part, numbers, request.target)
            charge = Charge(part, noise.name, scales, request.sql)
            bought = tuple(missing[n] for n in numbers)
            purchases.append(_Purchase(charge, noise, numbers, bought))
        return purchases

    def _buy(
        self,
        request: Request,
        purchases: list[_Purchase],
        answers: Mapping[str, list[list[Known | None]]],
    ) -> Quote:
        charges = [purchase.charge for purchase in purchases]
        quote = self._quote(request, purchases)
        try:
            receipts = self._accountant.charge(
                charges, request.analyst, custodian=request.custodian
            )
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
                for row, value in zip(rows.tolist(), values, strict=True):
                    answers[workload.table][number][row] = known(noise, scale, value)
        return quote


def _usable(recorded: Recorded | None, wanted: float, source: Answers) -> Known | None:
    """The recorded answer, if its spread is at most that of what would be bought instead."""
    if recorded is None or source == "fresh":
        return None
    if source == "auto" and not recorded.spread <= wanted * _SAME_SPREAD:
        return None
    return known(mechanism(recorded.mechanism), recorded.scale, recorded.value)


def _frozen(columns: list[list[Known | None]]) -> tuple[tuple[Known | None, ...], ...]:
    return tuple(map(tuple, columns))


def _what_remains(error: BudgetExceeded) -> str:
    if not error.remaining > 0:
        known = "What history knows is still answered: SET dp.source = history."
        if error.analyst is None:
            return known
        return f"{known} The custodian's policy says who may spend, and how much."
    return (
        f"SET dp.{error.unit} to at most {error.remaining:.12g}, ask about other "
        "attributes' cells, or SET dp.source = history for what is known already."
    )
