"""The purchase for a request: the rows that history does not answer well enough."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

from tallyveil.accountant import Charge
from tallyveil.arrays import IntArray
from tallyveil.gate.deciding.choice import Choice
from tallyveil.gate.deciding.noise import Noise, Selection
from tallyveil.gate.deciding.request import Request
from tallyveil.inference import NoiseLaw
from tallyveil.inference.conditional.tree import Tree
from tallyveil.knowledge import Bought, Found, Knowledge, Rows
from tallyveil.mechanisms import BY_DESIGN, TOGETHER, AnyMechanism, law_of
from tallyveil.mechanisms.constrained.conditioned import Conditioned
from tallyveil.mechanisms.constrained.release import release_together
from tallyveil.mechanisms.protocol import Releasing
from tallyveil.rewriter import Workload

__all__ = ["Purchase", "shortfall", "sums_after"]

_Part: TypeAlias = tuple[Selection, Workload, tuple[float, ...]]
"""Rows that are bought, the workload of these alone, and its scales."""


@dataclass(frozen=True)
class Purchase:
    """The part of a table's workload that history does not answer. The rows ``rows[n]`` of
    ``columns[n]`` are rows 0, 1, … of the charge's n-th column."""

    charge: Charge
    mechanism: AnyMechanism
    columns: tuple[int, ...]
    rows: tuple[IntArray, ...]
    raised: bool = False
    """More precise than the target asks, since a statement has a least cost."""
    indirect: bool = False
    """The charge is for other rows, which determine these together with what is exact."""
    together: tuple[Tree, Conditioned] | None = None
    """What its noise is drawn from, if it is drawn jointly."""

    @property
    def release(self) -> Releasing:
        if self.together is None:
            return self.mechanism.release
        tree, noise = self.together
        return partial(release_together, tree=tree, noise=noise)

    @property
    def height(self) -> int:
        return sum(map(len, self.rows))

    @property
    def table(self) -> str:
        return self.charge.table

    def charged_as(self, charge: Charge) -> Purchase:
        """The purchase by another charge, which may be for other rows that determine these."""
        if charge.workload is self.charge.workload:
            return replace(self, charge=charge)
        return replace(self, charge=charge, raised=False, indirect=True)

    def bought(self, charge_id: int, values: tuple[tuple[int, ...], ...]) -> Bought:
        """The purchase once it is charged and answered."""
        return Bought(
            charge_id,
            self.mechanism,
            self.columns,
            self.rows,
            self.charge.scales,
            values,
            self.indirect,
        )


def shortfall(
    request: Request,
    wanted: Mapping[str, Noise],
    found: Mapping[str, Found],
    choice: Choice,
    knowledge: Mapping[str, Knowledge],
) -> list[Purchase]:
    """Return the purchase of each table's rows that history does not answer well enough."""
    if request.source == "history":
        return []
    purchases = []
    for table, workload in request.workloads.items():
        noise = wanted[table]
        short = [
            noise.bought(number, found[table].short(number))
            for number in range(len(workload.columns))
        ]
        if any(map(len, short)):
            (numbers, rows), part, asked = _part(request, workload, noise, short, choice)
            if request.target.half_width is not None:
                asked = _topped_up(
                    request, noise, found[table], knowledge[table], numbers, rows, asked
                )
                scales = choice.at_least_cost(noise, part, asked)
            else:
                scales = asked
            charge = Charge(part, noise.mechanism.name, scales, request.sql)
            purchases.append(Purchase(charge, noise.mechanism, numbers, rows, scales != asked))
    return purchases


def sums_after(found: Mapping[str, Found], purchases: Sequence[Purchase]) -> dict[str, Rows]:
    """By table: how precisely the rows that are summed up would be known after the purchases, if
    noise is drawn independently. Better where history or exact rows improve it."""
    laws: dict[str, dict[int, tuple[IntArray, NoiseLaw]]] = {}
    for one in purchases:
        if one.indirect:
            continue  # other rows are charged, which have noise of other scales
        for number, rows, scale in zip(one.columns, one.rows, one.charge.scales, strict=True):
            law = law_of(one.mechanism.name, scale)
            if law is not None:
                laws.setdefault(one.table, {})[number] = rows, law
    return {t: one.sums_after(laws.get(t, {})) for t, one in found.items() if one.summed}


_PARTS: Final[WeakKeyDictionary[Workload, tuple[tuple[object, ...], _Part]]] = WeakKeyDictionary()


def _topped_up(
    request: Request,
    noise: Noise,
    found: Found,
    knowledge: Knowledge,
    numbers: tuple[int, ...],
    rows: tuple[IntArray, ...],
    alone: tuple[float, ...],
) -> tuple[float, ...]:
    """The largest scales at which the rows, with history and each other, meet the target; at the
    scales ``alone`` each meets it by itself."""
    each = zip(numbers, rows, alone, strict=True)
    scales = tuple(found.scale(number, own, scale) for number, own, scale in each)
    if request.by_invariants in TOGETHER:  # the joint noise itself spreads less
        return scales
    laws = [law_of(noise.mechanism.name, scale) for scale in scales]
    factors = knowledge.widened(found, numbers, rows, laws)
    return tuple(map(operator.mul, scales, factors))


def _part(
    request: Request, workload: Workload, noise: Noise, short: Sequence[IntArray], choice: Choice
) -> _Part:
    """The rows to buy so that the ``short`` ones are bought, and their scales without history."""
    rows, target = Selection.of(short), request.target
    if all(len(own) == one.height for own, one in zip(short, workload.columns, strict=True)):
        return rows, workload, noise.scales
    # Cached: if some rows are exact, each repetition of a statement buys the same other rows.
    key = noise, target, rows.columns, *(own.tobytes() for own in rows.rows)
    kept = _PARTS.get(workload)
    if kept is None or kept[0] != key:
        part, scales = rows.taken_from(workload), None
        if request.by_invariants not in BY_DESIGN:  # which is charged for the whole anyway
            scales = choice.part(noise, workload, rows, part, target)
            if scales is None:
                rows = noise.all_bought(workload)
                part = rows.taken_from(workload)
        if scales is None:
            scales = tuple(noise.scales[n] for n in rows.columns)
        kept = _PARTS[workload] = key, (rows, part, scales)
    return kept[1]
