"""Buys each row once: in one of the multiples of it that a statement asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Final

import numpy as np

from tallyveil.gate.deciding.noise import Distinct, Follower, Noise, Selection
from tallyveil.rewriter import Workload
from tallyveil.workload.row_multiples import Multiples, Place

__all__ = ["once_each"]

_DIGITS: Final = 9  # scales that agree in these are equal, though each is rounded up


def once_each(
    noise: Noise, workload: Workload, scales: Callable[[Workload], tuple[float, ...]], costs: bool
) -> Noise:
    """The noise if each row is bought once, in one of its multiples; ``scales`` gives those of a
    part of the workload. A mechanism with a public range only answers plain counts, whose multiples
    are the same row.

    The multiple bought is the one that needs most precision or, if the target ``costs`` so much
    whatever is bought and this makes the sum of all variances less, the least one.
    """
    groups = Multiples.of(workload.columns).groups
    if not groups:
        return noise

    @cache
    def spread(column: int, content: int) -> float:
        return float(f"{noise.scales[column] / content:.{_DIGITS}g}")

    def precise(place: Place) -> tuple[float, int, int, int]:
        """First the least noise in units of the primitive row, then the least multiple."""
        content = abs(place.content)
        return spread(place.column, content), content, place.column, place.row

    def least(place: Place) -> tuple[int, tuple[float, int, int, int]]:
        return abs(place.content), precise(place)

    leaders = [min(group, key=precise) for group in groups]
    found = _led(noise, workload, groups, leaders, scales)
    others = [min(group, key=least) for group in groups] if costs else leaders
    if others == leaders:
        return found
    other = _led(noise, workload, groups, others, scales)
    return min(found, other, key=lambda one: one.error(workload, groups))


def _led(
    noise: Noise,
    workload: Workload,
    groups: Sequence[Sequence[Place]],
    leaders: Sequence[Place],
    scales: Callable[[Workload], tuple[float, ...]],
) -> Noise:
    """The noise if of each group's rows the leader is bought."""
    left = [np.ones(column.height, dtype=np.bool_) for column in workload.columns]
    for leader, group in zip(leaders, groups, strict=True):
        for place in group:
            left[place.column][place.row] = place is leader
    rows = tuple(np.flatnonzero(own) for own in left)
    # The rest of a column that follows from others are rows of zeros.
    follows = {place.column for group in groups for place in group} - {
        number
        for number, column in enumerate(workload.columns)
        if np.delete(left[number], column.zeros).any()
    }
    bought = [number for number in range(len(rows)) if number not in follows]
    part = Selection(tuple(bought), tuple(rows[number] for number in bought))
    found = dict(zip(bought, scales(part.taken_from(workload)), strict=True))
    followers = dict[int, Follower]()
    for leader, group in zip(leaders, groups, strict=True):
        for place in group:
            if place.column in follows:
                one = Follower(leader.column, Fraction(abs(place.content), abs(leader.content)))
                before = followers.setdefault(place.column, one)
                if before[:2] != one[:2]:
                    widest = max(before, one, key=lambda each: found[each.of] * each.times)
                    followers[place.column] = widest._replace(alike=False)
    for number, follower in followers.items():
        found[number] = found[follower.of] * float(follower.times)
    own_scales = tuple(found[number] for number in range(len(rows)))
    return replace(noise, scales=own_scales, distinct=Distinct(rows, tuple(leaders), followers))
