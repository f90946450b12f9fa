"""A purchase: the rows of a table that a request asks and history does not answer well enough.

They are bought together: by one charge, and in one release. A purchase comes about in this order:

1. `shortfall` finds the rows that are not known precisely enough, and makes the purchase of them.
2. `_lot` finds the noise with which each row is precise enough by itself.
3. For a half-width, `_topped_up` widens the noise as far as history and the other rows allow, and
   `Choice.at_least_cost` narrows it if the statement would cost less than any statement must.
4. `by_invariants` may charge other rows instead (`Purchase.charged_as`), or have the noise drawn
   jointly.
5. Once it is paid, `Purchase.release` draws the answers, and `Purchase.bought` becomes history.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

from tallyveil.accountant import Charge
from tallyveil.arrays import IntArray
from tallyveil.cache import Recent
from tallyveil.gate.deciding.choice import Choice
from tallyveil.gate.deciding.noise import Noise, Selection
from tallyveil.gate.deciding.request import Request
from tallyveil.inference import NoiseLaw
from tallyveil.inference.conditional.tree import Tree
from tallyveil.knowledge import Bought, Found, Knowledge, Rows
from tallyveil.mechanisms import BY_DESIGN, TOGETHER, AnyMechanism, law_of
from tallyveil.mechanisms.constrained.conditioned import Conditioned
from tallyveil.mechanisms.constrained.joint_release import release_together
from tallyveil.mechanisms.protocol import Releasing
from tallyveil.rewriter import Workload

__all__ = ["Purchase", "shortfall", "sums_after"]


class _Lot(NamedTuple):
    """The ``rows`` of a workload that are bought, a ``workload`` of these alone, and the scales of
    its columns."""

    rows: Selection
    workload: Workload
    scales: tuple[float, ...]


@dataclass(frozen=True)
class Purchase:
    """Rows that are bought of one table's workload: the ``rows[n]`` of its column ``columns[n]``.
    Unless the charge is for other rows, these are rows 0, 1, … of its n-th column."""

    charge: Charge
    mechanism: AnyMechanism
    columns: tuple[int, ...]
    rows: tuple[IntArray, ...]
    raised_to_least_cost: bool = False
    """Whether the rows get more precise than asked, since a statement has a least cost."""
    by_other_rows: bool = False
    """Whether the charge is for other rows, which with what is exact determine these."""
    joint_noise: tuple[Tree, Conditioned] | None = None
    """What the noise of all rows is drawn from together; None for independent noise."""

    @property
    def release(self) -> Releasing:
        """Draws the answers to what is charged."""
        if self.joint_noise is None:
            return self.mechanism.release
        tree, noise = self.joint_noise
        return partial(release_together, tree=tree, noise=noise)

    @property
    def row_count(self) -> int:
        """The number of rows that are bought."""
        return sum(map(len, self.rows))

    @property
    def table(self) -> str:
        return self.charge.table

    def charged_as(self, charge: Charge) -> Purchase:
        """Return the purchase by another charge: for the same rows, or for others that determine
        these."""
        if charge.workload is self.charge.workload:
            return replace(self, charge=charge)
        return replace(self, charge=charge, raised_to_least_cost=False, by_other_rows=True)

    def bought(self, charge_id: int, values: tuple[tuple[int, ...], ...]) -> Bought:
        """Return what becomes known once the charge is paid and answered with these values."""
        return Bought(
            charge_id,
            self.mechanism,
            self.columns,
            self.rows,
            self.charge.scales,
            values,
            self.by_other_rows,
        )


def shortfall(
    request: Request,
    wanted: Mapping[str, Noise],
    found: Mapping[str, Found],
    choice: Choice,
    knowledge: Mapping[str, Knowledge],
) -> list[Purchase]:
    """Return a purchase for each table of which rows are not known precisely enough.

    ``wanted`` is the noise that meets the request's target without history, ``found`` what history
    knows. Nothing is bought for a request that history alone may answer.
    """
    if request.source == "history":
        return []
    purchases = []
    for table, workload in request.workloads.items():
        noise, known = wanted[table], found[table]
        short = [noise.bought(n, known.short(n)) for n in range(len(workload.columns))]
        if not any(map(len, short)):
            continue
        lot = _lot(request, workload, noise, short, choice)
        scales = asked = lot.scales
        if request.target.half_width is not None:
            asked = _topped_up(request, noise, known, knowledge[table], lot)
            scales = choice.at_least_cost(noise, lot.workload, asked)
        charge = Charge(lot.workload, noise.mechanism.name, scales, request.sql)
        purchases.append(Purchase(charge, noise.mechanism, *lot.rows, scales != asked))
    return purchases


def sums_after(found: Mapping[str, Found], purchases: Sequence[Purchase]) -> dict[str, Rows]:
    """Return by table how precisely the rows that are summed up would be known after the purchases.

    That is by the answers bought, with independent noise. History and exact rows may improve it.
    """
    laws: dict[str, dict[int, tuple[IntArray, NoiseLaw]]] = {}
    for one in purchases:
        if one.by_other_rows:
            continue  # other rows are charged, which have noise of other scales
        for number, rows, scale in zip(one.columns, one.rows, one.charge.scales, strict=True):
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
