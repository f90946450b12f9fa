"""A confidence sequence: intervals for one whole number θ that hold after every answer together.

Answers y_i = c_i θ + N_i arrive one after the other, with known integers c_i > 0 and noises of
known laws p_i. What is asked next, and with which noise, may depend on all answers before. The
interval after n answers is the intersection of these:

1. (y_s ± h) / c_s, where P(|N_s| > h) ≤ β.
2. Every θ under which the answers after y_s are likely enough, compared with their mean likelihood
   over the posterior of y_s alone (a flat prior):

       ∏_{s<i≤n} p_i(y_i − c_i θ)  ≥  β Σ_t π(t) ∏_{s<i≤n} p_i(y_i − c_i t),
       π(t) = p_s(y_s − c_s t) / Z.

   At the true θ, the sum divided by the left side is a martingale that starts at 1. So all these
   intervals, for n = s, s + 1, …, hold θ with probability ≥ 1 − β together (Ville 1939; Robbins
   1970, *Statistical Methods Related to the Law of the Iterated Logarithm*; Waudby-Smith and Ramdas
   2020, *Confidence Sequences for Sampling Without Replacement*).

There is one such pair for s = 1. A first answer with much noise would widen all intervals after it,
so a further pair starts at each s whose noise, divided by c_s, is less than a sixteenth of that at
the start before. The j-th pair, j = 0, 1, …, has β = (7/16) 8^{−j} (1 − confidence), so that all of
them together miss with probability ≤ 1 − confidence. docs/mathematics.md, "Intervals over all
looks", has the proof.

A later answer never widens the interval, unless the intersection is empty, which shows that one of
its parts missed. Sums are rounded so that no interval is too narrow.
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
from tallyveil.inference.laws.noise_law import NoiseLaw, exact_miss

__all__ = ["confidence_sequence"]

_FINER: Final = 16  # a pair of intervals starts at noise that is smaller by this factor
_SHARE: Final = Fraction(1, 8)  # of a pair's probability of missing, for the pair that starts next
_GROWTH: Final = 1 / 32  # of the steps of the sum over t, away from the mode
_REACH: Final = 40  # standard deviations beyond the answers, up to which the sum over t goes
_HALVINGS: Final = 200
_ROUNDING: Final = 1e-9

_Ends: TypeAlias = tuple[FloatArray, FloatArray]
"""The lower and the upper end of each row's interval."""


def confidence_sequence(
    laws: Sequence[NoiseLaw],
    answers: Sequence[Sequence[int]],
    confidence: Fraction,
    contents: Sequence[int] = (),
    *,
    known: int = 0,
    before: Sequence[tuple[int, int]] = (),
) -> list[tuple[int, int]]:
    """For each row of ``answers`` the ends of the interval after all of them.

    ``laws[i]`` is the law of the i-th answer's noise in every row, and ``contents[i]`` its c_i; by
    default all c_i are 1. ``before`` is the result for the first ``known`` answers, from which the
    computation continues.

    With probability ≥ confidence a row's intervals after 1, 2, 3, … answers all hold its θ.

    Raises InvalidParameterValue without answers, for a scale of 0, or unless 0 < confidence < 1.
    """
    if not laws or any(law.scale == 0 for law in laws):
        raise InvalidParameterValue("a confidence sequence is one of noisy answers")
    miss = exact_miss(confidence)
    times = contents or [1] * len(laws)
    origins = [row[0] // times[0] for row in answers]
    every = _Answers.of(laws, answers, times, origins)
    low, high = np.full(len(origins), -math.inf), np.full(len(origins), math.inf)
    if known:
        low[:] = [ends[0] - origin for ends, origin in zip(before, origins, strict=True)]
        high[:] = [ends[1] - origin for ends, origin in zip(before, origins, strict=True)]
    for number in range(known + 1, len(laws) + 1):
        for least, most in _intervals(every.part(0, number), miss):
            low, high = np.maximum(low, least), np.minimum(high, most)
            # Intervals that do not meet show that one missed; then the latest starts anew.
            empty = low > high
            low, high = np.where(empty, least, low), np.where(empty, most, high)
    ends = zip(origins, low.tolist(), high.tolist(), strict=True)
    return [(origin + int(a), origin + int(b)) for origin, a, b in ends]


@dataclass(frozen=True, eq=False)
class _Answers:
    """Consecutive answers, with a row of ``offsets`` y_i − c_i · origin for each row. Floats hold
    these differences exactly, also where the answers are too large for that."""

    laws: Sequence[NoiseLaw]
    offsets: FloatArray
    contents: FloatArray

    @classmethod
    def of(
        cls,
        laws: Sequence[NoiseLaw],
        answers: Sequence[Sequence[int]],
        contents: Sequence[int],
        origins: Sequence[int],
    ) -> _Answers:
        offsets = [
            [float(y - c * origin) for y, c in zip(row, contents, strict=True)]
            for row, origin in zip(answers, origins, strict=True)
        ]
        shaped = np.array(offsets, dtype=np.float64).reshape(len(origins), len(laws))
        return cls(laws, shaped, np.array(contents, dtype=np.float64))

    def part(self, start: int, stop: int | None = None) -> _Answers:
        """The answers from number ``start`` to before ``stop``."""
        own = slice(start, stop)
        return _Answers(self.laws[own], self.offsets[:, own], self.contents[own])

    @property
    def deviations(self) -> list[float]:
        """The standard deviation of each noise, divided by the content."""
        laws = zip(self.laws, self.contents.tolist(), strict=True)
        return [math.sqrt(law.variance) / content for law, content in laws]

    @property
    def around(self) -> _Ends:
        """Integers between which all y_i / c_i of a row are."""
        values = self.offsets / self.contents
        return np.floor(values.min(axis=1)), np.ceil(values.max(axis=1))

    def log_likelihood(self, points: FloatArray) -> FloatArray:
        """ln ∏_i p_i(y_i − c_i t), which is concave in t, at t = ``points[row]`` or at each of
        ``points[row, :]``."""
        wide = points.ndim > 1
        total = np.zeros_like(points)
        for number, law in enumerate(self.laws):
            answers = self.offsets[:, number]
            away = self.contents[number] * points
            total += law.log_mass((answers[:, None] if wide else answers) - away)
        return total

    def mode(self) -> FloatArray:
        """The integer where the likelihood is largest: it rises before, and falls behind."""
        low, high = self.around
        return 1 + _last(
            lambda t: self.log_likelihood(t + 1) > self.log_likelihood(t), low - 1, high
        )


def _intervals(answers: _Answers, miss: Fraction) -> Iterator[_Ends]:
    """What the last answer contributes: for each pair that started before it the second interval,
    for a pair that starts with it the first. Ends are integers."""
    level, last = (1 - _SHARE) * miss, len(answers.laws) - 1
    for start in _starts(answers):
        deadline.check()
        if start < last:
            low, high = _likely(answers.part(start), math.log(level / 2))
        else:
            half, content = answers.laws[last].half_width(1 - level / 2), answers.contents[last]
            own = answers.offsets[:, last]
            low, high = (own - half) / content, (own + half) / content
        low, high = np.ceil(low - _slack(low)), np.floor(high + _slack(high))
        # An interval between two integers holds none: then θ is missed for certain.
        yield np.minimum(low, high), np.maximum(low, high)
        level *= _SHARE


def _starts(answers: _Answers) -> list[int]:
    """The answers at which a pair of intervals starts. Each depends only on the laws up to it."""
    starts, deviations = [0], answers.deviations
    for number, deviation in enumerate(deviations):
        if deviation * _FINER < deviations[starts[-1]]:
            starts.append(number)
    return starts


def _likely(answers: _Answers, log_level: float) -> _Ends:
    """Interval 2 for s the first of the answers, with ln β = ``log_level``."""
    later = answers.part(1)
    mode = later.mode()
    least = log_level + _log_evidence(answers) - _log_norm(answers)
    least -= _ROUNDING * (1 + np.abs(least))
    return _farthest(later, mode, least, -1), _farthest(later, mode, least, 1)


def _log_norm(answers: _Answers) -> float:
    """At least ln Z of the first answer, Z = Σ_t p(y − c t).

    Z is 1 for c = 1. Otherwise it is at most 1, and at most p(0) + 1/c: p falls from 0 on both
    sides, so each term but the largest is at most the mean of p at the c integers next to it.
    """
    law, content = answers.laws[0], float(answers.contents[0])
    largest = math.exp(float(law.log_mass(np.zeros(1))[0]))
    return 0.0 if content == 1 else min(0.0, math.log(largest + 1 / content) + _ROUNDING)


def _log_evidence(answers: _Answers) -> FloatArray:
    """At most ln Σ_t ∏_i p_i(y_i − c_i t), over the integers t.

    The product rises up to its mode and falls from there. So between two points on one side of it,
    it is at least what it is at the farther one, which counts for all integers from there to the
    other. Steps between points are small beside what the product can change in, and grow outwards.
    """
    deviations = answers.deviations
    step = 1 / (16 * sum(1 / max(d, 0.1) for d in deviations))
    low, high = answers.around
    reach = float((high - low).max()) + _REACH * min(deviations) + 1
    count = math.ceil(math.log1p(_GROWTH * reach / step) / math.log1p(_GROWTH))
    grown = np.expm1(np.arange(1, count + 1) * math.log1p(_GROWTH)) / _GROWTH
    steps = np.unique(np.ceil(np.concatenate([[0.0], step * grown])))
    widths = np.log(np.diff(steps))
    mode = answers.mode()[:, None]
    right, left = answers.log_likelihood(mode + steps), answers.log_likelihood(mode - steps)
    terms = [left[:, :1], right[:, 1:] + widths, left[:, 1:] + widths]
    return _log_sum(np.concatenate(terms, axis=1))


def _log_sum(terms: FloatArray) -> FloatArray:
    largest = terms.max(axis=1)
    result: FloatArray = largest + np.log(np.exp(terms - largest[:, None]).sum(axis=1))
    return result


def _farthest(answers: _Answers, mode: FloatArray, least: FloatArray, sign: int) -> FloatArray:
    """The integer farthest from the mode, on one side of it, with log-likelihood ≥ ``least``."""

    def inside(far: FloatArray) -> BoolArray:
        found: BoolArray = answers.log_likelihood(mode + sign * far) >= least
        return found

    reach = np.ones_like(mode)
    for _ in range(_HALVINGS):
        within = inside(reach)
        if not within.any():
            break
        reach = np.where(within, 2 * reach, reach)
    return mode + sign * _last(inside, reach // 2, reach)


def _last(
    holds: Callable[[FloatArray], BoolArray], low: FloatArray, high: FloatArray
) -> FloatArray:
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
