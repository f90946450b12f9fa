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
_NEAR: Final = 0.998  # of it is near enough
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
    most = [float((target.half_width or 0) / one.multiplier) * _WITHIN for one in columns]
    rho = limits.account.measure == "rho"
    at = replace(
        target,
        half_width=None,
        epsilon=None if rho else Fraction(1),
        rho=Fraction(1) if rho else None,
    )
    unit = choice.scales(noise.mechanism, other, at, like)
    times, best = 1.0, None
    for _ in range(_STEPS):
        scales = tuple(times * one for one in unit)
        laws = _laws(noise, scales)
        widths = limits.follow(columns, other.columns, laws, target.confidence)
        if widths is None:
            return None
        widest = max(own.max() / one for own, one in zip(widths, most, strict=True))
        if widest <= 1:
            best = scales
        if _NEAR <= widest <= 1 or not widest:
            break
        times = _down(times / settled(widest))
    return best and choice.at_least_cost(noise, other, best)


def _laws(noise: Noise, scales: Sequence[float]) -> list[NoiseLaw]:
    laws = [law_of(noise.mechanism.name, scale) for scale in scales]
    return [law for law in laws if law is not None]


def _down(value: float) -> float:
    step = 10.0 ** (math.floor(math.log10(value)) - _DIGITS + 1)
    return math.floor(value / step) * step
