"""Finds the least cost at which other rows meet a half-width.

From the answers to other rows, at scales in a fixed proportion, follow all rows asked. The scales
are as large as leaves each of their intervals, as it will be reported, within the half-width: exact
laws are computed at each step of a search, and only scales at which they were found to be within it
are taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.accountant import Charge
from tallyveil.gate.deciding.noise import Noise
from tallyveil.gate.deciding.request import Request
from tallyveil.gate.strategies.offer import Limits
from tallyveil.gate.strategies.other_rows import GAIN, Asked, Family
from tallyveil.inference import NoiseLaw
from tallyveil.inference.canonical import settled
from tallyveil.mechanisms import law_of
from tallyveil.rewriter import Column, Workload

__all__ = ["within_half_width"]

_STEPS: Final = 12
_WITHIN: Final = 1 - 1e-6  # of the half-width: a repeated statement must not fall short of it
_WHOLE: Final = 1e-8  # of a width, by which numerical errors widen a whole one
_NEAR: Final = 0.998  # of it is near enough
_CLOSE: Final = 1.004  # times scales that meet it are near enough to some that do not
_FURTHER: Final = 1.03  # times scales that meet it, where others have the same whole width
_DIGITS: Final = 4  # of the scales' factor, so that it does not depend on last bits


def within_half_width(
    workload: Workload, noise: Noise, families: Sequence[tuple[str, Family]], request: Request,
    limits: Limits,
) -> Noise:  # fmt: skip
    """The noise with the cheapest of other rows that meet the request's half-width, if they clearly
    cost less than the rows as asked."""
    measure, mechanism = limits.account.measure, noise.mechanism
    if (measure == "rho") != mechanism.needs_delta or not all(noise.scales):
        return noise
    columns, choice = workload.columns, limits.choice
    bought = noise.all_bought(workload)
    scales = tuple(noise.scales[n] for n in bought.columns)
    direct = choice.cost(mechanism, bought.taken_from(workload), scales)
    # All rows have one target, so that the widest decides.
    asked = Asked(columns, limits.account.domain.names, len(columns), measure, "worst")
    best = noise
    for name, family in families:
        rows = family(asked)
        if rows is None:
            continue
        other = Workload(workload.table, rows.columns)
        found = _largest(columns, other, rows.like, noise, request, limits)
        if found is None:
            continue
        share = settled(float(choice.cost(mechanism, other, found) / direct))
        if share <= GAIN * (1.0 if best.share is None else best.share):
            variances = limits.follow(columns, other.columns, _laws(noise, found), None)
            best = replace(
                noise,
                instead=Charge(other, mechanism.name, found, ""),
                deviations=tuple(settled(math.sqrt(one.max())) for one in variances or ()),
                share=share,
                family=name,
            )
    return best


def _largest(
    columns: Sequence[Column], other: Workload, like: Sequence[float] | None, noise: Noise,
    request: Request, limits: Limits,
) -> tuple[float, ...] | None:  # fmt: skip
    """The largest scales found at which all rows of the columns are within the half-width; None if
    they do not follow from the other rows, or none were found."""
    target, choice = request.target, limits.choice
    most = np.repeat(
        [float((target.half_width or 0) / one.multiplier) * _WITHIN for one in columns],
        [one.height for one in columns],
    )
    rho = limits.account.measure == "rho"
    at = replace(
        target,
        half_width=None,
        epsilon=None if rho else Fraction(1),
        rho=Fraction(1) if rho else None,
    )
    unit = choice.scales(noise.mechanism, other, at, like)
    times, best, fails = 1.0, 0.0, math.inf
    for _ in range(_STEPS):
        laws = _laws(noise, [times * one for one in unit])
        widths = limits.follow(columns, other.columns, laws, target.confidence)
        if widths is None:
            return None
        # A whole width is that of a law on the integers, which has no last digits.
        each = np.concatenate(widths)
        whole = np.abs(each - np.round(each)) <= _WHOLE * each
        each = np.where(whole, np.round(each) * _WITHIN, each)
        widest = float((each / most).max())
        best, fails = (times, fails) if widest <= 1 else (best, min(times, fails))
        if not widest or fails <= best * _CLOSE or (_NEAR <= widest <= 1 and not whole.all()):
            break
        times = _down(times / settled(widest))
        if not best < times < fails:
            times = _down(math.sqrt(best * fails) if fails < math.inf else best * _FURTHER)
    return choice.at_least_cost(noise, other, tuple(best * one for one in unit)) if best else None


def _laws(noise: Noise, scales: Sequence[float]) -> list[NoiseLaw]:
    laws = [law_of(noise.mechanism.name, scale) for scale in scales]
    return [law for law in laws if law is not None]


def _down(value: float) -> float:
    step = 10.0 ** (math.floor(math.log10(value)) - _DIGITS + 1)
    return math.floor(value / step) * step
