"""Drawing many numbers at once, exactly, from laws with weights 1, e^{−x}, ….

Numbers are drawn by inversion. Let C_j be the probability of the outcomes 0 … j, and U uniform on
[0, 1): the outcome is the first j with U < C_j. The first 64 bits of U are drawn, and C_j has two
64-bit bounds, which differ in the last bit. They do not decide the outcome if U lies between them,
about once in 2⁵⁰ draws; then more bits of U are drawn, and the bounds are computed to more bits,
until they do. So the draws have exactly this law, including outcomes of any size: nothing is
rounded, cut off or computed in floats. The steps taken depend on U only where more bits are drawn.

All bits come from the operating system's random source, and each is used once.
"""

from __future__ import annotations

import os
import secrets
from bisect import bisect_left
from collections.abc import Callable, Sequence
from decimal import localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tallyveil.mechanisms.units import IntArray, decimal

__all__ = [
    "LARGEST_BOUND", "Integers", "QuantileBounds", "RandomWords", "WeightTable", "decided",
    "exp_bits", "geometric", "random_words", "uniform_below",
]  # fmt: skip

RandomWords: TypeAlias = npt.NDArray[np.uint64]
Integers: TypeAlias = npt.NDArray[Any]
"""An array of 64-bit integers, or of Python's integers if one does not fit."""
QuantileBounds: TypeAlias = tuple[list[int], list[int]]

_WORD: Final = 64
LARGEST_BOUND: Final = 2**_WORD - 1
# Weights have this many bits more than a word, so that two bounds differ by one among some 2¹².
_SPARE: Final = 16
# `_falling` computes with this many bits more than the weights have, and ends at this weight.
_GUARD: Final = 48
_END: Final = 1 << _GUARD - 5
# Bases of the digits of a geometric number. What is left has a rate above 1/16.
_BASES: Final = (256, 16)
# Numbers of fewer bits are added in 64-bit integers.
_SHORT: Final = 62


def random_words(count: int) -> RandomWords:
    """Return ``count`` words of 64 bits from the system's random source."""
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def uniform_below(bounds: RandomWords) -> RandomWords:
    """Draw from 0 … M − 1 for each bound M, 1 ≤ M < 2⁶⁴, independently.

    A draw takes 64 bits from the system's random source, and again until they lie below the largest
    multiple of M that fits. The number of repetitions depends only on the bounds and on chance.
    """
    accepted = np.uint64(LARGEST_BOUND) // bounds * bounds
    found = np.zeros(len(bounds), dtype=np.uint64)
    open_ = np.arange(len(bounds))
    while len(open_):
        words = random_words(len(open_))
        fits = words < accepted[open_]
        found[open_[fits]] = words[fits] % bounds[open_[fits]]
        open_ = open_[~fits]
    return found


def decided(word: int, bounds: Callable[[int], QuantileBounds]) -> int:
    """Return the first j with U < C_j, for a random U that begins with the 64 bits of ``word``.

    ``bounds(bits)`` returns l_j and h_j, ascending, with l_j ≤ 2^bits C_j < h_j + 1. If the first
    ``bits`` bits of U are less than l_j, then U < C_j; if more than h_j, U ≥ C_j.
    """
    bits = _WORD
    while True:
        word, bits = word << _WORD | secrets.randbits(_WORD), bits + _WORD
        low, high = bounds(bits)
        found = bisect_left(high, word)
        if found < len(low) and word < low[found]:
            return found


class WeightTable:
    """The law with weights W_0 = 1, W_{j+1} = W_j e^{−(exponent + j change)}.

    There are ``count`` outcomes, or infinitely many for None. Then each weight must be at most
    e^{−1/16} times the one before, at least where W_j < 2⁻⁶⁴.
    """

    def __init__(
        self, exponent: Fraction, change: Fraction = Fraction(0), count: int | None = None
    ) -> None:
        self._law = exponent, change, count
        low, high = self._bounds(_WORD)
        # The bounds do not decide draws beyond all of them.
        self._low, self._high = _words([*low, 0]), _words(high)

    def draw(self, count: int) -> IntArray:
        """Draw ``count`` independent outcomes."""
        words = random_words(count)
        found = np.searchsorted(self._high, words).astype(np.int64)
        for at in np.flatnonzero(self._low[found] <= words):
            found[at] = decided(int(words[at]), self._bounds)
        return found

    def _bounds(self, bits: int) -> QuantileBounds:
        """Return the bounds that `decided` needs."""
        sums = list(accumulate(_falling(*self._law, bits + _SPARE)))
        error = len(sums) + 1
        most, least = sums[-1] + error, sums[-1] - error
        low = [((one - error) << bits) // most for one in sums]
        return low, [((one + error) << bits) // least for one in sums]


def geometric(rate: Fraction, count: int) -> Integers:
    """Draw ``count`` independent values of G, P(G = g) = (1−a) a^g, a = e^{−rate}.

    So G ≥ n has the probability e^{−n rate}. If a draw is too large for 64 bits, the result is an
    array of Python's integers. With G = d_0 + r_0 (d_1 + r_1 (… + T)) and digits d_i < r_i, a^G is
    a product of powers of the d_i and of T. So these are independent, and each has a small table,
    however small the rate is.
    """
    digits, top = _digits(rate)
    found: Integers = top.draw(count)
    bits = int(found.max(initial=0)).bit_length()
    if bits + sum(base.bit_length() - 1 for base, _ in digits) > _SHORT:
        found = found.astype(np.object_)
    for base, table in reversed(digits):
        found = found * base + table.draw(count)
    return found


@lru_cache(maxsize=1024)
def _digits(rate: Fraction) -> tuple[list[tuple[int, WeightTable]], WeightTable]:
    """Return the bases and tables of the digits, the lowest first, and the table of T."""
    digits = []
    for base in _BASES:
        while rate * base <= 1:
            digits.append((base, WeightTable(rate, count=base)))
            rate *= base
    return digits, WeightTable(rate)


def _falling(exponent: Fraction, change: Fraction, count: int | None, bits: int) -> list[int]:
    """Return 2^bits times the weights of a `WeightTable`, each with an error of at most 1. The sum
    of the weights left out is at most 1.

    With G = 48 more bits, each product adds at most 2 units to the error of a factor, so the error
    of W_j is at most j² + j: less than 2^{G−16} up to j = 2¹⁴. The first weight left out is less
    than 2^{G−5}; so all of them together, at most 1/(1 − e^{−1/16}) < 17 times as much, are less
    than 2^G.
    """
    fine, changing = bits + _GUARD, change != 0
    factor, step = exp_bits(exponent, fine), exp_bits(change, fine)
    found: list[int] = []
    weight = 1 << fine
    while len(found) != count and (count is not None or weight >= _END):
        found.append((weight >> _GUARD - 1) + 1 >> 1)
        weight = weight * factor >> fine
        if changing:
            factor = factor * step >> fine
    return found


def exp_bits(exponent: Fraction, bits: int) -> int:
    """Return 2^bits e^{−exponent}, with an error of at most 1."""
    if exponent > bits:
        return 0
    # Three of these digits are for the exponent's integer part.
    with localcontext(prec=bits * 302 // 1000 + 15):
        return round(decimal(-exponent).exp() * (1 << bits))


def _words(bounds: Sequence[int]) -> RandomWords:
    return np.array([min(bound, LARGEST_BOUND) for bound in bounds], dtype=np.uint64)
