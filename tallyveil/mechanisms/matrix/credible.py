"""The posterior of the truth, given one output."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.matrix.count_matrix import CountMatrix
from tallyveil.mechanisms.units import below_one

__all__ = ["Posterior", "posterior"]


@dataclass(frozen=True)
class Posterior:
    """P(truth = j | output) = likelihood[j] / Σ likelihood, for a flat prior on 0..n; exact."""

    likelihood: tuple[int, ...]

    def probability(self, low: int, high: int) -> Fraction:
        """Return P(low ≤ truth ≤ high | output)."""
        inside = self.likelihood[max(low, 0) : max(high + 1, 0)]
        return Fraction(sum(inside), sum(self.likelihood))

    def squared_error(self, value: int) -> Fraction:
        """Return E((truth − value)² | output)."""
        weighted = sum((j - value) ** 2 * weight for j, weight in enumerate(self.likelihood))
        return Fraction(weighted, sum(self.likelihood))

    def interval(self, confidence: Fraction | float | str) -> tuple[int, int]:
        """Return the narrowest (low, high) with P(low ≤ truth ≤ high | output) ≥ confidence.

        Of several equally narrow ones it is the likeliest, and of those the lowest. It is computed
        exactly.

        Raises InvalidParameterValue unless 0 < confidence < 1.
        """
        level = below_one(confidence, "confidence")
        sums = [0]
        for weight in self.likelihood:
            sums.append(sums[-1] + weight)
        enough = level * sums[-1]
        low = 0
        best = (len(self.likelihood), 0, 0)
        for high in range(len(self.likelihood)):
            while sums[high + 1] - sums[low + 1] >= enough:
                low += 1
            mass = sums[high + 1] - sums[low]
            if mass >= enough:
                best = min(best, (high - low, -mass, low))
        return best[2], best[2] + best[0]


def posterior(matrix: CountMatrix, output: int) -> Posterior:
    """Return the posterior of the truth, given ``output``.

    Raises InvalidParameterValue for an output that the mechanism never gives.
    """
    row = (
        tuple(column[output] for column in matrix.weights)
        if isinstance(output, int) and 0 <= output <= matrix.n
        else ()
    )
    if not any(row):
        raise InvalidParameterValue(f"{matrix!r} never answers {output}")
    return Posterior(row)
