"""Buys sums less a constant times their counts, where history knows the counts.

With N the known number of the records that a sum Σ v is about, and its values from lo to hi,

    Σ v = Σ (v − c) + c N,    |v − c| ≤ max(hi − c, c − lo),

so that with c in the middle the fresh noise, and the error of an average, is half of what it is
where v itself is bought from 0 on. The error c² Var N of the sum makes c smaller, where that is
large. In groups of the value itself each group has its own middle.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.accountant import Charge
from tallyveil.gate.deciding.request import Request
from tallyveil.gate.strategies.offer import Information, Limits, Offer
from tallyveil.gate.strategies.other_rows import GAIN
from tallyveil.gate.strategies.parts import Cells, same_groups
from tallyveil.inference.canonical import nearest_integers, settled
from tallyveil.mechanisms import AUTO, law_of
from tallyveil.rewriter import Column, Workload

__all__ = ["centred"]

_HALVES: Final = 2  # c is a multiple of one half of a step


def centred(request: Request, information: Information, limits: Limits) -> Iterator[Offer]:
    """One offer, if the sums that are not known get less error. It is computed from the answers to
    what would be bought, and those to the counts."""
    noise, found, asked = information
    named = request.mechanism != AUTO or request.by_invariants or noise.mechanism.needs_range
    named = named or request.strategy not in ("auto", "parts") or request.source == "fresh"
    as_asked = request.all_looks or limits.controlled or limits.exact is not None
    if named or as_asked or request.target.half_width is not None:
        return
    every, bought = request.workloads[asked.table].columns, asked.charge.workload.columns
    laws = {n: rows.one_law for n, rows in enumerate(found.asked_of(found.rows))}
    known = {n: law for n, law in laws.items() if law is not None and n not in asked.columns}
    columns, like = [*bought], [*asked.charge.scales]
    alone = np.array([*map(noise.mechanism.worst_error, like)])
    for place, number in enumerate(asked.columns):
        for n, law in known.items() if bought[place] is every[number] else ():
            pair = every[number], every[n]
            one = _centred(pair, limits.account.domain.names, alone[place], law.variance)
            if one is not None:
                columns[place], share = one
                like[place] *= share
                break
    if all(map(operator.is_, columns, bought)):
        return
    other = Workload(asked.table, tuple(columns))
    scales = limits.choice.scales(noise.mechanism, other, request.target, like)
    scales = limits.choice.at_least_cost(noise, other, scales)
    fresh = [law_of(noise.mechanism.name, scale) for scale in scales]
    both = (*(law for law in fresh if law is not None), *known.values())
    summed = (one.column for one in request.summed.get(asked.table, ()))
    rows = limits.follow((*every, *summed), (*columns, *(every[n] for n in known)), both, None)
    if rows is None or len(both) < len(columns) + len(known):
        return
    shares = [rows[n] / own for n, own in zip(asked.columns, alone.tolist(), strict=True)]
    gain = settled(sum(float(own.mean()) for own in shares) / len(shares))
    if gain > GAIN or any(own.max() > 1 for own in shares):
        return
    charge = Charge(other, noise.mechanism.name, scales, request.sql)
    before = dict(zip(asked.columns, asked.charge.scales, strict=True))
    shown = replace(
        noise, scales=tuple(before.get(n, own) for n, own in enumerate(noise.scales)), gain=gain,
        deviations=tuple(settled(math.sqrt(own.max())) for own in rows), family="centred",
        bound=None, share=None,
    )  # fmt: skip
    yield replace(asked.charged_as(charge), gain=gain, shown=shown)


def _centred(
    pair: tuple[Column, Column], axes: tuple[str, ...], alone: float, variance: float
) -> tuple[Column, float] | None:
    """The sum less c times the count, at the c of least error, for noise of variance ``alone`` on
    the sum and ``variance`` on the count, and its largest coefficient as a share of the sum's; None
    if these are no such pair, or nothing gains."""
    cells = Cells.of(pair, axes) if same_groups(*pair) else None
    if cells is None or not alone:  # noise so small that its variance is no number
        return None
    values, count = cells.vectors
    number, inside = int(cells.rows.max()) + 1, count == 1
    if not ((count == 0) | inside).all() or not inside.any() or (values[~inside] != 0).any():
        return None
    low, high = np.full(number, np.inf), np.full(number, -np.inf)
    np.minimum.at(low, cells.rows[inside], values[inside])
    np.maximum.at(high, cells.rows[inside], values[inside])
    touched, largest = np.isfinite(low), float(np.abs(values).max(initial=1))
    middle, unit = np.where(touched, (low + high) / 2, 0), alone / largest**2
    tried = [middle, np.clip(middle, *(np.sort([-1, 1]) * largest * unit / (unit + variance)))]
    best, least = None, GAIN * alone
    for c in tried:
        steps = nearest_integers(c * _HALVES).astype(np.int64)
        vector = _HALVES * values - steps[cells.rows] * count
        share = float(np.abs(vector).max()) / _HALVES / largest
        errors = alone * share**2 + (steps[touched] / _HALVES) ** 2 * variance
        if share and errors.mean() < least and errors.max() < alone:
            least, common = errors.mean(), int(np.gcd.reduce(vector))
            step = Fraction(common, _HALVES)
            best = cells.column(vector // common, pair[0].multiplier * step), share / float(step)
    return best
