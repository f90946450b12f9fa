"""Discrete Laplace noise: P(K = k) = (1−a)/(1+a) · a^|k|, a = e^{−1/b} (MATH §3).

Pure ε: a step of one on the lattice multiplies probabilities by at most e^{1/b}, so a cell pays
Σ_i |C_ij| / b_c under add/remove (BAYES eq. 71) and a pair Σ_i |C_ij − C_ik| / b_c under replace.
`measure` states what they pay in ρ.

It is drawn as the difference of two independent geometric numbers, P(G = g) = (1−a) a^g:

    P(G − G′ = k) = Σ_j (1−a)² a^{2j+|k|} = (1−a)² a^|k| / (1−a²).
"""

from __future__ import annotations

from tallyveil.inference import DiscreteLaplaceLaw
from tallyveil.mechanisms.noise import calibrate
from tallyveil.mechanisms.noise.additive import Additive
from tallyveil.mechanisms.noise.exact_draws import Integers, geometric

__all__ = ["DiscreteLaplace", "Geometric", "geometric_numbers"]


class DiscreteLaplace(Additive):
    """The default family: adds discrete Laplace noise. A scale is b."""

    name = "laplace"
    law_type = DiscreteLaplaceLaw
    guarantee = (
        "discrete Laplace noise of scale b: a record that moves an answer by d changes the "
        "probability of any outcome by a factor of at most e^(d/b)"
    )

    def draw(self, scale: float, count: int) -> Integers:
        return geometric_numbers(scale, count) - geometric_numbers(scale, count)


class Geometric(DiscreteLaplace):
    """`DiscreteLaplace` under its other name, by α: (1−α)/(1+α) · α^|k| with α = e^{−1/b}, not
    clamped to a range (Ghosh, Roughgarden and Sundararajan 2009, "Universally Utility-Maximizing
    Privacy Mechanisms", Definition 2.1).
    """

    name = "geometric"
    guarantee = (
        "two-sided geometric noise of parameter alpha: a record that moves an answer by d changes "
        "the probability of any outcome by a factor of at most alpha^(-d)"
    )


def geometric_numbers(scale: float, count: int) -> Integers:
    """As `geometric` with the rate 1/scale. Raises InvalidParameterValue as `check_scale`."""
    return geometric(calibrate.rate(scale, "epsilon"), count)
