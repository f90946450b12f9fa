"""Discrete Laplace noise: P(K = k) = (1−a)/(1+a) · a^|k|, a = e^{−1/b} (MATH §3).

Pure ε: a step of one on the lattice multiplies probabilities by at most e^{1/b}, so a cell pays
Σ_i |C_ij| / b_c under add/remove (BAYES eq. 71) and a pair Σ_i |C_ij − C_ik| / b_c under replace.
In ρ they pay what `measure` says.

It is drawn as the difference of two independent geometric numbers, P(G = g) = (1−a) a^g:

    P(G − G′ = k) = Σ_j (1−a)² a^{2j+|k|} = (1−a)² a^|k| / (1−a²).

With G = Σ_{i<n} d_i 8^i + 8^n T, a^G is a product of powers of the d_i and T. So these are
independent: d_i, from 0 to 7, with weights e^{−d 8^i/b}, and T with e^{−t 8^n/b}, where n is so
large that b < 8^{n+1}. Each has a small table (`inversion`), however large b is.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tallyveil.inference import DiscreteLaplaceLaw
from tallyveil.mechanisms.noise import calibrate
from tallyveil.mechanisms.noise.additive import Additive
from tallyveil.mechanisms.noise.inversion import Integers, WeightTable

__all__ = ["DiscreteLaplace", "Geometric", "geometric_numbers"]

_BASE = 8
# Numbers of less than so many bits are added in 64.
_SHORT = 62


class DiscreteLaplace(Additive):
    """The default family. A scale is b."""

    name = "laplace"
    law_type = DiscreteLaplaceLaw
    guarantee = (
        "discrete Laplace noise of scale b: a record that moves an answer by d changes the "
        "probability of any outcome by a factor of at most e^(d/b)"
    )

    def draw(self, scale: float, count: int) -> Integers:
        return geometric_numbers(scale, count) - geometric_numbers(scale, count)


class Geometric(DiscreteLaplace):
    """`DiscreteLaplace` for those who know it by α: (1−α)/(1+α) · α^|k| with α = e^{−1/b}, not
    clamped to a range (Ghosh, Roughgarden and Sundararajan 2009, "Universally Utility-Maximizing
    Privacy Mechanisms", Definition 2.1).
    """

    name = "geometric"
    guarantee = (
        "two-sided geometric noise of parameter alpha: a record that moves an answer by d changes "
        "the probability of any outcome by a factor of at most alpha^(-d)"
    )


def geometric_numbers(scale: float, count: int) -> Integers:
    """Independent draws of P(G = g) = (1−a) a^g, a = e^{−1/scale}; where one is too large for 64
    bits, an array of Python's integers. Raises InvalidParameterValue for a scale out of range.
    """
    *digits, top = _tables(scale)
    found: Integers = top.draw(count)
    if count and int(found.max()).bit_length() + 3 * len(digits) > _SHORT:
        found = found.astype(np.object_)
    for table in reversed(digits):
        found = found * _BASE + table.draw(count)
    return found


@lru_cache(maxsize=256)
def _tables(scale: float) -> tuple[WeightTable, ...]:
    """Of the digits, the lowest first, and of T."""
    rate, found = calibrate.rate(scale, "epsilon"), []
    while rate * _BASE <= 1:
        found.append(WeightTable(rate, count=_BASE))
        rate *= _BASE
    return (*found, WeightTable(rate))
