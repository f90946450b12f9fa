"""The mechanisms for one record or one series, of which sanitised copies are made."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import permutations, product
from typing import Final, TypeAlias

import numpy as np

from tallyveil.arrays import FloatArray
from tallyveil.audit.finding import Finding, number, subject
from tallyveil.audit.matrices import MatrixColumns, law_findings
from tallyveil.audit.noise import bounded, follows
from tallyveil.mechanisms import (
    ClampedLaplace,
    OneRecord,
    RandomisedResponse,
    SeriesNoise,
    SetResponse,
)
from tallyveil.mechanisms.records.grid import OnGrid
from tallyveil.mechanisms.units import exp_below

__all__ = [
    "counted",
    "grid_chances",
    "grid_finding",
    "laplace_findings",
    "response_findings",
    "series_findings",
    "set_findings",
]

_SIZES: Final = (2, 3, 6)
_GRIDS: Final = (2, 3, 4, 7, 12)
_DRAWN: Final = 6
# Elements with and without a value for NULL.
_SETS: Final = ((2,), (2, 2, 2), (3, 2, 2), (3, 3))
# Times, and values a time with its NULL.
_SHAPES: Final = ((1, 4), (2, 2), (2, 5), (2, 6), (3, 4))
_DRAWN_SHAPE: Final = (2, 5)

_ByDraws: TypeAlias = RandomisedResponse | SetResponse


def response_findings(epsilon: Fraction, draws: int) -> Iterator[Finding]:
    """Randomised response: how many of all 2⁶⁴ draws lead where, counted, and proved."""
    laws = {f"{size} values": RandomisedResponse(size, epsilon) for size in _SIZES}
    one = RandomisedResponse(_DRAWN, epsilon)
    return _by_draws(subject("randomised-response", epsilon), laws, one, draws)


def set_findings(epsilon: Fraction, draws: int) -> Iterator[Finding]:
    """Sets: how many of all draws lead where, counted, and proved."""
    laws = {f"elements of {sizes}": SetResponse(sizes, epsilon) for sizes in _SETS}
    return _by_draws(subject("set-response", epsilon), laws, SetResponse(_SETS[1], epsilon), draws)


def _by_draws(
    name: str, laws: Mapping[str, _ByDraws], one: _ByDraws, draws: int
) -> Iterator[Finding]:
    columns = {case: counted(law) for case, law in laws.items()}
    yield from law_findings(name, columns, one.epsilon, any_two=True)
    yield from drawn(name, one, np.array([float(p) for p in counted(one)[1]]), draws)


def counted(law: _ByDraws) -> MatrixColumns:
    """P[output | code] by what `outcome` makes of the draws, each output's draws in one piece.

    That they are is taken for granted here; draws of the law would tell.
    """
    columns = []
    for code in range(law.cells):
        column = [Fraction(0)] * law.cells
        start = 0
        while start < law.draws:
            output = _outcome(law, code, start)
            low, high = start + 1, law.draws
            while low < high:
                middle = (low + high) // 2
                same = _outcome(law, code, middle) == output
                low, high = (middle + 1, high) if same else (low, middle)
            column[output] += Fraction(low - start, law.draws)
            start = low
        columns.append(column)
    return columns


def _outcome(law: _ByDraws, code: int, draw: int) -> int:
    codes, draws = np.array([code], dtype=np.int64), np.array([draw], dtype=np.uint64)
    return int(law.outcome(codes, draws)[0])


def laplace_findings(epsilon: Fraction, draws: int) -> Iterator[Finding]:
    """Laplace noise on a grid with NULL."""
    laws = {f"{size} cells": ClampedLaplace(size, epsilon) for size in _GRIDS}
    one = ClampedLaplace(_DRAWN, epsilon)
    return _on_grids(subject("clamped-laplace", epsilon), laws, one, draws)


def series_findings(epsilon: Fraction, draws: int) -> Iterator[Finding]:
    """Noise on series with a missing one."""
    laws = {f"{k} times of {size} cells": SeriesNoise(k, size, epsilon) for k, size in _SHAPES}
    one = SeriesNoise(*_DRAWN_SHAPE, epsilon)
    return _on_grids(subject("series-noise", epsilon), laws, one, draws)


def _on_grids(name: str, laws: Mapping[str, OnGrid], one: OnGrid, draws: int) -> Iterator[Finding]:
    for case, law in laws.items():
        yield grid_finding(f"{name}, {case}", law, law.epsilon)
    yield from drawn(name, one, grid_chances(one, 1), draws)


def grid_finding(name: str, law: OnGrid, epsilon: Fraction) -> Finding:
    """P(y|x) ≤ e^ε P(y|x') for all pairs of values and all outputs, exactly.

    The noise of two values d steps apart, where NULL lies in the middle of the grid, gives any
    output with probabilities within e^{d/b} of each other, and a room for how it is drawn. The
    flag's ratio is a rational number, so that of both is at most e^ε if d/b ≤ ε and that number is
    at most e^{ε − d/b}.
    """
    rate = 1 / Fraction(law.scale) if law.scale else Fraction(0)
    flag = counted(law.flag)
    worst, holds = 0.0, True
    for x, other in permutations(product(range(law.size), repeat=law.times), 2):
        missing = [int(law.size - 1 in value) for value in (x, other)]
        pairs = zip(_around(law, x), _around(law, other), strict=True)
        apart = max(abs(a - b) for a, b in pairs)
        for told in (0, 1):
            ratio = flag[missing[0]][told] / flag[missing[1]][told]
            steps = 0 if told else apart
            left = epsilon - steps * rate - (law.room if steps else 0)
            holds = holds and left >= 0 and (ratio <= 1 or ratio <= exp_below(left))
            worst = max(worst, math.log(ratio) + float(steps * rate))
    what = "series" if law.times > 1 else "values"
    claim = f"epsilon at most {number(epsilon)}, any two {what}"
    return Finding(name, claim, f"epsilon {number(worst)}", holds, exact=True)


def _around(law: OnGrid, value: tuple[int, ...]) -> tuple[int, ...]:
    return (law.middle,) * law.times if law.size - 1 in value else value


def grid_chances(law: OnGrid, code: int) -> FloatArray:
    """P(y|code) for a value that is there: noise by noise radius, summed up beyond the ends.

    Within the radius R, which has P(R = r) ∝ a^r (2r+1)^k, the times are independent and uniform.
    """
    shape, last = (law.size,) * law.times, law.size - 2
    radii = np.arange(math.ceil((law.times + 50) * law.scale) + 50, dtype=np.float64)
    logs = law.times * np.log(2 * radii + 1) - radii / law.scale
    chances = np.exp(logs - logs.max())
    chances = chances[None] / chances.sum()
    for x in np.unravel_index(code, shape):
        y = np.arange(law.size)[:, None]
        own = (np.abs(y - x) <= radii).astype(np.float64)
        own[0], own[last] = np.maximum(0, radii - x + 1), np.maximum(0, radii - (last - x) + 1)
        own[last + 1] = 0
        own /= 2 * radii + 1
        chances = (chances[:, None] * own[None]).reshape(-1, len(radii))
    kept = law.flag.kept / 2.0**64
    found: FloatArray = kept * chances.sum(axis=1)
    found[-1] = 1 - kept
    return found


def drawn(name: str, law: OneRecord, chances: FloatArray, draws: int) -> Iterator[Finding]:
    """Draws of code 1, whose law is ``chances``, beside draws of the last code."""
    codes = (1, law.cells - 1)
    first, second = (law.perturb(np.full(draws, code, dtype=np.int64)) for code in codes)
    yield bounded(name, first, second, law.epsilon, Fraction(0))
    yield follows(name, first, (0, chances))
