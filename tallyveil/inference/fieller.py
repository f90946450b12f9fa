"""Intervals of quotients of two answers whose errors have a known joint law: Fieller's sets.

Ŝ = S + X and N̂ = N + Y are answers to a numerator and a denominator, with the errors X = Σ a_k K_k
and Y = Σ b_k K_k of the same noises. Let h(r) be the least half-width with P(|X − rY| ≤ h(r)) ≥
confidence (`ErrorLaw.half_width`). The set

    {r : |Ŝ − r N̂| ≤ h(r)}

holds r = S/N with that probability, whatever S and N are, since Ŝ − r N̂ = X − rY there (Fieller
1954, Some problems in interval estimation, JRSS B 16, for normal errors). Its least and its largest
element are the ends; they are infinite where N̂ is no farther from 0 than h_Y, the half-width of Y,
since then all r far enough from 0 are in it.

h is computed at the nodes r_j = c + w tan(πj/24), j = −11 … 11, with c and w such that X − r_j Y
has about the standard deviation w σ_Y / cos(πj/24). Between them chords are used, and beyond them
h(r_j) + |r − r_j| h_Y. No less than h(r), and no more than 0.22 % above it between the nodes, for
noise with a log-concave density: h is then a norm of (1, −r) (Bobkov 2010, Convex bodies and norms
associated to convex measures, PTRF 147). On the integers h is a norm but for part of a step; a
quarter of the largest step |a_k − r b_k| is added, which exceeds all that was found by brute force
(tests/inference/test_fieller.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.arrays import FloatArray
from tallyveil.cache import Cache, cached_property, key_bytes
from tallyveil.inference.canonical import rounded, settled
from tallyveil.inference.laws.error_law import ErrorLaw
from tallyveil.inference.laws.noises import Noises

__all__ = ["Fieller", "outward"]

_NODES: Final = 11  # on each side of the middle one
_TANGENTS: Final = [round(math.tan(math.pi * j / 24) * 2**20) / 2**20 for j in range(_NODES + 1)]
_STEP: Final = 0.25
_UP: Final = 1 + 1e-9  # more than rounding of the weights makes h smaller
_DEPENDENT: Final = 1e-12  # of a variance: X is a multiple of Y but for rounding
_DIGITS: Final = 10_000  # of its width, to which an interval's ends are rounded outward
_POINT: Final = 1e-11  # of an end: a width that is nothing but rounding errors
_NEARLY: Final = 1e-6  # of these: more than rounding adds, and less than `_UP`


@dataclass(frozen=True, eq=False)
class Fieller:
    """The joint law of the errors of a numerator, with the weights ``top`` of the ``noises``, and
    of a denominator, with the weights ``bottom``. If ``rough``, half-widths are Chernoff's."""

    top: FloatArray
    bottom: FloatArray
    noises: Noises
    rough: bool = False

    def __post_init__(self) -> None:
        for name in ("top", "bottom"):
            object.__setattr__(self, name, rounded(getattr(self, name)))

    @property
    def deviation(self) -> float:
        """The numerator's standard deviation."""
        return math.sqrt(self.noises.variance_of(self.top))

    def ends(
        self, tops: FloatArray, bottoms: FloatArray, confidence: Fraction
    ) -> tuple[FloatArray, FloatArray]:
        """The least and the largest element of the set of each pair of answers, ±∞ where it is
        unbounded; NaN where the denominator is exactly 0."""
        tops, bottoms = tops * np.where(bottoms < 0, -1.0, 1.0), np.abs(bottoms)
        if not self.bottom.any():
            half, safe = self._half_width(self.top, confidence), np.where(bottoms, bottoms, np.nan)
            return (tops - half) / safe, (tops + half) / safe
        slope, (centre, width), now, before = (
            self._raised(self.bottom, confidence),
            self._scale,
            (0, 0),
            None,
        )
        while now != before:
            numbers = range(now[0], now[1] + 1)
            nodes = np.array(
                [centre + math.copysign(width * _TANGENTS[abs(j)], j) for j in numbers]
            )
            halves = np.array([self._raised(self.top - r * self.bottom, confidence) for r in nodes])
            chords = np.diff(halves) / np.diff(nodes)
            bounded = bottoms > max(slope, np.abs(chords).max(initial=0.0))
            sides = tops[bounded], bottoms[bounded]
            low = -_solved(-nodes[::-1], halves[::-1], slope, -sides[0], sides[1])
            high = _solved(nodes, halves, slope, *sides)
            before = now
            if width and len(low):
                angles = (
                    np.arctan((np.array([low.min(), high.max()]) - centre) / width) * 24 / math.pi
                )
                least, most = math.floor(angles[0]), math.ceil(angles[1])
                now = max(-_NODES, min(now[0], least)), min(_NODES, max(now[1], most))
        first, last = np.full(len(tops), -np.inf), np.full(len(tops), np.inf)
        first[bounded], last[bounded] = low, high
        return first, last

    def _raised(self, weights: FloatArray, confidence: Fraction) -> float:
        return self._half_width(weights, confidence) + _STEP * float(np.abs(weights).max())

    def _half_width(self, weights: FloatArray, confidence: Fraction) -> float:
        def half() -> float:
            law = ErrorLaw(weights, self.noises)
            own = law.outer_half_width if self.rough else law.half_width
            return own(confidence) * _UP

        key = weights.tobytes(), self._signature, self.rough, confidence
        return _HALVES.get(key, half) if weights.any() else 0.0

    @cached_property
    def _signature(self) -> object:
        return self.noises.signature

    @cached_property
    def _scale(self) -> tuple[float, float]:
        """c and w: about Cov(X, Y)/Var Y, and the standard deviation of X − cY in those of Y; 0 if
        X is a multiple of Y."""
        variance = self.noises.variance_of
        several = variance(self.top + self.bottom) - variance(self.top - self.bottom)
        centre = several / 4 / variance(self.bottom)
        own = variance(self.top - centre * self.bottom)
        if own <= _DEPENDENT * variance(self.top):
            return centre, 0.0
        width = settled(math.sqrt(own / variance(self.bottom)))
        return round(centre / width * 64) / 64 * width, width


_HALVES: Final[Cache[float]] = Cache(32_768, 1 << 26, lambda key, _: 500 + key_bytes(key))


def _solved(
    nodes: FloatArray, halves: FloatArray, slope: float, tops: FloatArray, bottoms: FloatArray
) -> FloatArray:
    """The r at which r·bottom − h(r) = top, where h is linear between the ``nodes`` and rises by
    ``slope`` beyond them, by less than r·bottom anywhere."""
    values = bottoms[:, None] * nodes - halves
    place = (values <= tops[:, None]).sum(axis=1)
    chords = np.concatenate([[-slope], np.diff(halves) / np.diff(nodes), [slope]])
    at = np.maximum(place - 1, 0)
    left = tops - values[np.arange(len(tops)), at]
    found: FloatArray = nodes[at] + left / (bottoms - chords[place])
    return found


def outward(
    low: FloatArray, high: FloatArray, reported: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Finite ends, stretched to hold what is ``reported`` unless it is NaN, and rounded outward to
    a power of 10 of at most a ten-thousandth of the width. So they are the same on every processor,
    and hold what is computed from the same answers in another order. Ends that are equal but for
    rounding are what is reported."""
    low, high = np.fmin(low, reported), np.fmax(high, reported)
    some = high - low > _POINT * np.maximum(np.abs(low), np.abs(high))
    low[~some] = high[~some] = np.where(np.isnan(reported), low, reported)[~some]
    places = np.floor(np.log10((high - low)[some] / _DIGITS))
    over, under = 10.0 ** np.maximum(-places, 0), 10.0 ** np.maximum(places, 0)
    low[some] = np.floor(low[some] / under * over + _NEARLY) / over * under
    high[some] = np.ceil(high[some] / under * over - _NEARLY) / over * under
    return low, high
