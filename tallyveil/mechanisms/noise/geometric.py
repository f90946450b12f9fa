"""The two-sided geometric mechanism: P(K = k) = (1−α)/(1+α) · α^|k|, not clamped to a range.

Ghosh, Roughgarden and Sundararajan 2009, "Universally Utility-Maximizing Privacy Mechanisms",
Definition 2.1, in the notation of COUNT: α = e^{−ε} for a count. It is the discrete Laplace law
of scale b = 1/ln(1/α), for those who know it by α; scales in the ledger are b.
"""

from __future__ import annotations

from tallyveil.mechanisms.noise.laplace import DiscreteLaplace

__all__ = ["Geometric"]


class Geometric(DiscreteLaplace):
    """`DiscreteLaplace` under its other name."""

    name = "geometric"
    guarantee = (
        "two-sided geometric noise of parameter alpha: a record that moves an answer by d changes "
        "the probability of any outcome by a factor of at most alpha^(-d)"
    )
