"""k-ary randomised response: a value is kept, or replaced by any other (METRIC Ex. 6).

Of k = m + 1 values, each other one appears with probability p and the value itself with 1 − pm,
where p ≥ 1/(m + e^ε). For any two values d, d′ and any output y then P(y|d) ≤ e^ε P(y|d′), which is
ε-DP of the value under replacement; METRIC eq. 12 is the only inequality to check. The law is
exact: p = P/2⁶⁴ with a whole P, rounded up, so a draw takes 64 bits from the system's random source
and two integer comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np

from tallyveil.arrays import IntArray
from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.noise.exact_draws import RandomWords, random_words
from tallyveil.mechanisms.records.one_record import ByDraws, Response
from tallyveil.mechanisms.units import exp_below, positive

__all__ = ["DRAWS", "RandomisedResponse", "odds_below"]

DRAWS: Final = 2**64
# e^45 > 2^64: from here on P is 1.
_LARGEST = 45


class RandomisedResponse(ByDraws):
    """Perturbs codes 0 … cells − 1, each independently.

    ``change`` is P: how many of 2⁶⁴ draws lead to each other value. The constructor verifies the
    bound in rational arithmetic.

    Raises InvalidParameterValue for an ε that is not positive and finite, or so small that the
    probabilities would be equal in 64 bits.
    """

    name = "randomised response"
    errors = "share of records changed"
    diameter = 1
    audited = ((2,), (3,), (6,))
    draws = DRAWS

    def __init__(self, cells: int, epsilon: Fraction) -> None:
        if not cells >= 1:
            raise ValueError("a value needs a domain")
        self.cells = cells
        self.epsilon = positive(epsilon, "epsilon")
        others = cells - 1
        odds = odds_below(self.epsilon)
        self.change = -(-DRAWS * odds.denominator // (others * odds.denominator + odds.numerator))
        self.kept = DRAWS - others * self.change
        if not self.change < self.kept <= odds * self.change and others:
            raise InvalidParameterValue(
                f"epsilon {float(epsilon):g} is too small for one of {cells:,} values"
            )

    @classmethod
    def of(cls, shape: Sequence[int], epsilon: Fraction) -> RandomisedResponse:
        return cls(math.prod(shape), epsilon)

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"change": str(self.change)}

    def responses(self) -> Sequence[Response]:
        return [Response(None, self.kept / DRAWS, self.change / DRAWS)]

    @property
    def expected_error(self) -> float:
        """The probability that a value changes, mp: E of METRIC eq. 13 in the discrete metric."""
        return (self.cells - 1) * self.change / DRAWS

    def perturb(self, codes: IntArray) -> IntArray:
        return self.outcome(codes, random_words(len(codes)))

    def outcome(self, codes: IntArray, draws: RandomWords) -> IntArray:
        """Return the output for each code and its draw, which is uniform on 0 … 2⁶⁴ − 1.

        Draws below mP lead to the m other values, P to each.
        """
        others = self.cells - 1
        if others == 0:
            return codes.copy()
        other = np.minimum(draws // np.uint64(self.change), np.uint64(others - 1)).astype(np.int64)
        other += other >= codes
        return np.where(draws < np.uint64(others * self.change), other, codes)


def odds_below(epsilon: Fraction) -> Fraction:
    """Return a rational number just below e^min(ε, 45) (`exp_below`)."""
    return exp_below(min(epsilon, Fraction(_LARGEST)))
