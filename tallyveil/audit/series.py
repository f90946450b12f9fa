"""Series of fixed length, of which sanitised copies are made."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations, product
from typing import Final

import numpy as np

from tallyveil.audit.finding import Finding, number, subject
from tallyveil.audit.law import FloatArray
from tallyveil.audit.records import counted, drawn
from tallyveil.mechanisms import SeriesNoise
from tallyveil.mechanisms.matrix.privacy_level import exp_below

__all__ = ["series_chances", "series_finding", "series_findings"]

# Times, and values a time with its NULL.
_SHAPES: Final = ((1, 4), (2, 2), (2, 5), (2, 6), (3, 4))
_DRAWN: Final = (2, 5)
# What drawing may add to the logarithm of a ratio (`mechanisms.series_noise`).
_ROOM: Final = Fraction(1, 2**159)


def series_findings(epsilon: Fraction, draws: int) -> Iterator[Finding]:
    """Noise on series with a missing one."""
    name = subject("series-noise", epsilon)
    for times, size in _SHAPES:
        law = SeriesNoise(times, size, epsilon)
        yield series_finding(f"{name}, {times} times of {size} cells", law, epsilon)
    law = SeriesNoise(*_DRAWN, epsilon)
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
