"""Drawing from laws with weights 1, e^{−x}, …: many numbers at once, exactly.

By inversion. Let C_j be the probability of the outcomes 0 … j, and U uniform on [0, 1): the outcome
is the first j with U < C_j. Of U the first 64 bits are drawn, and of C_j there are two bounds of 64
bits, which differ in the last of them. Only where U lies between these, about once in 2⁵⁰ draws, is
the outcome not decided yet; then U is continued and the bounds are worked out to more bits, until
it is. So what is drawn has its law exactly, outcomes of any size included: nothing is rounded, cut
off or worked out in floats. Which steps are taken depends on U only where it is continued.

All bits are the operating system's, drawn for this and used once.
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
    "geometric", "random_words", "uniform_below",
]  # fmt: skip

RandomWords: TypeAlias = npt.NDArray[np.uint64]
Integers: TypeAlias = npt.NDArray[Any]
"""Of 64 bits, or Python's where one does not fit these."""
QuantileBounds: TypeAlias = tuple[list[int], list[int]]

_WORD: Final = 64
LARGEST_BOUND: Final = 2**_WORD - 1
# Bits beyond a word by which weights are known, so that bounds of some 2¹² differ by one.
_SPARE: Final = 16
# Bits beyond those of the weights with which `_falling` computes, and the weight it ends at.
_GUARD: Final = 48
_END: Final = 1 << _GUARD - 5
# Of the digits of a geometric number: what is left has a rate above 1/16.
_BASES: Final = (256, 16)
# Numbers of less than so many bits are added in 64.
_SHORT: Final = 62
# Words from which on a guide pays, and how many parts its octaves have, as a power of two.
_MANY: Final = 10_000
_PARTS: Final = 7


def random_words(count: int) -> RandomWords:
    """So many times 64 bits of the system's random source."""
    return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def uniform_below(bounds: RandomWords) -> RandomWords:
    """For each bound M, 1 ≤ M < 2⁶⁴, an independent draw from 0 … M − 1.

    64 bits of the system's random source at a time, taken again until they lie below the largest
    multiple of M that fits. How often depends on the bounds and on chance.
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
    """The outcome for a U that begins with the 64 bits of ``word``: the first j with U < C_j.

    ``bounds(bits)`` are l_j and h_j, ascending, with l_j ≤ 2^bits C_j < h_j + 1. If the first
    ``bits`` of U are less than l_j, then U < C_j; if more than h_j, U ≥ C_j.
    """
    bits = _WORD
    while True:
        word, bits = word << _WORD | secrets.randbits(_WORD), bits + _WORD
        low, high = bounds(bits)
        found = bisect_left(high, word)
        if found < len(low) and word < low[found]:
            return found


class WeightTable:
    """The law with weights W_0 = 1, W_{j+1} = W_j e^{−(exponent + j change)}: ``count`` of them, or
    without end. Then each is at most e^{−1/16} of the one before, or is where W_j < 2⁻⁶⁴."""

    def __init__(
        self, exponent: Fraction, change: Fraction = Fraction(0), count: int | None = None
    ) -> None:
        self._law = exponent, change, count
        low, high = self._bounds(_WORD)
        # What lies beyond all bounds is not decided by them.
        self._low, self._high = _words([*low, 0]), _words(high)

    def draw(self, count: int) -> IntArray:
        """Independent outcomes."""
        words = random_words(count)
        found = _first_reaching(self._high, words)
        for at in np.flatnonzero(self._low[found] <= words):
            found[at] = decided(int(words[at]), self._bounds)
        return found

    def _bounds(self, bits: int) -> QuantileBounds:
        """As `decided` needs them."""
        sums = list(accumulate(_falling(*self._law, bits + _SPARE)))
        error = len(sums) + 1
        most, least = sums[-1] + error, sums[-1] - error
        low = [((one - error) << bits) // most for one in sums]
        return low, [((one + error) << bits) // least for one in sums]


def geometric(rate: Fraction, count: int) -> Integers:
    """Independent draws of P(G = g) = (1−a) a^g, a = e^{−rate}; where one is too large for 64 bits,
    an array of Python's integers. So G ≥ n has the probability e^{−n rate}.

    With G = d_0 + r_0 (d_1 + r_1 (… + T)) and digits d_i < r_i, a^G is a product of powers of the
    d_i and of T. So these are independent, and each has a small table, however small the rate is.
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
    """The bases and tables of the digits, the lowest first, and the table of T."""
    digits = []
    for base in _BASES:
        while rate * base <= 1:
            digits.append((base, WeightTable(rate, count=base)))
            rate *= base
    return digits, WeightTable(rate)


def _falling(exponent: Fraction, change: Fraction, count: int | None, bits: int) -> list[int]:
    """2^bits times the weights of a `WeightTable`, each off by at most 1; those left out sum up to
    1 at most.

    With G = 48 more bits, a factor is off by at most 2 units more after each product, and W_j so by
    at most j² + j: less than 2^{G−16} up to j = 2¹⁴. What follows the last is less than 2^{G−5}; so
    all others together, at most 1/(1 − e^{−1/16}) < 17 times as much, are less than 2^G.
    """
    fine, changing = bits + _GUARD, change != 0
    factor, step = _exp(exponent, fine), _exp(change, fine)
    found: list[int] = []
    weight = 1 << fine
    while len(found) != count and (count is not None or weight >= _END):
        found.append((weight >> _GUARD - 1) + 1 >> 1)
        weight = weight * factor >> fine
        if changing:
            factor = factor * step >> fine
    return found


def _exp(exponent: Fraction, bits: int) -> int:
    """2^bits e^{−exponent}, off by at most 1."""
    if exponent > bits:
        return 0
    # Of these digits three stand before the point of the exponent, and the others are correct.
    with localcontext(prec=bits * 302 // 1000 + 15):
        return round(decimal(-exponent).exp() * (1 << bits))


def _first_reaching(bounds: RandomWords, words: RandomWords) -> IntArray:
    """For each word the place of the first bound that is no less. The bounds ascend, and the last
    is the largest word.

    Many words are not searched for one by one, which takes a processor longest where it guesses
    wrong on which side a word lies. A guide has the first place of each part of each octave of the
    words' complements, and from there every word takes as many steps as the fullest part needs.
    """
    if len(words) < _MANY:
        return np.searchsorted(bounds, words).astype(np.int64)
    bounds = bounds[: bounds.searchsorted(np.uint64(LARGEST_BOUND)) + 1]
    own = np.bincount(_part(bounds), minlength=(_WORD << _PARTS) + 1)
    guide = len(bounds) - np.cumsum(own)  # the larger the complement, the earlier the place
    found = guide[_part(words)]
    for _ in range(own.max()):
        found += bounds[found] < words
    return found


def _part(words: RandomWords) -> IntArray:
    """In which part of which octave a word's complement lies: never in a higher one than that of a
    smaller word. A double's exponent and first digits say so, also if it was rounded."""
    octaves = np.maximum(~words, np.uint64(1)).astype(np.float64).view(np.int64)
    found: IntArray = (octaves >> 52 - _PARTS) - (1023 << _PARTS)
    return found


def _words(bounds: Sequence[int]) -> RandomWords:
    return np.array([min(bound, LARGEST_BOUND) for bound in bounds], dtype=np.uint64)
