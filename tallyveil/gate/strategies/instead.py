"""Buys other rows instead of those of a statement, from which all of them follow with less error.

The strategies of `FAMILIES` propose rows to buy, from what is asked alone. Here they get noise at
the cost of the statement, and all rows asked are estimated from their answers as the statement will
do it. So nothing is offered that could not be decoded, in this or any other process, and the errors
compared are those that will be reported. The rows of least error are taken, if they gain; what they
cost is the accountant's to say.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from tallyveil.accountant import Charge
from tallyveil.arrays import FloatArray
from tallyveil.cache import Recent
from tallyveil.gate.deciding.noise import Noise
from tallyveil.gate.deciding.request import Request
from tallyveil.gate.strategies.groupings import groupings
from tallyveil.gate.strategies.offer import Information, Limits, Offer
from tallyveil.gate.strategies.ordered import ordered
from tallyveil.gate.strategies.other_rows import GAIN, WORSE, Asked, Family, OtherRows, even
from tallyveil.gate.strategies.parts import parts
from tallyveil.gate.strategies.targets import within_half_width
from tallyveil.gate.strategies.translated import translated
from tallyveil.inference.canonical import settled
from tallyveil.mechanisms import AUTO, law_of
from tallyveil.mechanisms.measure import Measure
from tallyveil.rewriter import Column, Workload

__all__ = ["FAMILIES", "instead", "wanted"]

FAMILIES: Final[Mapping[str, Family]] = {
    "parts": parts,
    "groupings": groupings,
    "ordered": ordered,
}
"""By the names that dp.strategy has for them; the first of equals is taken."""

_BETTER: Final = 1 - 1e-3  # of the error of an earlier family is clearly better
_TRIALS: Final = 3  # of a family, until no row is worse
_FAR: Final = 2.0  # times the variance as asked is too far to try again
_ALIKE: Final = 1 - 1e-6  # of a variance is the same but for rounding
_UP: Final = 1 + 1e-6  # keeps a repeated statement from falling short of its own answer


def instead(request: Request, information: Information, limits: Limits) -> Iterator[Offer]:
    """The other rows of the whole statement. If some of its rows are known, the others are compared
    with the largest errors of their columns, as if nothing were."""
    noise, asked = information.noise, information.asked
    if noise.instead is None:
        return
    gain, whole = noise.gain, noise.all_bought(request.workloads[asked.table])
    if whole.columns != asked.columns or not all(map(np.array_equal, whole.rows, asked.rows)):
        gain = _gain_of_some(request, noise, asked)
        if not gain <= GAIN:
            return
    charge = replace(noise.instead, sql=request.sql)
    cheaper = noise.share is not None
    offer = replace(asked.charged_as(charge), gain=gain, cheaper=cheaper)
    yield offer
    yield from translated(request, information._replace(asked=offer), limits)


def _gain_of_some(request: Request, noise: Noise, asked: Offer) -> float:
    """At least the share of their variances as asked that rows get, of which some are known; 1 if
    one gets worse, or a half-width is asked, which what is known may meet in part."""
    if request.target.half_width is not None or not noise.deviations:
        return 1
    each = [noise.mechanism.worst_error(scale) for scale in asked.charge.scales]
    other = [noise.deviations[n] ** 2 for n in asked.columns]
    worse = any(b > a * WORSE for a, b in zip(each, other, strict=True))
    if not all(each) or (worse and request.objective == "auto"):
        return 1
    if request.objective == "worst":
        return settled(max(other) / max(each))
    times = [*map(len, asked.rows)]
    return settled(sum(map(operator.mul, other, times)) / sum(map(operator.mul, each, times)))


_KEPT: Final[Recent[Workload, Noise]] = Recent(8)


def wanted(request: Request, workload: Workload, noise: Noise, limits: Limits) -> Noise:
    """The noise with the other rows to buy instead, if these gain."""
    exact, target, columns = limits.exact, request.target, workload.columns
    summed = request.summed.get(workload.table, ())
    if len(columns) + len(summed) == 1 and columns[0].disjoint and even(columns[0]):
        return noise
    if request.strategy == "direct":
        return noise
    if noise.mechanism.needs_range or request.mechanism != AUTO or request.by_invariants:
        return noise
    if exact is not None and exact.span.rank > 1 and exact.tied(workload):
        return noise  # what is exact may narrow the rows more than others bought
    key = (noise, target, limits.choice, exact, request.objective, request.strategy, summed)
    find = _best if target.half_width is None else _within
    found = _KEPT.get(workload, key, lambda: find(workload, noise, request, limits))
    if found is noise or not (request.all_looks or limits.controlled):
        return found
    why = "inference control examines rows as they are asked"
    if request.all_looks:
        why = "dp.coverage = always needs answers to the rows themselves"
    return replace(noise, whole_since=why)


def _within(workload: Workload, noise: Noise, request: Request, limits: Limits) -> Noise:
    named = [one for one in FAMILIES.items() if request.strategy in ("auto", one[0])]
    return within_half_width(workload, noise, named, request, limits)


def _best(workload: Workload, noise: Noise, request: Request, limits: Limits) -> Noise:
    summed = request.summed.get(workload.table, ())
    every = (*workload.columns, *(one.column for one in summed))
    alone = [*map(noise.mechanism.worst_error, noise.scales)]
    before = [np.full(c.height, one) for c, one in zip(workload.columns, alone, strict=True)]
    for each in summed:
        parts = np.bincount(each.places, minlength=each.column.height)
        before.append(alone[each.of] * parts)
    like = (*noise.scales, *(noise.scales[each.of] for each in summed))
    most = _together(every, workload, noise, like, request, limits)
    if not (all(one.any() for one in before) and most.all()):
        return noise  # what is exact, or as good as that, needs no other rows
    measure: Measure = "rho" if noise.mechanism.needs_delta else "epsilon"
    axes, own = limits.account.domain.names, len(workload.columns)
    asked = Asked(every, axes, own, measure, request.objective, hidden=workload.hidden)
    best = noise
    for name, family in FAMILIES.items():
        if best.bound is not None and best.gain <= best.bound / GAIN:
            break
        margin = 1.0
        for _ in range(_TRIALS if request.strategy in ("auto", name) else 0):
            rows = family(replace(asked, margin=margin))
            if rows is None:
                break
            one, worst = _priced(workload.table, rows, asked, noise, before, most, request, limits)
            if one.gain < best.gain * _BETTER:
                best = replace(one, family=name)
            if asked.objective != "auto" or not WORSE < worst < _FAR:
                break
            margin *= worst  # the design's own measure of cost is not the table's
    return best


def _together(
    every: Sequence[Column],
    workload: Workload,
    noise: Noise,
    like: Sequence[float],
    request: Request,
    limits: Limits,
) -> FloatArray:
    """The largest variances of the rows of ``every`` column, if all that are shown were bought, at
    scales in proportion to ``like``: infinite for those that are hidden."""
    scales = noise.scales
    shown = [n for n in range(len(every)) if n not in workload.hidden]
    if len(every) > len(scales):
        whole = Workload(workload.table, tuple(every[n] for n in shown))
        given = [like[n] for n in shown] if all(like) else None
        scales = limits.choice.scales(noise.mechanism, whole, request.target, given)
    most = np.full(len(every), math.inf)
    most[shown] = [*map(noise.mechanism.worst_error, scales)]
    return most


def _priced(
    table: str,
    rows: OtherRows,
    asked: Asked,
    noise: Noise,
    before: Sequence[FloatArray],
    most: FloatArray,
    request: Request,
    limits: Limits,
) -> tuple[Noise, float]:
    """The noise with these rows instead, if they gain, and the worst row's share of its variance as
    asked: ``most``, if all columns asked were bought, and ``before``, as the rows would be."""
    mechanism = noise.mechanism
    largest = np.array([own.max(initial=0) for own in before])
    # Errors of different aggregates compare by those asked directly, or by the rows' sizes.
    units = np.isfinite(most) if asked.objective == "relative" else 1 / most
    times = [asked.weights(c) * unit for c, unit in zip(asked.columns, units, strict=True)]

    def gains(found: Sequence[FloatArray]) -> tuple[float, FloatArray, float]:
        """The share of the error, the largest variances, and their largest share."""
        worst = np.array([own.max(initial=0) for own in found])
        far = float((worst / most).max())
        if asked.objective == "worst":
            return far / float((largest / most).max()), worst, far
        new, old = (sum(map(np.dot, own, times)) for own in (found, before))
        with np.errstate(all="ignore"):  # noise so small that its variance is hardly a number
            return float(np.divide(new, old)), worst, far

    least = _least(rows, asked.measure, request)
    certain = rows.errors if limits.exact is None else None
    if certain and least and gains(certain([mechanism.worst_error(b) for b in least]))[0] > GAIN:
        return noise, math.inf
    other = Workload(table, rows.columns)
    scales = limits.choice.scales(mechanism, other, request.target, rows.like)
    laws = [law_of(mechanism.name, scale) for scale in scales]
    each = [law for law in laws if law is not None]
    errors = certain and certain([one.variance for one in each])
    follow = partial(limits.follow, asked.columns, rows.columns, each, None)
    found = errors or follow()
    if found is None:
        return noise, math.inf
    gain, worst, far = gains(found)
    if (asked.objective == "auto" and far > WORSE) or not gain <= GAIN:
        return noise, far
    if errors and follow(errors, orthogonal=rows.orthogonal) is None:
        return noise, math.inf
    shares = worst[: asked.bought] / largest[: asked.bought]
    aims = np.array(noise.scales) * np.where(shares > _ALIKE, np.sqrt(shares) * _UP, 1)
    priced = replace(
        noise,
        raised=tuple(aims.tolist()),
        instead=Charge(other, mechanism.name, scales, ""),
        deviations=tuple(settled(math.sqrt(one)) for one in worst.tolist()),
        gain=settled(gain),
        bound=None if rows.bound is None else settled(rows.bound * gain),
    )
    return priced, far


def _least(rows: OtherRows, measure: Measure, request: Request) -> list[float] | None:
    """Scales than which those of the rows are not less: a record that changes any of them by their
    largest coefficient costs no more than the target. None for targets of another kind."""
    cost, like = request.target.epsilon, rows.like or (1.0,) * len(rows.columns)
    if measure == "rho":
        cost = request.target.rho
    if not cost:
        return None
    unit = 1 / float(cost) if measure == "epsilon" else math.sqrt(1 / (2 * float(cost)))
    least = max(c.largest / one for c, one in zip(rows.columns, like, strict=True)) * unit
    return [least * one for one in like]
