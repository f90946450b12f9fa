"""A mechanism for one count with a public range: a column-stochastic matrix of exact integers, and
drawing many outputs from it at once, exactly and without floats.

Outputs are drawn by inversion, as in `noise.exact_draws`: the output for a truth is the first i
with U < C_i, where U is uniform on [0, 1) and C_i the probability of the outputs 0 … i. 64 bits of
U decide that except about once in 2⁵⁰ draws; then more bits are drawn. The bounds for all truths
are computed once (`CountMatrix.bounds`), and searched in the same number of steps for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import accumulate, pairwise

import numpy as np

from tallyveil.arrays import FloatArray
from tallyveil.cache import cached_property
from tallyveil.errors import UnprovenPrivacy
from tallyveil.mechanisms.matrix.privacy_level import checked_alpha, checked_range, epsilon_for
from tallyveil.mechanisms.noise.exact_draws import (
    QuantileBounds,
    RandomWords,
    decided,
    random_words,
)

__all__ = ["CountMatrix", "draw", "prove_pure"]


@dataclass(frozen=True)
class CountMatrix:
    """P[i|j], output i for truth j, both from 0 to n (COUNT Def. 1), proved α-DP.

    ``weights[j][i]`` are integers, and P[i|j] = weights[j][i] / total is exactly the law that is
    drawn from. Every column adds up to the same ``total``.

    Neighbours are truths that differ by one, and α ≤ P[i|j] / P[i|j+1] ≤ 1/α (COUNT Def. 2): a
    step of one costs at most ``epsilon`` ≥ −ln α. By chaining, truths that differ by s cost at
    most s times that; under add/remove that is s for a record that adds s to this count.

    The constructor checks every pair of neighbours in integers. It raises UnprovenPrivacy if a pair
    fails or the weights are not a square matrix of probabilities, and InvalidParameterValue for α
    outside (0, 1) and n outside 1..`MAX_RANGE`.
    """

    name: str
    alpha: Fraction
    weights: tuple[tuple[int, ...], ...]

    def __init__(
        self, name: str, alpha: Fraction | float | str, weights: Sequence[Sequence[int]]
    ) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "alpha", checked_alpha(alpha))
        object.__setattr__(self, "weights", tuple(tuple(column) for column in weights))
        prove_pure(self.weights, self.alpha)
        checked_range(self.n)
        if len(self.weights[0]) != len(self.weights):
            raise UnprovenPrivacy(
                f"{len(self.weights)} truths have {len(self.weights[0])} outputs; expected as many"
            )

    def __repr__(self) -> str:
        return f"CountMatrix({self.name}, 0..{self.n}, alpha {float(self.alpha):.6g})"

    @property
    def n(self) -> int:
        """The largest possible count."""
        return len(self.weights) - 1

    @cached_property
    def total(self) -> int:
        return sum(self.weights[0])

    @cached_property
    def epsilon(self) -> Fraction:
        """An upper bound of −ln α, the cost of a step of one in the truth."""
        return epsilon_for(self.alpha)

    @cached_property
    def bounds(self) -> tuple[RandomWords, RandomWords]:
        """Two arrays by truth and i < n, with C_i the probability of the outputs 0 … i: the
        largest integers that are at most 2⁶⁴ C_i, and those that are less than it. Rows are padded
        to a power of two with the bounds for C_i = 1.
        """
        size = 1 << self.n.bit_length()
        low = np.full((self.n + 1, size), 2**64 - 1, dtype=np.uint64)
        high = low.copy()
        known: dict[int, tuple[int, int]] = {}  # in many matrices, truths share their sums
        for truth, column in enumerate(self.weights):
            sums = [*accumulate(column[:-1])]
            for one in sums:
                if one not in known:
                    at_most, less = self.bounded(one, 64)
                    known[one] = min(at_most, 2**64 - 1), min(max(less, 0), 2**64 - 1)
            found = np.array([known[one] for one in sums], dtype=np.uint64)
            low[truth, : self.n], high[truth, : self.n] = found.T
        return low, high

    def bounded(self, weight: int, bits: int) -> tuple[int, int]:
        """Return the largest integers ≤ and < 2^bits · weight / total."""
        whole, rest = divmod(weight << bits, self.total)
        return whole, whole if rest else whole - 1

    def probability(self, output: int, truth: int) -> Fraction:
        """Return P[output | truth], exactly."""
        return Fraction(self.weights[truth][output], self.total)

    def probabilities(self) -> FloatArray:
        """Return the (n+1)×(n+1) array P[i, j] in floats, each entry correctly rounded."""
        columns = [[weight / self.total for weight in column] for column in self.weights]
        return np.array(columns, dtype=np.float64).T


ColumnWeights = Sequence[Sequence[int]]


def draw(matrix: CountMatrix, truths: Sequence[int]) -> tuple[int, ...]:
    """Draw an output for each truth, with exactly the probability P[output | truth].

    A truth outside 0..n is first moved to the nearer end. That moves no two truths further apart,
    so a step of one still costs at most ``matrix.epsilon``.
    """
    inside = np.array([min(max(truth, 0), matrix.n) for truth in truths], dtype=np.int64)
    low, high = matrix.bounds
    words = random_words(len(inside))
    found = np.zeros(len(inside), dtype=np.int64)
    step = high.shape[1]
    while step := step // 2:
        found += step * (high[inside, found + (step - 1)] < words)
    for at in np.flatnonzero(low[inside, found] <= words):
        found[at] = decided(int(words[at]), partial(_bounds, matrix, int(inside[at])))
    return tuple(found.tolist())


def _bounds(matrix: CountMatrix, truth: int, bits: int) -> QuantileBounds:
    """Return bounds of the probabilities of the outputs 0 … i, as `decided` needs them."""
    pairs = [matrix.bounded(one, bits) for one in accumulate(matrix.weights[truth])]
    return [low for low, _ in pairs], [high for _, high in pairs]


def prove_pure(weights: ColumnWeights, alpha: Fraction | float | str) -> None:
    """Check α · w[j][i] ≤ w[j+1][i] and α · w[j+1][i] ≤ w[j][i] for all i, j (COUNT Def. 2).

    Single outputs suffice: there are finitely many, and sums over them keep the ratio.

    Raises UnprovenPrivacy if an output of two truths fails, which the message names, or if the
    weights are not integers ≥ 0 in columns of one length and one positive total.
    """
    level = checked_alpha(alpha)
    p, q = level.numerator, level.denominator
    columns = [*map(tuple, weights)]  # held, so that different integers have different ids
    _columns_of_one_total(columns)
    proved: set[tuple[int, int]] = set()  # by id, since pairs of integers recur
    for j, (here, there) in enumerate(pairwise(columns)):
        new = set(zip(map(id, here), map(id, there), strict=True)) - proved
        for i, (a, b) in enumerate(zip(here, there, strict=True) if new else ()):
            if (id(a), id(b)) in new and not (p * a <= q * b and p * b <= q * a):
                raise UnprovenPrivacy(
                    f"output {i} distinguishes truth {j} from {j + 1} by more than alpha {level}"
                    " allows"
                )
        proved |= new


def _columns_of_one_total(weights: ColumnWeights) -> int:
    """Return the common total of all columns. Raises UnprovenPrivacy as `prove_pure`."""
    if len(weights) < 2:
        raise UnprovenPrivacy("a mechanism needs at least two truths")
    outputs, total = len(weights[0]), sum(weights[0])
    for j, column in enumerate(weights):
        if len(column) != outputs:
            raise UnprovenPrivacy(f"truth {j} has {len(column)} outputs, not {outputs}")
        if {*map(type, column)} - {int} or min(column, default=0) < 0:
            raise UnprovenPrivacy(f"a weight of truth {j} is not an integer of at least zero")
        if sum(column) != total:
            raise UnprovenPrivacy(f"the weights of truths 0 and {j} have different totals")
    if not total > 0:
        raise UnprovenPrivacy("at least one weight must be above zero")
    return total
