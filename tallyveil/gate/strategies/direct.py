"""Buys the rows that a request asks and history does not answer well enough, as they are asked.

1. The rows that are not known precisely enough are found.
2. `_lot` finds the noise with which each row is precise enough by itself.
3. For a half-width, `_topped_up` widens the noise as far as history and the other rows allow, and
   `Choice.at_least_cost` narrows it if the statement would cost less than any statement must.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from tallyveil.accountant import Charge
from tallyveil.arrays import IntArray
from tallyveil.cache import Recent
from tallyveil.gate.deciding.choice import Choice
from tallyveil.gate.deciding.noise import Noise, Selection
from tallyveil.gate.deciding.request import Request
from tallyveil.gate.strategies.offer import Information, Limits, Offer
from tallyveil.inference import NoiseLaw
from tallyveil.knowledge import Found, Knowledge, Rows
from tallyveil.mechanisms import BY_DESIGN, TOGETHER, law_of
from tallyveil.rewriter import Workload

__all__ = ["as_asked", "direct", "sums_after"]


class _Lot(NamedTuple):
    """The ``rows`` of a workload that are bought, a ``workload`` of these alone, and the scales of
    its columns."""

    rows: Selection
    workload: Workload
    scales: tuple[float, ...]


def direct(request: Request, information: Information, limits: Limits) -> Iterator[Offer]:
    yield information.asked


def as_asked(
    request: Request,
    workload: Workload,
    noise: Noise,
    found: Found,
    choice: Choice,
    knowledge: Knowledge,
) -> Offer | None:
    """The offer of those rows of a workload that are not known precisely enough; None if all are.

    ``noise`` meets the request's target without history, and ``found`` is what history knows.
    """
    short = [noise.bought(n, found.short(n)) for n in range(len(workload.columns))]
    if not any(map(len, short)):
        return None
    lot = _lot(request, workload, noise, short, choice)
    scales = asked = lot.scales
    if request.target.half_width is not None:
        asked = _topped_up(request, noise, found, knowledge, lot)
        scales = choice.at_least_cost(noise, lot.workload, asked)
    charge = Charge(lot.workload, noise.mechanism.name, scales, request.sql)
    return Offer(charge, charge, noise.mechanism, *lot.rows, scales != asked)


def sums_after(found: Mapping[str, Found], offers: Sequence[Offer]) -> dict[str, Rows]:
    """Return by table how precisely the rows that are summed up would be known after the offers.

    That is by the answers bought, with independent noise. History and exact rows may improve it.
    """
    laws: dict[str, dict[int, tuple[IntArray, NoiseLaw]]] = {}
    for one in offers:
        if one.by_other_rows:
            continue  # other rows are charged, which have noise of other scales
        for number, rows, scale in zip(one.columns, one.rows, one.asked.scales, strict=True):
            law = law_of(one.mechanism.name, scale)
            if law is not None:
                laws.setdefault(one.table, {})[number] = rows, law
    return {t: one.sums_after(laws.get(t, {})) for t, one in found.items() if one.summed}


def _topped_up(
    request: Request, noise: Noise, found: Found, knowledge: Knowledge, lot: _Lot
) -> tuple[float, ...]:
    """Return the largest scales at which the rows of a lot meet the half-width together with
    history and with each other. At the lot's own scales each row meets it by itself."""
    each = zip(*lot.rows, lot.scales, strict=True)
    scales = tuple(found.scale(number, rows, scale) for number, rows, scale in each)
    if request.by_invariants in TOGETHER:  # the joint noise itself spreads less
        return scales
    laws = [law_of(noise.mechanism.name, scale) for scale in scales]
    factors = knowledge.widened(found, *lot.rows, laws)
    return tuple(map(operator.mul, scales, factors))


_LOTS: Final[Recent[Workload, _Lot]] = Recent(4)


def _lot(
    request: Request, workload: Workload, noise: Noise, short: Sequence[IntArray], choice: Choice
) -> _Lot:
    """Return the rows to buy, and scales at which each meets the target by itself.

    ``short`` are the rows of each column that are not known precisely enough. All others are bought
    too where that might cost less (`Choice.part`).
    """
    rows, columns = Selection.of(short), workload.columns
    # A column of no rows is not bought, and makes no part of the workload the whole.
    if tuple(map(len, rows.rows)) == tuple(one.height for one in columns):
        return _Lot(rows, workload, noise.scales)
    # Lots are kept: if some rows are exact, a repeated statement buys the same other rows.
    key = noise, request.target, rows.columns, *(own.tobytes() for own in rows.rows)
    return _LOTS.get(workload, key, lambda: _part(request, workload, noise, rows, choice))


def _part(
    request: Request, workload: Workload, noise: Noise, rows: Selection, choice: Choice
) -> _Lot:
    """Return the lot of some rows of a workload."""
    part = rows.taken_from(workload)
    if request.by_invariants not in BY_DESIGN:  # which charge for the whole workload anyway
        scales = choice.part(noise, workload, rows, part, request.target)
        if scales is not None:
            return _Lot(rows, part, scales)
        rows = noise.all_bought(workload)
        part = rows.taken_from(workload)
    return _Lot(rows, part, tuple(noise.scales[number] for number in rows.columns))
