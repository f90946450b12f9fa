"""Tests on draws: whether they follow a given law with mean 0, and a confidence lower bound on ε.

A mechanism that is (ε, δ)-differentially private satisfies, for every event E and neighbours D, D',

    P[M(D) ∈ E] ≤ e^ε P[M(D') ∈ E] + δ.

So an event with a probability above p under D and below q under D' shows that ε ≥ ln((p − δ)/q).
The probabilities are bounded from counts, exactly, by Clopper and Pearson (1934). The event is
chosen on draws that the bound does not use, so choosing it costs no confidence.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from scipy.stats import beta, binom, chi2

from tallyveil.arrays import FloatArray, IntArray
from tallyveil.errors import InvalidParameterValue
from tallyveil.inference import NoiseLaw

__all__ = ["Chances", "chances_of", "drift", "lower_bound", "surprise"]


# The number of events to choose from, about; more would only be slower.
_MOST_EVENTS: Final = 2000

# The lowest k, and P(K = k) from there on; the rest of 1 is the probability of all other k.
Chances: TypeAlias = tuple[int, FloatArray]

# Pearson's statistic is near its limit law if every bin expects at least this many draws.
_LEAST_EXPECTED: Final = 50


class Evidence(NamedTuple):
    """``epsilon`` is a lower bound on the privacy loss at the given δ, which is wrong with a
    probability of at most the false-alarm rate; ``event`` is the event that shows it.
    """

    epsilon: float
    event: str


class _Event(NamedTuple):
    """The outputs on one ``side`` of ``edge``, "≤" or "≥", or with "=" the edge itself."""

    side: str
    edge: int

    def among(self, sample: IntArray) -> IntArray:
        return _counts(self.side, np.array([self.edge]), np.sort(sample))

    def __str__(self) -> str:
        return f"output {self.side} {self.edge}"


def lower_bound(first: IntArray, second: IntArray, *, delta: float, false_alarm: float) -> Evidence:
    """Return a lower bound on ε, from equally many independent outputs on two neighbouring inputs.

    The first half of each sample chooses an event among {output ≤ t}, {output ≥ t}, {output = t},
    and the input under which it is likelier. The second half bounds its two probabilities, each
    with an error rate of ``false_alarm``/2. The bound is 0 if the draws show no loss.

    Raises InvalidParameterValue for fewer than four draws of each, unequal numbers of them, or a
    ``delta`` or ``false_alarm`` outside [0, 1) and (0, 1).
    """
    if len(first) != len(second) or len(first) < 4:
        raise InvalidParameterValue("an audit needs equally many outputs, at least 4 of each")
    if not 0 <= delta < 1 or not 0 < false_alarm < 1:
        raise InvalidParameterValue("delta must be in [0, 1) and the false-alarm rate in (0, 1)")
    half = len(first) // 2
    event, swapped = _choose(first[:half], second[:half], delta, false_alarm)
    likely, seldom = (second[half:], first[half:]) if swapped else (first[half:], second[half:])
    low = _below(event.among(likely), len(likely), false_alarm / 2)[0]
    high = _above(event.among(seldom), len(seldom), false_alarm / 2)[0]
    epsilon = math.log((low - delta) / high) if low - delta > high else 0.0
    return Evidence(epsilon, str(event))


def _choose(
    first: IntArray, second: IntArray, delta: float, false_alarm: float
) -> tuple[_Event, bool]:
    """Return the event with the largest bound on these draws, and whether it is likelier in
    ``second``."""
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
    """Return the Clopper–Pearson lower bound of a probability; 0 without successes."""
    bound = beta.ppf(error, successes, trials - successes + 1)
    return np.where(successes > 0, bound, 0.0)


def _above(successes: IntArray, trials: int, error: float) -> FloatArray:
    """Return the Clopper–Pearson upper bound of a probability; 1 if all are successes."""
    bound = beta.isf(error, successes + 1, trials - successes)
    return np.where(successes < trials, bound, 1.0)


def chances_of(law: NoiseLaw, draws: int) -> Chances:
    """Return P(K = k) from the law, for all k within a range that ``draws`` draws leave about
    once."""
    reach = law.half_width(1 - 1 / draws)
    return -reach, np.exp(law.log_mass(np.arange(-reach, reach + 1.0)))


def surprise(drawn: IntArray, law: Chances) -> float:
    """Return the p-value of ``drawn`` under the claimed law.

    It combines two tests (Bonferroni): Pearson's χ², with adjacent integers in one bin until each
    bin expects 50 draws, and the exact binomial probability of at least as many draws outside the
    integers that the law lists.
    """
    lowest, chances = law
    listed = (drawn >= lowest) & (drawn < lowest + len(chances))
    inside = drawn[listed] - lowest
    # A smaller rest of 1 is within the rounding of the sum.
    beyond = max(1e-12, 1.0 - float(chances.sum()))
    far = float(binom.sf(len(drawn) - len(inside) - 1, len(drawn), beyond))
    edges = _bins(len(drawn) * chances)
    expected = len(drawn) * np.add.reduceat(chances, edges)
    seen = np.add.reduceat(np.bincount(inside, minlength=len(chances)), edges)
    if len(expected) == 1:
        return min(1.0, 2 * far)
    statistic = float(((seen - expected) ** 2 / expected).sum())
    return min(1.0, 2 * far, 2 * float(chi2.sf(statistic, len(expected) - 1)))


def drift(noise: IntArray, law: NoiseLaw) -> float:
    """Return an upper bound of the probability that independent noise of ``law`` has a mean at
    least as far from 0.

    Chernoff: P(|Σ K| ≥ s) ≤ 2 min_λ exp(m ln E e^{λK} − λs) for m draws, by symmetry. Any λ gives a
    valid bound; the best of several is taken.
    """
    total = abs(int(noise.sum()))
    widest = min(law.widest_rate, 10 / math.sqrt(law.variance) if law.variance > 0 else 1.0)
    rates = widest * np.logspace(-6, 0, 600, endpoint=False)
    least = float((len(noise) * law.log_moment(rates) - rates * total).min())
    return min(1.0, 2 * math.exp(min(0.0, least)))


def _bins(expected: FloatArray) -> IntArray:
    """Return where bins begin, such that each expects at least `_LEAST_EXPECTED` draws."""
    starts, filled = [0], 0.0
    for place, weight in enumerate(expected.tolist()):
        if filled >= _LEAST_EXPECTED:
            starts.append(place)
            filled = 0.0
        filled += weight
    if filled < _LEAST_EXPECTED and len(starts) > 1:
        starts.pop()
    return np.array(starts, dtype=np.int64)
