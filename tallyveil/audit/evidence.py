"""How private can it be at most, by what was drawn: a confidence lower bound on ε.

A mechanism that is (ε, δ)-differentially private satisfies, for every event E and neighbours D, D',

    P[M(D) ∈ E] ≤ e^ε P[M(D') ∈ E] + δ.

So an event whose chances are known to lie above p under D and below q under D' shows that
ε ≥ ln((p − δ)/q). The chances are bounded from counts by Clopper and Pearson (1934), exactly, and
the event is chosen on draws that the bound does not use, so choosing it costs no confidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.stats import beta

from tallyveil.errors import InvalidParameterValue

__all__ = ["Evidence", "IntArray", "lower_bound"]

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

# Events looked at while choosing: more would only be slower.
_MOST_EVENTS: Final = 2000


@dataclass(frozen=True)
class Evidence:
    """``epsilon`` is a lower bound on the privacy loss at ``delta`` that is wrong with a chance
    of at most the false alarm rate asked for; ``event`` is what the adversary would look for.
    """

    epsilon: float
    delta: float
    event: str
    draws: int


@dataclass(frozen=True)
class _Event:
    """The outputs on one side of ``edge``, or ``edge`` itself."""

    side: str  # "≤", "≥" or "="
    edge: int

    def count(self, sample: IntArray) -> int:
        if self.side == "=":
            return int(np.count_nonzero(sample == self.edge))
        inside = sample <= self.edge if self.side == "≤" else sample >= self.edge
        return int(np.count_nonzero(inside))

    def __str__(self) -> str:
        return f"output {self.side} {self.edge}"


def lower_bound(first: IntArray, second: IntArray, *, delta: float, false_alarm: float) -> Evidence:
    """From independent outputs on two neighbouring inputs, the same number of each.

    The first half of each sample chooses an event among {output ≤ t}, {output ≥ t}, {output = t}
    and which input it speaks for; the second half bounds its two chances, each with
    ``false_alarm``/2 to spare. The bound is 0 where the draws show no loss.

    Raises InvalidParameterValue for fewer than four draws of each, unequal numbers of them, or a
    ``delta`` or ``false_alarm`` outside [0, 1) and (0, 1).
    """
    if len(first) != len(second) or len(first) < 4:
        raise InvalidParameterValue("an audit compares equally many outputs, at least 4 of each")
    if not 0 <= delta < 1 or not 0 < false_alarm < 1:
        raise InvalidParameterValue("delta lies in [0, 1) and the false alarm rate in (0, 1)")
    half = len(first) // 2
    event, swapped = _choose(first[:half], second[:half], delta, false_alarm)
    likely, seldom = (second[half:], first[half:]) if swapped else (first[half:], second[half:])
    low = _below(np.array([event.count(likely)]), len(likely), false_alarm / 2)[0]
    high = _above(np.array([event.count(seldom)]), len(seldom), false_alarm / 2)[0]
    epsilon = math.log((low - delta) / high) if low - delta > high else 0.0
    return Evidence(epsilon, delta, str(event), len(first))


def _choose(
    first: IntArray, second: IntArray, delta: float, false_alarm: float
) -> tuple[_Event, bool]:
    """The event that would prove most on these draws, and whether it is likelier in ``second``."""
    seen = np.unique(np.concatenate([first, second]))
    edges = seen[:: max(1, len(seen) // _MOST_EVENTS)]
    best, chosen = -math.inf, (_Event("=", int(edges[0])), False)
    for side in ("≤", "≥", "="):
        counts = [_counts(side, edges, np.sort(sample)) for sample in (first, second)]
        for swapped in (False, True):
            likely, seldom = counts[::-1] if swapped else counts
            low = _below(likely, len(first), false_alarm) - delta
            ratios = np.maximum(low, 0.0) / _above(seldom, len(first), false_alarm)
            at = int(np.argmax(ratios))
            if ratios[at] > best:
                best, chosen = float(ratios[at]), (_Event(side, int(edges[at])), swapped)
    return chosen


def _counts(side: str, edges: IntArray, ordered: IntArray) -> IntArray:
    up_to = np.searchsorted(ordered, edges, side="right")
    before = np.searchsorted(ordered, edges, side="left")
    if side == "≤":
        return up_to.astype(np.int64)
    return (len(ordered) - before if side == "≥" else up_to - before).astype(np.int64)


def _below(successes: IntArray, trials: int, error: float) -> FloatArray:
    """The Clopper–Pearson lower bound of a chance; 0 for no success."""
    bound = beta.ppf(error, successes, trials - successes + 1)
    return np.where(successes > 0, bound, 0.0)


def _above(successes: IntArray, trials: int, error: float) -> FloatArray:
    """The Clopper–Pearson upper bound of a chance; 1 for nothing but successes."""
    bound = beta.isf(error, successes + 1, trials - successes)
    return np.where(successes < trials, bound, 1.0)
