"""How far a row's answer is off, and how likely a claim about its true value is.

Both follow from what was released, for a flat prior on the integers (BAYES §4): the value is the
truth plus an error of known law, symmetric about 0, so that the truth is the value less such an
error. Everything is in units of the row's lattice, on which the truth is an integer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Final

from tallyveil.inference import Bounds, NoiseLaw, between
from tallyveil.knowledge.estimated import Estimated
from tallyveil.knowledge.known import InRange, Known, Noisy

__all__ = ["deviation", "probability"]

# An estimate is a float, and may lie half-way between two integers but for rounding.
_ROUNDING: Final = 1e-6


def deviation(group: Sequence[Known]) -> float:
    """σ of the error of the sum of some rows: √(Σ_i Var K_i) of independent noises K_i, and
    √(Σ_k A_k² Var N_k) of estimates, in which noises that they share count once.

    The rows' own answers may have a part in the estimates, so that the two are added. For an answer
    c by a mechanism with a public range, √E(θ − c)² under the posterior of the truth θ, for a flat
    prior on 0..n: such an error has a bias, which is part of it.
    """
    ranged, own, estimate = _parts(group)
    if ranged is not None:
        return ranged.mechanism.deviation(ranged.scale, ranged.value)
    spread = 0.0 if estimate is None else math.sqrt(estimate.variance)
    return math.sqrt(math.fsum(_variance(row.law) for row in own)) + spread


def probability(group: Sequence[Known], low: int | None, high: int | None) -> float:
    """A lower bound of P(low ≤ θ ≤ high), θ the true sum of some rows; None for no bound.

    For rows with noise of their own it is Σ_{k=low}^{high} P(K = value − k), K the sum of the
    noises, and for one by a mechanism with a public range the posterior mass; both within 10⁻⁹.

    The error of an estimate θ̂ may be of any real size. The estimate less it is rounded to the
    nearest integer, as the value itself is, and what is half-way counts half for each:
    P(low − ½ ≤ θ̂ − X ≤ high + ½). So the claims θ = k are disjoint, and add up to 1.
    """
    if low is not None and high is not None and low > high:
        return 0.0
    ranged, own, estimate = _parts(group)
    if ranged is not None:
        return _rounded_down(ranged.mechanism.probability(ranged.scale, ranged.value, low, high))
    value = sum(row.value for row in own)
    least = -math.inf if high is None else value - high
    most = math.inf if low is None else value - low
    noises = [row.law for row in own if row.law.scale]
    if estimate is None:
        return between(noises, least, most).lower
    end, start = _shifted(most, estimate.value + 0.5), _shifted(least, estimate.value - 0.5)
    if not noises:
        return max(0.0, _cdf(estimate, end).lower - _cdf(estimate, start).upper)
    return max(0.0, 1 - _beyond(noises, estimate, end) - _beyond(noises, estimate, -start))


def _parts(group: Sequence[Known]) -> tuple[InRange | None, list[Noisy], Estimated | None]:
    """The answer of a mechanism with a public range; else the rows' own answers, and the sum of
    the estimates."""
    ranged = [row for row in group if isinstance(row, InRange)]
    if ranged and len(group) > 1:
        raise TypeError("answers of mechanisms with a public range do not add up")
    own = [row for row in group if isinstance(row, Noisy)]
    estimates = [row for row in group if isinstance(row, Estimated)]
    total = Estimated.total(estimates) if len(estimates) > 1 else next(iter(estimates), None)
    return next(iter(ranged), None), own, total


@lru_cache(maxsize=4096)
def _variance(law: NoiseLaw) -> float:
    return law.variance


def _shifted(x: float, by: float) -> float:
    """x + by, where x may be an integer of any size."""
    try:
        return float(x) + by
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def _cdf(estimate: Estimated, x: float) -> Bounds:
    """Bounds of ½ P(X < x) + ½ P(X ≤ x)."""
    error = estimate.error
    at = error.outer_cdf if estimate.weights.rough else error.cdf
    before, behind = at(x - _ROUNDING), at(x + _ROUNDING)
    return Bounds((before.lower + behind.lower) / 2, (before.upper + behind.upper) / 2)


def _beyond(noises: Sequence[NoiseLaw], estimate: Estimated, x: float) -> float:
    """At least P(Σ K_i + X > x), however the two depend on each other: one of them is beyond its
    share of x.
    """
    if not math.isfinite(x):
        return float(x < 0)
    own = math.sqrt(math.fsum(map(_variance, noises)))
    both = own + math.sqrt(estimate.variance)
    share = math.floor(x * own / both if both else x)
    return 1 - between(noises, -math.inf, share).lower + 1 - _cdf(estimate, x - share).lower


def _rounded_down(exact: Fraction) -> float:
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, 0.0)
