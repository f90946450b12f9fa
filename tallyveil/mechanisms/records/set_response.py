"""A set, perturbed as one value: near itself in the symmetric difference (METRIC Ex. 1).

A set over h elements has h columns, one for each element. With k_i values in a column (true and
false, and possibly NULL) the domain D = D_1 × … × D_h has N = ∏ k_i values, and the distance
|A Δ B| of two values is the number of elements in which they differ. Every value within distance t
of the true one is drawn with probability K/T, every other one with P/T, where P ≤ K ≤ e^ε P are
whole numbers and T = VK + (N − V)P, V being the number of values within t.

**It is ε-DP under replacement**: any output has a probability of P/T or K/T for every value, so
P(B|A) ≤ (K/P) P(B|A′) ≤ e^ε P(B|A′) for all A, A′ and B. With finitely many outputs nothing else
needs to be checked (METRIC Thm 3). With t = 0 it is the randomised response of METRIC Ex. 6 on D.

**No ε-DP mechanism from D to D has a smaller E = max_A E|X_A Δ A|** (METRIC eq. 13), up to the
rounding of K, if t is the best one. Let Z = Z_{k_1} × … × Z_{k_h} shift each column cyclically:
shifts keep distances, and map any value to any other. Averaging a mechanism over all shifts,
Σ_z P(B + z|A + z)/N, keeps it ε-DP, and its error at every A becomes the mean of the errors over D,
so at most E. The result has the form P(B|A) = w(B − A), and ε-DP means w(z) ≤ e^ε w(z′) for all z,
z′. For a given least w, the mean of d(z) under w is least if w is e^ε times this wherever d(z) lies
below that mean and the least elsewhere, which is a ball.

Flipping each element independently at ε/h, P(B|A) ∝ e^{−ε|A Δ B|/h}, is ε-DP, too, and
distinguishes two sets at distance d by no more than dε/h; but its error is larger.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tallyveil.arrays import IntArray
from tallyveil.cache import cached_property
from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.noise.exact_draws import LARGEST_BOUND, RandomWords, uniform_below
from tallyveil.mechanisms.records.one_record import ByDraws, Response
from tallyveil.mechanisms.records.record_response import odds_below
from tallyveil.mechanisms.units import positive

__all__ = ["SetResponse"]


class SetResponse(ByDraws):
    """Perturbs codes 0 … N − 1, the C-order index into ``shape`` = (k_1, …, k_h).

    ``radius`` is t. Of ``draws`` = T draws, ``kept`` = K lead to each value within it, and
    ``change`` = P to each other one. The constructor verifies the bound in rational arithmetic.

    Raises InvalidParameterValue for an ε that is not positive and finite, or so small that the
    probabilities would be equal in 64 bits.
    """

    name = "set response"
    errors = "elements changed"
    audited = ((2,), (3, 2, 2), (3, 3), (2, 2, 2))  # 3 cells for an element with NULL

    def __init__(self, shape: Sequence[int], epsilon: Fraction) -> None:
        if not shape or not all(size >= 2 for size in shape):
            raise ValueError("a set needs at least one element, and two values for each")
        self.shape = tuple(shape)
        self.cells, self.diameter = math.prod(shape), len(shape)
        self.epsilon = positive(epsilon, "epsilon")
        odds = odds_below(self.epsilon)
        self._at = _at_distances(self.shape)
        self.radius = min(range(len(shape)), key=lambda t: _mean_distance(self._at, t, odds))
        self.near = sum(self._at[: self.radius + 1])
        far = self.cells - self.near
        self.change = max(1, math.floor(LARGEST_BOUND / (far + self.near * odds)))
        most = (LARGEST_BOUND - far * self.change) // self.near
        self.kept = min(math.floor(self.change * odds), most)
        self.draws = self.near * self.kept + far * self.change
        if not self.change < self.kept <= odds * self.change:
            raise InvalidParameterValue(
                f"epsilon {float(epsilon):g} is too small for sets of {len(shape)} elements"
            )

    @classmethod
    def of(cls, shape: Sequence[int], epsilon: Fraction) -> SetResponse:
        return cls(shape, epsilon)

    @property
    def parameters(self) -> Mapping[str, Any]:
        whole = {"kept": self.kept, "change": self.change, "draws": self.draws}
        return {"radius": self.radius, **{name: str(number) for name, number in whole.items()}}

    def responses(self) -> Sequence[Response]:
        marginals = (self.marginal(axis) for axis in range(len(self.shape)))
        return [Response(axis, *map(float, each)) for axis, each in enumerate(marginals)]

    @property
    def expected_error(self) -> float:
        """E|X_A Δ A| in elements, the same for every set A."""
        return float(_mean_distance(self._at, self.radius, Fraction(self.kept, self.change)))

    def marginal(self, column: int) -> tuple[Fraction, Fraction]:
        """Return the probabilities that a column keeps its value, and of each other value.

        Of the N/k_i values that agree with A in column i, V_i lie within t. So the column is kept
        with probability (V_i K + (N/k_i − V_i) P)/T. By symmetry, all others are equally likely.
        """
        others = self.shape[:column] + self.shape[column + 1 :]
        near = sum(_at_distances(others)[: self.radius + 1])
        agreeing = self.cells // self.shape[column]
        kept = Fraction(near * self.kept + (agreeing - near) * self.change, self.draws)
        return kept, (1 - kept) / (self.shape[column] - 1)

    def perturb(self, codes: IntArray) -> IntArray:
        """As declared. The draws do not depend on the codes."""
        bounds = np.full(len(codes), self.draws, dtype=np.uint64)
        return self.outcome(codes, uniform_below(bounds))

    def outcome(self, codes: IntArray, draws: RandomWords) -> IntArray:
        """Return the output for each code and its draw, which is uniform on 0 … T − 1.

        The first VK draws lead to the shifts within t, K to each; the others lead to the remaining
        shifts, P to each.
        """
        kept, change = np.uint64(self.kept), np.uint64(self.change)
        inside = np.uint64(self.near * self.kept)
        beyond = np.where(draws < inside, np.uint64(0), draws - inside) // change
        place = np.where(draws < inside, draws // kept, np.uint64(self.near) + beyond)
        return self._shifted(codes, self._by_distance[place.astype(np.int64)])

    def _shifted(self, codes: IntArray, shifts: IntArray) -> IntArray:
        columns = zip(
            np.unravel_index(codes, self.shape),
            np.unravel_index(shifts, self.shape),
            self.shape,
            strict=True,
        )
        moved = tuple((own + shift) % size for own, shift, size in columns)
        return np.ravel_multi_index(moved, self.shape).astype(np.int64)

    @cached_property
    def _by_distance(self) -> IntArray:
        """All shifts, the smallest first; a column is shifted unless its digit is 0."""
        shifts = np.arange(self.cells, dtype=np.int64)
        moved = sum((digit != 0).astype(np.int64) for digit in np.unravel_index(shifts, self.shape))
        return np.argsort(moved, kind="stable").astype(np.int64)


def _at_distances(shape: Sequence[int]) -> list[int]:
    """Return how many values lie at distance 0, 1, …, h from any value: the coefficients of
    ∏ (1 + (k_i − 1) x)."""
    counts = [1]
    for size in shape:
        further = [0, *(count * (size - 1) for count in counts)]
        counts = [a + b for a, b in zip([*counts, 0], further, strict=True)]
    return counts


def _mean_distance(at: Sequence[int], radius: int, odds: Fraction) -> Fraction:
    """Return the mean of d if values within ``radius`` have weight ``odds``, and others 1."""
    weights = [count * (odds if d <= radius else 1) for d, count in enumerate(at)]
    return sum(d * weight for d, weight in enumerate(weights)) / Fraction(sum(weights))
