"""Intervals of variances, covariances, correlations and regressions (docs/mathematics.md, "Moments
and regressions").

Each is a quotient T(ν)/B(ν) of linear combinations of the sums n, x, y, xx, xy, yy (see
`rewriter/private/moments.py`), whose weights depend on ν: means, or for an intercept the slope.
Where c stands twice, ν has two numbers for it, so that the weights are linear in each:

    covar_pop = (xy − d x − c y + c d n) / n,    var_pop = (xx − (c + c′) x + c c′ n) / n,
    slope = (xy − d x − c y + c d n) / (xx − (c + c′) x + c c′ n),    (y − b (x − z n)) / n.

A box holds ν but with the error probability β. For the true ν Fieller's set {v : |T̂ − v B̂| ≤ h(v)}
misses T/B with α − β, so that the sets of all ν in the box together miss it with α. In the box,
T̂ − v B̂ is between its values at the corners, and h, a norm of the weights (`inference/fieller.py`),
at most the largest at the corners of any box around, as of a grid that rows share. So the ends are
those of all pairs of such corners.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np

from tallyveil import deadline
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.inference import Fieller, Noises
from tallyveil.rewriter.query_plan import Moment

__all__ = ["Allowed", "Joint", "moment_ends"]

_Ends: TypeAlias = tuple[FloatArray, FloatArray]
_Weights: TypeAlias = Sequence[tuple[str, FloatArray | float]]
"""The weights of sums, by name; "1" is a constant."""
_Form: TypeAlias = Callable[..., tuple[_Weights, _Weights]]
"""T and B by ν."""

_BOXES: Final = (1, 8, 6, 2)  # of the grid, on each axis, by the number of axes
_BESIDE: Final = 10  # a tenth of the error probability is for the means
_STEP: Final = 0.25  # by which `Fieller` raises h where there is noise in B


def moment_ends(moment: Moment, sums: Allowed | Joint, miss: Fraction) -> _Ends:
    """The ends of the interval, NaN where it is unbounded."""
    numbers = {name: float(more) for name, shares, more in moment.sums if not shares}
    count: _Weights = [("n", 1.0), ("1", -numbers.get("lost", 0.0))]
    match moment.name:
        case "__mean":
            ((low, high),) = _means(sums, "x", miss)
            return low + numbers["cx"], high + numbers["cx"]
        case "__variance":
            low, high = _product(sums, "xx", count, miss)
            return np.maximum(low, 0.0), np.maximum(high, 0.0)
        case "__deviation":
            low, high = moment_ends(moment._replace(name="__variance"), sums, miss)
            return np.sqrt(low), np.sqrt(high)
        case "__covariance":
            return _product(sums, "xy", count, miss)
        case "__product":
            return _product(sums, "xy", [("1", 1.0)], miss)
        case "__slope":
            return _slope(sums, "x", miss)
        case "__intercept":
            slope, z = _slope(sums, "x", miss / 2), -numbers["cx"]
            low, high = sums.ends(
                lambda b: ([("y", 1.0), ("x", -b), ("n", b * z)], [("n", 1.0)]), [slope], miss / 2
            )
            return low + numbers["cy"], high + numbers["cy"]
        case "__correlation":
            each = zip(_slope(sums, "x", miss / 2), _slope(sums, "y", miss / 2), strict=True)
            low, high = (
                np.where(a * b > 0, np.sign(a), 0.0) * np.sqrt(np.abs(a * b)) for a, b in each
            )
            return np.clip(low, -1.0, 1.0), np.clip(high, -1.0, 1.0)
        case _:
            low, high = moment_ends(moment._replace(name="__correlation"), sums, miss)
            least = np.maximum(np.maximum(low, -high), 0.0)
            return least**2, np.maximum(low**2, high**2)


def _about(powers: str, c: FloatArray, d: FloatArray) -> _Weights:
    """Σ (X − c)(Y − d)."""
    return [("".join(sorted(powers)), 1.0), (powers[0], -d), (powers[1], -c), ("n", c * d)]


def _product(sums: Allowed | Joint, powers: str, bottom: _Weights, miss: Fraction) -> _Ends:
    means = _means(sums, powers, miss / _BESIDE)
    return sums.ends(lambda c, d: (_about(powers, c, d), bottom), means, miss - miss / _BESIDE)


def _slope(sums: Allowed | Joint, of: str, miss: Fraction) -> _Ends:
    """C / Σ (X − c)², or with Σ (Y − d)² if it is ``of`` y."""
    other = "y" if of == "x" else "x"
    mean, beside = _means(sums, of + other, miss / _BESIDE)
    return sums.ends(
        lambda c, d, again: (_about(of + other, c, d), _about(of + of, c, again)),
        [mean, beside, mean],
        miss - miss / _BESIDE,
    )


def _means(sums: Allowed | Joint, powers: str, miss: Fraction) -> list[_Ends]:
    """Intervals of the means of these values, which together miss with ``miss``."""
    found = {
        one: sums.ends(lambda one=one: ([(one, 1.0)], [("n", 1.0)]), [], miss / len({*powers}))
        for one in sorted({*powers})
    }
    return [found[one] for one in powers]


def _total(weights: _Weights, of: Mapping[str, FloatArray]) -> FloatArray:
    return sum((times * of[name] for name, times in weights), np.zeros(1))


@dataclass(frozen=True)
class Allowed:
    """The least and the largest value of each sum; both the same for T/B of values as they are."""

    low: Mapping[str, FloatArray]
    high: Mapping[str, FloatArray]

    def ends(self, form: _Form, boxes: Sequence[_Ends], miss: Fraction) -> _Ends:
        """The ends of T/B if ν is in the boxes; of `Joint`, they miss with ``miss``."""
        found, signs = list[FloatArray](), list[FloatArray]()
        for corner in itertools.product(*boxes):
            tops, bottoms = map(self._range, form(*corner))
            with np.errstate(divide="ignore", invalid="ignore"):
                found += [top / bottom for top, bottom in itertools.product(tops, bottoms)]
            signs += map(np.sign, bottoms)
        return _together(found, found, signs)

    def _range(self, weights: _Weights) -> _Ends:
        parts = [(times * self.low[name], times * self.high[name]) for name, times in weights]
        low, high = (
            np.sum([end(*one) for one in parts], axis=0) for end in (np.minimum, np.maximum)
        )
        return low, high


def _together(low: list[FloatArray], high: list[FloatArray], signs: list[FloatArray]) -> _Ends:
    """The outermost ends, NaN unless they are finite and all ``signs`` of B the same."""
    first, last = np.min(low, axis=0), np.max(high, axis=0)
    same = np.isfinite(first) & np.isfinite(last) & (np.abs(np.sum(signs, axis=0)) == len(signs))
    return np.where(same, first, np.nan), np.where(same, last, np.nan)


@dataclass(frozen=True)
class Joint:
    """The sums' estimates, and the weights of the noises in the error of each, the same in all
    rows."""

    values: Mapping[str, FloatArray]
    weights: Mapping[str, FloatArray]
    noises: Noises
    rough: bool

    def ends(self, form: _Form, boxes: Sequence[_Ends], miss: Fraction) -> _Ends:
        low, high = np.full((2, len(self.values["n"])), np.nan)
        each = np.array(boxes).reshape(len(boxes), 2, len(low))
        rows = np.flatnonzero(np.isfinite(each).all(axis=(0, 1)))
        if not len(rows):
            return low, high
        each, values = each[:, :, rows], {name: own[rows] for name, own in self.values.items()}
        sides = [
            [_total(side, values) for side in form(*corner)] for corner in itertools.product(*each)
        ]
        lows, highs = np.full(len(rows), np.inf), np.full(len(rows), -np.inf)
        for own, law, more in deadline.stoppable(self._laws(form, each)):
            for top, bottom in sides:
                first, last = law.ends(top[own], bottom[own], 1 - miss)
                with np.errstate(divide="ignore", invalid="ignore"):
                    beyond = more / np.abs(bottom[own])
                lows[own] = np.minimum(lows[own], first - beyond)
                highs[own] = np.maximum(highs[own], last + beyond)
        low[rows], high[rows] = _together([lows], [highs], [np.sign(own) for _, own in sides])
        return low, high

    def _laws(self, form: _Form, boxes: FloatArray) -> Iterator[tuple[IntArray, Fieller, float]]:
        """The rows whose boxes are in boxes of the grid with a corner, and Fieller's sets for ν
        there; by how much to raise half-widths of T, where B has no noise."""
        several = boxes.shape[2] > 1
        axes = [
            np.linspace(low.min(), high.max(), 1 + (_BOXES[len(boxes)] if several else 1))
            for low, high in boxes
        ]
        ends = [
            (np.searchsorted(lines[1:], low, "right"), np.searchsorted(lines[:-1], high))
            for lines, (low, high) in zip(axes, boxes, strict=True)
        ]
        for corner in itertools.product(*(range(len(lines)) for lines in axes)):
            inside = np.full(boxes.shape[2], True)
            for n, (first, last) in zip(corner, ends, strict=True):
                inside &= (np.minimum(first, last) <= n) & (n <= last)
            if inside.any():
                sides = form(*(lines[n] for n, lines in zip(corner, axes, strict=True)))
                top, bottom = (_total(side, self.weights) for side in sides)
                law = Fieller(top, bottom, self.noises, self.rough)
                more = 0.0 if bottom.any() or not corner else _STEP * float(np.abs(top).max())
                yield np.flatnonzero(inside), law, more
