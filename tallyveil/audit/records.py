"""The mechanisms for one record or one series, of which sanitised copies are made."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, permutations, product
from typing import Final

import numpy as np

from tallyveil.audit.finding import Finding, number, subject
from tallyveil.audit.law import FloatArray
from tallyveil.audit.matrices import Columns, law_findings
from tallyveil.audit.noise import bounded, follows
from tallyveil.mechanisms import (
    ClampedLaplace,
    OneRecord,
    RandomisedResponse,
    SeriesNoise,
    SetResponse,
)
from tallyveil.mechanisms.matrix.privacy_level import exp_below
from tallyveil.mechanisms.records.randomised_response import DRAWS

__all__ = [
    "counted",
    "counted_set",
    "grid_finding",
    "laplace_findings",
    "response_findings",
    "series_chances",
    "series_finding",
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
# What drawing may add to the logarithm of a ratio (`mechanisms.series_noise`).
_ROOM: Final = Fraction(1, 2**159)


def response_findings(epsilon: Fraction, draws: int) -> Iterator[Finding]:
    """Randomised response: how many of all 2⁶⁴ draws lead where, counted, and proved."""
    name = subject("randomised-response", epsilon)
    laws = {f"{size} values": counted(RandomisedResponse(size, epsilon)) for size in _SIZES}
    yield from law_findings(name, laws, epsilon, any_two=True)
    law = RandomisedResponse(_DRAWN, epsilon)
    chances = np.full(_DRAWN, law.change / DRAWS)
    chances[1] = law.kept / DRAWS
    yield from drawn(name, law, chances, draws)


def counted(law: RandomisedResponse) -> Columns:
    """P[output | code] by what `outcome` makes of the draws.

    As draws rise, the outcome goes through the other values in their order and ends with the
    code's own; where it changes is found by bisection. That it goes through them in this order is
    taken for granted here; the draws of `response_findings` would tell.
    """
    columns = []
    for code in range(law.cells):
        order = [*(other for other in range(law.cells) if other != code), code]
        edges = [0, *(_first_at(law, code, order, k) for k in range(1, law.cells)), DRAWS]
        column = [Fraction(0)] * law.cells
        for value, (start, end) in zip(order, pairwise(edges), strict=True):
            column[value] = Fraction(end - start, DRAWS)
        columns.append(column)
    return columns


def _first_at(law: RandomisedResponse, code: int, order: Sequence[int], place: int) -> int:
    """The least draw whose outcome stands at ``place`` of ``order`` or after it."""
    low, high = 0, DRAWS
    codes = np.array([code], dtype=np.int64)
    while low < high:
        middle = (low + high) // 2
        outcome = int(law.outcome(codes, np.array([middle], dtype=np.uint64))[0])
        low, high = (low, middle) if order.index(outcome) >= place else (middle + 1, high)
    return low


def set_findings(epsilon: Fraction, draws: int) -> Iterator[Finding]:
    """Sets: how many of all draws lead where, counted, and proved."""
    name = subject("set-response", epsilon)
    laws = {f"elements of {sizes}": SetResponse(sizes, epsilon) for sizes in _SETS}
    columns = {case: counted_set(law) for case, law in laws.items()}
    yield from law_findings(name, columns, epsilon, any_two=True)
    law = SetResponse(_SETS[1], epsilon)
    chances = np.array([float(p) for p in counted_set(law)[1]])
    yield from drawn(name, law, chances, draws)


def counted_set(law: SetResponse) -> Columns:
    """P[output | code] by what `outcome` makes of the draws, each output's draws in one piece.

    That they are is taken for granted here; the draws of `set_findings` would tell.
    """
    columns = []
    for code in range(law.cells):
        column = [Fraction(0)] * law.cells
        start = 0
        while start < law.draws:
            output = _set_outcome(law, code, start)
            low, high = start + 1, law.draws
            while low < high:
                middle = (low + high) // 2
                same = _set_outcome(law, code, middle) == output
                low, high = (middle + 1, high) if same else (low, middle)
            column[output] += Fraction(low - start, law.draws)
            start = low
        columns.append(column)
    return columns


def _set_outcome(law: SetResponse, code: int, draw: int) -> int:
    codes, draws = np.array([code], dtype=np.int64), np.array([draw], dtype=np.uint64)
    return int(law.outcome(codes, draws)[0])


def laplace_findings(epsilon: Fraction, draws: int) -> Iterator[Finding]:
    """Laplace noise on a grid with NULL."""
    name = subject("clamped-laplace", epsilon)
    for size in _GRIDS:
        yield grid_finding(f"{name}, {size} cells", ClampedLaplace(size, epsilon), epsilon)
    law = ClampedLaplace(_DRAWN, epsilon)
    yield from drawn(name, law, _grid_chances(law, 1), draws)


def grid_finding(name: str, law: ClampedLaplace, epsilon: Fraction) -> Finding:
    """P(y|x) ≤ e^ε P(y|x') for all pairs of values and all outputs, exactly.

    Given y, P(y|x) is proportional to r · e^{−d/b}: r is the chance of the flag, and d the
    distance of y from x, or from the middle of the grid where x is NULL. A ratio is then a
    rational number times e^{d/b}, and it is at most e^ε if d/b ≤ ε and the number is at most
    e^{ε − d/b}.
    """
    null = law.cells - 1
    rate = 1 / Fraction(law.scale) if law.scale else Fraction(0)
    flag = counted(law.flag)
    worst, holds = 0.0, True
    for x, other in permutations(range(law.cells), 2):
        for y in range(law.cells):
            told = int(y == null)
            ratio = flag[int(x == null)][told] / flag[int(other == null)][told]
            steps = 0 if told else _steps(law, other, y) - _steps(law, x, y)
            left = epsilon - steps * rate
            holds = holds and left >= 0 and (ratio <= 1 or ratio <= exp_below(left))
            worst = max(worst, math.log(ratio) + float(steps * rate))
    claim = f"epsilon at most {number(epsilon)}, any two values"
    return Finding(name, claim, f"epsilon {number(worst)}", holds, exact=True)


def _steps(law: ClampedLaplace, value: int, output: int) -> int:
    return abs(output - (law.middle if value == law.cells - 1 else value))


def _grid_chances(law: ClampedLaplace, code: int) -> FloatArray:
    """P(y|code) for a number: Laplace noise, summed up beyond the ends, and the flag."""
    last, a = law.cells - 2, math.exp(-1 / law.scale)
    distance = np.abs(np.arange(law.cells - 1) - code)
    chances = a**distance * (1 - a) / (1 + a)
    chances[0], chances[last] = a ** distance[0] / (1 + a), a ** distance[last] / (1 + a)
    kept = law.flag.kept / DRAWS
    return np.append(kept * chances, 1 - kept)


def drawn(name: str, law: OneRecord, chances: FloatArray, draws: int) -> Iterator[Finding]:
    """Draws of code 1, whose law is ``chances``, beside draws of the last code."""
    codes = (1, law.cells - 1)
    first, second = (law.perturb(np.full(draws, code, dtype=np.int64)) for code in codes)
    yield bounded(name, first, second, law.epsilon, Fraction(0))
    yield follows(name, first, (0, chances))


def series_findings(epsilon: Fraction, draws: int) -> Iterator[Finding]:
    """Noise on series with a missing one."""
    name = subject("series-noise", epsilon)
    for times, size in _SHAPES:
        law = SeriesNoise(times, size, epsilon)
        yield series_finding(f"{name}, {times} times of {size} cells", law, epsilon)
    law = SeriesNoise(*_DRAWN_SHAPE, epsilon)
    yield from drawn(name, law, series_chances(law, 1), draws)


def series_finding(name: str, law: SeriesNoise, epsilon: Fraction) -> Finding:
    """P(y|x) ≤ e^ε P(y|x') for all pairs of series and all outputs, exactly.

    The noise of two series d steps apart gives any output with probabilities within e^{d/b} of
    each other, and a room for how it is drawn; the flag's ratio is a rational number.
    """
    rate = 1 / Fraction(law.scale) if law.scale else Fraction(0)
    flag = counted(law.flag)
    worst, holds = 0.0, True
    for x, other in permutations(product(range(law.size), repeat=law.times), 2):
        missing = [int(law.size - 1 in series) for series in (x, other)]
        pairs = zip(_around(law, x), _around(law, other), strict=True)
        apart = max(abs(a - b) for a, b in pairs)
        for told in (0, 1):
            ratio = flag[missing[0]][told] / flag[missing[1]][told]
            steps = 0 if told else apart
            left = epsilon - steps * rate - (_ROOM if steps else 0)
            holds = holds and left >= 0 and (ratio <= 1 or ratio <= exp_below(left))
            worst = max(worst, math.log(ratio) + float(steps * rate))
    claim = f"epsilon at most {number(epsilon)}, any two series"
    return Finding(name, claim, f"epsilon {number(worst)}", holds, exact=True)


def _around(law: SeriesNoise, series: tuple[int, ...]) -> tuple[int, ...]:
    return (law.middle,) * law.times if law.size - 1 in series else series


def series_chances(law: SeriesNoise, code: int) -> FloatArray:
    """P(y|code) for a series that is there: noise by noise radius, summed up beyond the ends.

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
