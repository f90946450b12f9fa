"""Intervals that hold at all looks: a confidence sequence for one whole number (Ville 1939; Robbins
1970, *Statistical Methods Related to the Law of the Iterated Logarithm*; Waudby-Smith and Ramdas
2020, *Confidence Sequences for Sampling Without Replacement*).

Answers y_i = c_i θ + N_i, i = 1, 2, …, have known integers c_i > 0 and noises of known laws p_i.
Each N_i is independent of all that came before it, its law and its c_i included, which may have
been chosen in view of y_1, …, y_{i−1}.

For s fixed, let π(t) = p_s(y_s − c_s t) / Z, a distribution on the integers t, and for n ≥ s

    M_n(θ) = Σ_t π(t) ∏_{s<i≤n} p_i(y_i − c_i t) / p_i(y_i − c_i θ).

At the truth, E[p_n(y_n − c_n t) / p_n(y_n − c_n θ) | y_1, …, y_{n−1}] = Σ_k p_n(k + c_n θ − c_n t)
= 1 for each t, so M is a martingale that starts at 1, and P(M_n(θ) ≥ 1/β for any n) ≤ β by Ville's
inequality. The θ with M_n(θ) ≤ 1/β are an interval, since the laws are log-concave. With it goes
(y_s ± h) / c_s, which misses θ with probability β at most. Z is 1 for c_s = 1; else it is at most 1
and at most p_s(0) + 1/c_s, since p_s falls from 0 on both sides: each term but the largest is at
most the mean of p_s at the c_s integers from there towards the mode.

A first answer of much noise would widen all that follow by its logarithm. So there is a sequence
for s = 1, and one for each s whose noise, divided by c_s, is less than a sixteenth of that of the s
before.
The j-th, j = 0, 1, …, has α_j = (7/8) 8^{−j} (1 − confidence), half of it for each of its two
intervals; Σ α_j ≤ 1 − confidence.

All these intervals, of every s and every n ≥ s, hold the truth together with the probability asked.
So does their intersection, which is what is returned: a later answer never makes it wider, unless
the intersection is empty, which shows that one of them misses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np

from tallyveil import deadline
from tallyveil.arrays import BoolArray, FloatArray
from tallyveil.errors import InvalidParameterValue
from tallyveil.inference.laws.laws import NoiseLaw, exact_miss

__all__ = ["confidence_sequence"]

_FINER: Final = 16  # a sequence starts anew at a noise smaller by this
_SHARE: Final = Fraction(1, 8)
_GROWTH: Final = 1 / 32  # of the steps of the sum over t, away from the mode
_REACH: Final = 40  # standard deviations that the sum over t goes beyond the answers
_HALVINGS: Final = 200
_ROUNDING: Final = 1e-9

Holds: TypeAlias = BoolArray


def confidence_sequence(
    laws: Sequence[NoiseLaw],
    answers: Sequence[Sequence[int]],
    confidence: Fraction,
    contents: Sequence[int] = (),
    *,
    known: int = 0,
    before: Sequence[tuple[int, int]] = (),
) -> list[tuple[int, int]]:
    """For each row of ``answers`` the ends of the interval after all of them: ``laws[i]`` is the
    law of the i-th answer's noise, in every row, and ``contents[i]`` its c_i, 1 without any.
    ``before`` is what this returned for the first ``known`` answers, and saves that computation.

    With probability ≥ confidence a row's intervals after 1, 2, 3, … answers all hold its θ, if that
    is an integer. Sums are rounded to the safe side, so that no interval is too narrow.

    Raises InvalidParameterValue without answers, for a scale of 0, or unless 0 < confidence < 1.
    """
    if not laws or any(law.scale == 0 for law in laws):
        raise InvalidParameterValue("a confidence sequence is one of noisy answers")
    miss = exact_miss(confidence)
    times = contents or [1] * len(laws)
    origins = [row[0] // times[0] for row in answers]
    # Floats hold only differences of answers, which are small even where the answers are large.
    offsets = np.array(
        [
            [float(y - c * origin) for y, c in zip(row, times, strict=True)]
            for row, origin in zip(answers, origins, strict=True)
        ],
        dtype=np.float64,
    ).reshape(len(origins), len(laws))
    looks = _Likelihood(laws, offsets, np.array(times, dtype=np.float64))
    low = np.full(len(origins), -math.inf)
    high = np.full(len(origins), math.inf)
    if known:
        low[:] = [ends[0] - origin for ends, origin in zip(before, origins, strict=True)]
        high[:] = [ends[1] - origin for ends, origin in zip(before, origins, strict=True)]
    for stop in range(known + 1, len(laws) + 1):
        for least, most in looks.until(stop).intervals(miss):
            low, high = np.maximum(low, least), np.minimum(high, most)
            # Where intervals do not meet, one misses the truth; the latest is as good as any.
            empty = low > high
            low, high = np.where(empty, least, low), np.where(empty, most, high)
    ends = zip(origins, low.tolist(), high.tolist(), strict=True)
    return [(origin + int(a), origin + int(b)) for origin, a, b in ends]


def _likely(looks: _Likelihood, log_level: float) -> tuple[FloatArray, FloatArray]:
    """The ends of {θ: ln ∏_{i>0} p_i(y_i − c_i θ) ≥ ln β + ln m}, with ln β = ``log_level`` and
    m = Σ_t p_0(y_0 − c_0 t) ∏_{i>0} p_i(y_i − c_i t) / Z."""
    later = looks.since(1)
    mode = later.mode()
    least = log_level + _log_evidence(looks) - looks.log_first_mass
    least -= _ROUNDING * (1 + np.abs(least))
    return _farthest(later, mode, least, -1), _farthest(later, mode, least, 1)


@dataclass(frozen=True, eq=False)
class _Likelihood:
    """ln ∏_i p_i(y_i − c_i t), which is concave in t: a row for each row of answers, which are
    ``offsets`` from some multiples of the ``contents`` c_i."""

    laws: Sequence[NoiseLaw]
    offsets: FloatArray
    contents: FloatArray

    def intervals(self, miss: Fraction) -> Iterator[tuple[FloatArray, FloatArray]]:
        """The integers at the ends of each sequence's interval after the last answer."""
        level, last = (1 - _SHARE) * miss, len(self.laws) - 1
        for start in self.starts:
            deadline.check()
            if start < last:
                low, high = _likely(self.since(start), math.log(level / 2))
            else:
                half, content = self.laws[last].half_width(1 - level / 2), self.contents[last]
                answer = self.offsets[:, last]
                low, high = (answer - half) / content, (answer + half) / content
            low, high = np.ceil(low - _slack(low)), np.floor(high + _slack(high))
            # Between two integers there may be none: then the truth is missed for certain.
            yield np.minimum(low, high), np.maximum(low, high)
            level *= _SHARE

    def until(self, stop: int) -> _Likelihood:
        """Of the answers before this one."""
        return _Likelihood(self.laws[:stop], self.offsets[:, :stop], self.contents[:stop])

    def since(self, start: int) -> _Likelihood:
        """Of the answers from this one on."""
        return _Likelihood(self.laws[start:], self.offsets[:, start:], self.contents[start:])

    @property
    def deviations(self) -> list[float]:
        """Of each answer, divided by its content."""
        laws = zip(self.laws, self.contents.tolist(), strict=True)
        return [math.sqrt(law.variance) / content for law, content in laws]

    @property
    def starts(self) -> list[int]:
        """The answers at which a sequence starts; each start depends only on the laws up to it."""
        starts, deviations = [0], self.deviations
        for number, deviation in enumerate(deviations):
            if deviation * _FINER < deviations[starts[-1]]:
                starts.append(number)
        return starts

    @property
    def log_first_mass(self) -> float:
        """At least ln Z of the first answer."""
        law, content = self.laws[0], float(self.contents[0])
        largest = math.exp(float(law.log_mass(np.zeros(1))[0]))
        return 0.0 if content == 1 else min(0.0, math.log(largest + 1 / content) + _ROUNDING)

    def at(self, points: FloatArray) -> FloatArray:
        """At ``points[row]``, or at each of ``points[row, :]``."""
        wide = points.ndim > 1
        total = np.zeros_like(points)
        for number, law in enumerate(self.laws):
            answers = self.offsets[:, number]
            away = self.contents[number] * points
            total += law.log_mass((answers[:, None] if wide else answers) - away)
        return total

    @property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """Integers between which all answers are, divided by their contents."""
        values = self.offsets / self.contents
        return np.floor(values.min(axis=1)), np.ceil(values.max(axis=1))

    def mode(self) -> FloatArray:
        """The integer where it is largest: it rises before, and falls behind."""
        low, high = self.ends
        return 1 + _last(lambda t: self.at(t + 1) > self.at(t), low - 1, high)


def _log_evidence(likelihood: _Likelihood) -> FloatArray:
    """At most ln Σ_t ∏_i p_i(y_i − c_i t), over the integers t.

    The product rises up to its mode and falls from there. So between two points on one side of it,
    it is at least what it is at the farther one, which counts for all integers from there to the
    other. Steps between points are small beside what the product can change in, and grow outwards.
    """
    deviations = likelihood.deviations
    step = 1 / (16 * sum(1 / max(d, 0.1) for d in deviations))
    low, high = likelihood.ends
    reach = float((high - low).max()) + _REACH * min(deviations) + 1
    count = math.ceil(math.log1p(_GROWTH * reach / step) / math.log1p(_GROWTH))
    grown = np.expm1(np.arange(1, count + 1) * math.log1p(_GROWTH)) / _GROWTH
    steps = np.unique(np.ceil(np.concatenate([[0.0], step * grown])))
    widths = np.log(np.diff(steps))
    mode = likelihood.mode()[:, None]
    right, left = likelihood.at(mode + steps), likelihood.at(mode - steps)
    terms = [left[:, :1], right[:, 1:] + widths, left[:, 1:] + widths]
    return _log_sum(np.concatenate(terms, axis=1))


def _log_sum(terms: FloatArray) -> FloatArray:
    largest = terms.max(axis=1)
    result: FloatArray = largest + np.log(np.exp(terms - largest[:, None]).sum(axis=1))
    return result


def _farthest(
    likelihood: _Likelihood, mode: FloatArray, least: FloatArray, sign: int
) -> FloatArray:
    """The integer farthest from the mode, on one side of it, where it is at least ``least``."""
    reach = np.ones_like(mode)
    for _ in range(_HALVINGS):
        inside = likelihood.at(mode + sign * reach) >= least
        if not inside.any():
            break
        reach = np.where(inside, 2 * reach, reach)
    near = _last(lambda far: likelihood.at(mode + sign * far) >= least, reach // 2, reach)
    return mode + sign * near


def _last(holds: Callable[[FloatArray], Holds], low: FloatArray, high: FloatArray) -> FloatArray:
    """For each row the last integer from ``low`` on, below ``high``, up to which ``holds`` is true;
    ``low`` if there is none."""
    for _ in range(_HALVINGS):
        if not (high - low > 1).any():
            break
        middle = np.floor((low + high) / 2)
        inside = holds(middle)
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return low


def _slack(ends: FloatArray) -> FloatArray:
    """How much ends this far from 0 may have lost to rounding as floats."""
    slack: FloatArray = _ROUNDING + np.abs(ends) * 1e-12
    return slack
