"""The two-sided geometric mechanism: P(K = k) = (1−α)/(1+α) · α^|k|, not clamped to a range.

Ghosh, Roughgarden and Sundararajan 2009, "Universally Utility-Maximizing Privacy Mechanisms",
Definition 2.1, in the notation of COUNT: α = e^{−ε} for a count. It is the discrete Laplace law
of scale b = 1/ln(1/α), for those who know it by α; scales in the ledger are b.
"""

from __future__ import annotations

import math
from fractions import Fraction

from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.laplace import DiscreteLaplace
from tallyveil.mechanisms.units import positive

__all__ = ["Geometric", "alpha_of", "scale_of_alpha"]


class Geometric(DiscreteLaplace):
    """`DiscreteLaplace` under its other name."""

    name = "geometric"
    guarantee = (
        "two-sided geometric noise of parameter alpha: a record that moves an answer by d changes "
        "the probability of any outcome by a factor of at most alpha^(-d)"
    )


def alpha_of(scale: float) -> float:
    """α = e^{−1/b}. Raises InvalidParameterValue unless 0 < b < ∞."""
    return math.exp(-1 / positive(scale, "a noise scale"))


def scale_of_alpha(alpha: Fraction | float | str) -> float:
    """b = 1/ln(1/α), rounded up: noise of scale b is private at least with this α.

    Raises InvalidParameterValue unless 0 < α < 1.
    """
    exact = positive(alpha, "alpha")
    if not exact < 1:
        raise InvalidParameterValue(f"alpha lies strictly between 0 and 1, not {alpha}")
    if exact > Fraction(1, 2):
        loss = -math.log1p(-float(1 - exact))  # nothing cancels for α near 1
    else:
        loss = math.log(exact.denominator) - math.log(exact.numerator)
    return 1 / loss * (1 + 1e-13)
