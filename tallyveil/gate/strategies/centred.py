"""Buys sums less a constant times their counts, where history knows the counts.

With N the known number of the records that a sum Σ v is about, and its values from lo to hi,

    Σ v = Σ (v − c) + c N,    |v − c| ≤ max(hi − c, c − lo),

so that with c in the middle the fresh noise, and the error of an average, is half of what it is
where v itself is bought from 0 on. The error c² Var N of the sum makes c smaller, where that is
large. In groups of the value itself each group has its own middle.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Final, NamedTuple

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


class _Centred(NamedTuple):
    """A column to buy, its largest coefficient as a share of that of the column asked, and the
    variances that c N adds to the rows, on average and at most."""

    column: Column
    share: float
    added: tuple[float, float]


def centred(request: Request, information: Information, limits: Limits) -> Iterator[Offer]:
    """One offer, if the sums that are not known get less error."""
    noise, found, asked = information
    named = request.mechanism != AUTO or request.by_invariants or noise.mechanism.needs_range
    as_asked = request.all_looks or limits.controlled or limits.exact is not None
    if named or as_asked or request.target.half_width is not None or request.source == "fresh":
        return
    if request.strategy not in ("auto", "parts"):
        return
    workload = request.workloads[asked.table]
    known = {
        n: max(error.variance for error in rows.used_errors)
        for n, rows in enumerate(found.asked_of(found.rows))
        if n not in asked.columns and rows.of_one_noise and workload.columns[n].multiplier == 1
    }
    columns, like = [*asked.charge.workload.columns], [*asked.charge.scales]
    added, units = [(0.0, 0.0)] * len(columns), [1.0] * len(columns)
    alone = [*map(noise.mechanism.worst_error, like)]
    for place, number in enumerate(asked.columns):
        if columns[place] is not workload.columns[number]:
            continue  # some of its rows are known
        for n, variance in known.items():
            pair = (workload.columns[number], workload.columns[n])
            one = _centred(pair, limits.account.domain.names, alone[place], variance)
            laws = (law_of(noise.mechanism.name, s) for s in (like[place], noise.scales[n]))
            own = [law for law in laws if law is not None]
            if one and limits.follow(pair[:1], (one.column, pair[1]), own, None) is not None:
                columns[place], added[place] = one.column, one.added
                units[place] = float(one.column.multiplier / pair[0].multiplier)
                like[place] *= one.share / units[place]
                break
    if not any(most for _, most in added):
        return
    other = Workload(asked.table, tuple(columns))
    scales = limits.choice.scales(noise.mechanism, other, request.target, like)
    scales = limits.choice.at_least_cost(noise, other, scales)
    fresh = [*map(noise.mechanism.worst_error, scales)]
    fresh = [one * unit**2 for one, unit in zip(fresh, units, strict=True)]
    new = [one + most for one, (_, most) in zip(fresh, added, strict=True)]
    means = [one + mean for one, (mean, _) in zip(fresh, added, strict=True)]
    gain = sum(one / own for one, own in zip(means, alone, strict=True)) / len(alone)
    if gain > GAIN or any(one > own for one, own in zip(new, alone, strict=True)):
        return
    all_scales = [*noise.scales]
    deviations = [math.sqrt(known.get(n, 0.0)) for n in range(len(all_scales))]
    for place, number in enumerate(asked.columns):
        all_scales[number] = asked.charge.scales[place]
        deviations[number] = settled(math.sqrt(new[place]))
    for number in range(len(all_scales)):
        if (follower := noise.follower(number)) is not None:
            deviations[number] = settled(deviations[follower.of] * float(follower.times))
    for each in request.summed.get(asked.table, ()):
        parts = int(np.bincount(each.places).max())
        deviations.append(settled(deviations[each.of] * math.sqrt(parts)))
    charge = Charge(other, noise.mechanism.name, scales, request.sql)
    shown = replace(
        noise, scales=tuple(all_scales), instead=charge, deviations=tuple(deviations),
        gain=settled(gain), family="centred", bound=None, share=None,
    )  # fmt: skip
    yield replace(asked.charged_as(charge), gain=settled(gain), shown=shown)


def _centred(
    pair: tuple[Column, Column], axes: tuple[str, ...], alone: float, variance: float
) -> _Centred | None:
    """The sum less c times the count, at the c of least error, for noise of variance ``alone`` on
    the sum and ``variance`` on the count; None if these are no such pair, or nothing gains."""
    cells = Cells.of(pair, axes) if same_groups(*pair) else None
    if cells is None:
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
        more = (steps[touched] / _HALVES) ** 2 * variance
        mean, most = float(more.mean()), float(more.max())
        if alone * share**2 + mean < least and alone * share**2 + most < alone and share:
            least, common = alone * share**2 + mean, int(np.gcd.reduce(vector))
            column = cells.column(vector // common, pair[0].multiplier * Fraction(common, _HALVES))
            best = _Centred(column, share, (mean, most))
    return best
