"""One factor for the noise of rows that are bought together.

Each row's scale meets its target together with history (`Found.scale`), as if the row were bought
alone. Beside the others it is more precise than that. So all scales are multiplied by one factor,
the largest for which the estimates after the purchase meet their targets; it is at least 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil import deadline
from tallyveil.arrays import IntArray
from tallyveil.inference import NoiseLaw, Noises
from tallyveil.knowledge.answers.estimate import Estimate, NoiseWeights
from tallyveil.knowledge.estimates import Estimates
from tallyveil.knowledge.estimator import is_large
from tallyveil.knowledge.found import MARGIN, Found
from tallyveil.knowledge.state import State
from tallyveil.knowledge.update import NewAnswers, Update, all_apart

__all__ = ["widened"]

_WORK: Final = 20_000  # entries of a system that is solved again for each factor
_TRIES: Final = 10  # solutions in the search for the factor, and two beside it
_FEWER: Final = 3  # tries for more rows
_MANY: Final = 256  # rows
_NEAR: Final = 1.01  # the ratio of two factors at which the search ends
_FULL: Final = 0.999  # the share of a target at which the search ends
_PARTS: Final = 4096  # of 1: factors in these are the same on every processor
_MOST: Final = 4.0  # between one factor and the next
_LAWS: Final = 3  # laws whose intervals are computed in the search
_STEPS: Final = 2.5  # of a row's lattice: narrower intervals are hardly improved by others
_LEAST: Final = 1e-9  # a share whose logarithm is finite
_NUMBER: Final = 1 << 60  # of noises that are not drawn yet


def widened(
    state: State,
    found: Found,
    columns: Sequence[int],
    rows: Sequence[IntArray],
    laws: Sequence[NoiseLaw | None],
) -> tuple[float, ...]:
    """The factor for the noise of each of the ``columns``, whose ``rows`` are to be bought with
    noise of these ``laws``, at which each meets its target by itself."""
    factors = [1.0] * len(columns)
    if sum(map(len, rows)) < 2 or is_large(found.columns):
        return tuple(factors)
    for joint in found.estimates:
        places = [n for n, number in enumerate(columns) if number in joint.columns]
        one = _Bought.of(state, found, joint, places, columns, rows, laws)
        if one is not None:
            factor = one.factor()
            for place in places:
                factors[place] = factor
    return tuple(factors)


@dataclass(frozen=True, eq=False)
class _Bought:
    """Rows of joint estimates that are to be bought: by their columns ``mine`` the ``rows``,
    ``laws`` and half-widths to reach."""

    update: Update
    mine: Sequence[int]
    rows: Sequence[IntArray]
    laws: Sequence[NoiseLaw]
    targets: Sequence[float]
    confidence: Fraction

    @classmethod
    def of(
        cls,
        state: State,
        found: Found,
        joint: Estimates,
        places: Sequence[int],
        columns: Sequence[int],
        rows: Sequence[IntArray],
        laws: Sequence[NoiseLaw | None],
    ) -> _Bought | None:
        """None if the rows do not improve each other, or if finding out takes too much work."""
        own = [law for place in places if (law := laws[place]) is not None and law.scale]
        some = [rows[place] for place in places]
        halves = [found.aims[columns[place]].half_width for place in places]
        targets = [float(half) * MARGIN for half in halves if half is not None]
        every = [found.columns[number] for number in joint.columns]
        asked = sum(number < found.asked for number in joint.columns)
        if not places or len(own) < len(places) or not min(targets, default=0) >= _STEPS:
            return None
        if joint.undetermined and all_apart(every[:asked], some):
            return None
        mine = [joint.columns.index(columns[place]) for place in places]
        number = sum(map(len, some))
        answers = NewAnswers(
            (), np.zeros(number), _noises(own, some), _NUMBER + np.arange(number, dtype=np.int64)
        )
        update = Update.of(state, joint, every[:asked], every[asked:], answers, mine, some, _WORK)
        if update is None or update.system.history.nnz + update.system.question.nnz > _WORK:
            return None
        confidence = found.aims[columns[places[0]]].confidence
        return cls(update, mine, some, own, targets, confidence)

    def factor(self) -> float:
        """The largest factor with which all targets are met, or one near it."""
        low, high, share = 1.0, math.inf, self._share(1.0, _LAWS)
        points = [(0.0, math.log(share))]
        many = self.update.system.question.shape[0] > _MANY
        for _ in range(_FEWER if many else _TRIES):
            if share >= _FULL or high <= low * _NEAR:
                break
            factor = round(self._next(points, low, high) * _PARTS) / _PARTS
            now = self._share(factor, _LAWS)
            points.append((math.log(factor), math.log(now)))
            if now <= 1:
                low, share = factor, now
            else:
                high = factor
        return 1.0 if low > 1 and self._share(low) > 1 else low

    def _next(self, points: Sequence[tuple[float, float]], low: float, high: float) -> float:
        """The next factor to try: by the last two shares, which grow less than the factors do."""
        slope = 1.0
        if len(points) > 1:
            (x, y), (u, v) = points[-2:]
            slope = (v - y) / (u - x) if u != x else 1.0
        at, reached = points[-1]
        steps = (math.log((1 + _FULL) / 2) - reached) / min(1.0, max(slope, 0.1))
        factor = math.exp(at + steps)
        if high < math.inf:
            inside = low * 1.001 < factor < high / 1.001
            return factor if inside else math.sqrt(low * high)
        return min(max(factor, low * _NEAR), low * _MOST)

    def _share(self, factor: float, most: int | None = None) -> float:
        """The greatest half-width after the purchase, as a share of its target; of ``most`` laws,
        those expected to have the greatest."""
        deadline.check()
        joint = self.update.with_noises(_noises(self.laws, self.rows, factor)).solved()
        widths: dict[tuple[int, int, int], tuple[Estimate | None, Estimate | None]] = {}
        for n, (of, rows) in enumerate(zip(self.mine, self.rows, strict=True)):
            now, known = (one.rows[of].row_estimates for one in (joint, self.update.joint))
            for row in rows.tolist():
                one, before = now[row], known[row]
                key = id(one and one.weights), id(before and before.weights), n
                widths[key] = one, before
        if most is not None:
            ordered = sorted(
                widths.items(), key=lambda kept: self._expected(kept[1][0], kept[0][2])
            )
            widths = dict(ordered[-most:])
        each = (
            self._width(factor, n, one, before) / self.targets[n]
            for (_, _, n), (one, before) in widths.items()
        )
        return max(_LEAST, *each)

    def _expected(self, one: Estimate | None, n: int) -> tuple[bool, float]:
        """In the order of these the widths to expect ascend: bounds and rows without an estimate
        are the widest."""
        if one is None:
            return True, math.inf
        return one.weights.rough, math.sqrt(one.variance) / self.targets[n]

    def _width(self, factor: float, n: int, one: Estimate | None, before: Estimate | None) -> float:
        """The half-width of a row of ``mine[n]`` after the purchase: of its estimate, its own
        answer or, if these are too wide, the mixture of its answer with the estimate before."""
        confidence, law = self.confidence, type(self.laws[n])(self.laws[n].scale * factor)
        width = law.half_width(confidence) * MARGIN
        if one is not None:
            width = min(width, one.half_width(confidence))
        if width > self.targets[n] and before is not None:
            own = Estimate(
                0.0, np.array([_NUMBER]), NoiseWeights(np.ones(1), Noises.of(type(law), law.scale))
            )
            width = min(width, before.mixed(own).half_width(confidence))
        return width


def _noises(laws: Sequence[NoiseLaw], rows: Sequence[IntArray], factor: float = 1.0) -> Noises:
    """Noise of each law for as many rows, ``factor`` times as wide."""
    return Noises.concatenated(
        [
            Noises.of(type(law), np.full(len(own), law.scale * factor))
            for law, own in zip(laws, rows, strict=True)
        ]
    )
