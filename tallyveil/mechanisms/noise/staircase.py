"""Staircase noise on the integers (Geng and Viswanath 2016, "The optimal mechanism in
differential privacy", discrete case).

With b = e^{−ε}, sensitivity Δ and a step 1 ≤ r ≤ Δ,

    P(K = k) = a · b^{level(|k|)},  level(m) = ⌊m/Δ⌋ + [m mod Δ ≥ r],
    a = (1−b) / (2r + 2b(Δ−r) − (1−b)).

The level does not fall as |k| rises and grows by one over any Δ steps, so a shift by at most Δ
changes a probability by a factor of at most e^ε: ε-DP for a query that one unit moves by up to Δ,
and ⌈s/Δ⌉ ε for a move by s. At Δ = 1 it is discrete Laplace noise. The larger Δ and ε, the smaller
it is compared with Laplace noise of scale Δ/ε.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

from tallyveil.errors import InvalidParameterValue
from tallyveil.inference.canonical import first_least
from tallyveil.mechanisms.noise.calibrate import rate
from tallyveil.mechanisms.noise.exact_draws import random_words, uniform_below
from tallyveil.mechanisms.noise.laplace import geometric_numbers
from tallyveil.mechanisms.units import below_one, positive, rounded_up

__all__ = ["MAX_SENSITIVITY", "Staircase"]

MAX_SENSITIVITY = 1_000_000


@dataclass(frozen=True)
class Staircase:
    """Noise for an integer query of sensitivity Δ = ``sensitivity`` at a cost of ``epsilon``.

    ``step`` is r; by default it minimises the mean of |K|. Every r is equally private.

    Raises InvalidParameterValue unless sensitivity and step are integers with
    1 ≤ step ≤ sensitivity ≤ `MAX_SENSITIVITY`, and ε is positive, finite and from 2⁻⁵² to 2³⁰.
    """

    sensitivity: int
    scale: float
    step: int

    def __init__(
        self, sensitivity: int, epsilon: Fraction | float | str, step: int | None = None
    ) -> None:
        if type(sensitivity) is not int or not 1 <= sensitivity <= MAX_SENSITIVITY:
            raise InvalidParameterValue(
                f"a sensitivity must be an integer from 1 to {MAX_SENSITIVITY}, not {sensitivity}"
            )
        object.__setattr__(self, "sensitivity", sensitivity)
        object.__setattr__(self, "scale", rounded_up(1 / positive(epsilon, "epsilon")))
        rate(self.scale, "epsilon")
        if step is None:
            step = _best_step(sensitivity, math.exp(-1 / self.scale))
        if type(step) is not int or not 1 <= step <= sensitivity:
            raise InvalidParameterValue(
                f"a step must be an integer from 1 to {sensitivity}, not {step}"
            )
        object.__setattr__(self, "step", step)

    @property
    def epsilon(self) -> Fraction:
        """The exact cost of a move by up to Δ, b = e^{−epsilon}; at most the ε given."""
        return rate(self.scale, "epsilon")

    def level(self, noise: int) -> int:
        """Return the level l with P(K = noise) = P(K = 0) e^{−l ε}."""
        stage, place = divmod(abs(noise), self.sensitivity)
        return stage + (place >= self.step)

    def probability(self, noise: int) -> float:
        """Return P(K = noise)."""
        b = math.exp(-1 / self.scale)
        weight = 2 * self.step + 2 * b * (self.sensitivity - self.step) - (1 - b)
        return -math.expm1(-1 / self.scale) / weight * b ** self.level(noise)

    @property
    def variance(self) -> float:
        """E K²."""
        return _variance(self.step, self.sensitivity, 1 / self.scale)

    def half_width(self, confidence: Fraction | float | str) -> int:
        """Return the least h with P(|K| ≤ h) ≥ confidence. 1 − confidence is decreased by 10⁻³⁰ of
        itself, so that rounding cannot make h too small.

        Raises InvalidParameterValue unless 0 < confidence < 1.
        """
        allowed = (1 - below_one(confidence, "confidence")) * (1 - Fraction(1, 10**30))
        low, high = -1, 1
        while self._beyond(high) > allowed:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._beyond(middle) > allowed else (low, middle)
        return high

    def draw(self, count: int) -> list[int]:
        """Draw independent noise, exactly of this law, from the system's cryptographic source."""
        found: list[int] = []
        while len(found) < count:
            found += self._accepted(2 * (count - len(found)) + 16)
        return found[:count]

    def _accepted(self, count: int) -> list[int]:
        """Make ``count`` draws and return the accepted ones.

        A size is kΔ + u. k has weights bᵏ; u is from 0 to Δ−1 and has weights 1 below r and b from
        r on, where b is the probability that a geometric number exceeds 0. −0 is rejected, so that
        zero does not count twice.
        """
        places = uniform_below(np.full(count, self.sensitivity, dtype=np.uint64)).astype(np.int64)
        likely = (places < self.step) | (geometric_numbers(self.scale, count) > 0)
        sizes = geometric_numbers(self.scale, count).astype(object) * self.sensitivity + places
        negative = (random_words(count) & np.uint64(1)).astype(np.bool_)
        kept = likely & ~(negative & (sizes == 0))
        found: list[int] = np.where(negative, -sizes, sizes)[kept].tolist()
        return found

    def _beyond(self, half: int) -> Fraction:
        """Return P(|K| > half), too large by at most about a part in 10⁴⁰."""
        stage, place = divmod(half + 1, self.sensitivity)
        with localcontext(prec=60):
            b = (-1 / Decimal(self.scale)).exp()
            ones, all_ones = max(0, self.step - place), Decimal(self.step)
            here = ones + b * (self.sensitivity - place - ones)
            all_here = all_ones + b * (self.sensitivity - self.step)
            tail = b**stage * (here * (1 - b) + b * all_here)
            beyond = 2 * tail / (2 * all_here - (1 - b))
            return Fraction(beyond) * (1 + Fraction(1, 10**40))


def _best_step(sensitivity: int, b: float) -> int:
    steps = np.arange(1, sensitivity + 1, dtype=float)
    return 1 + first_least(_mean_absolute(steps, sensitivity, b))


def _mean_absolute(r: Any, sensitivity: int, b: float) -> Any:
    """Return 2a Σ_k bᵏ Σ_u b^{[u ≥ r]} (kΔ + u), from the sums of bᵏ and k bᵏ."""
    weight = r + b * (sensitivity - r)
    places = (1 - b) * r * (r - 1) / 2 + b * sensitivity * (sensitivity - 1) / 2
    return 2 * (sensitivity * b * weight / (1 - b) + places) / (2 * weight - (1 - b))


def _variance(r: int, sensitivity: int, epsilon: float) -> float:
    """Return 2a Σ_k bᵏ Σ_u b^{[u ≥ r]} (kΔ + u)², from the sums of bᵏ, k bᵏ and k² bᵏ."""
    b, short = math.exp(-epsilon), -math.expm1(-epsilon)

    def weighted(below: int, whole: int) -> float:
        return below + b * (whole - below)

    def squares(m: int) -> int:
        return (m - 1) * m * (2 * m - 1) // 6

    weight = weighted(r, sensitivity)
    places = weighted(r * (r - 1) // 2, sensitivity * (sensitivity - 1) // 2)
    far = sensitivity**2 * b * (1 + b) / short**2 * weight + 2 * sensitivity * b / short * places
    return 2 * (far + weighted(squares(r), squares(sensitivity))) / (2 * weight - short)
