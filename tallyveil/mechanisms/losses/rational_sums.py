"""⌈Σ_c r_c x_c⌉ for rationals r_c and arrays of integers x_c, exactly, at the speed of numpy.

Each r_c is q_c + f_c with an integer q_c and 0 ≤ f_c < 1. The integers add up as they are. The
fractions are written with n digits to a base B, rounded up by at most B⁻ⁿ each, so that the sum of
their multiples is too large by less than ε = B⁻ⁿ Σ_c max x_c. Where the sum ends in a fraction of 0
or beyond ε, its ceiling is that of the exact sum; the few elements that remain are worked out one
by one in Python's integers. With the fractions' common denominator for a base, where that is small
enough, ε is 0.

B is so small that no sum of a digit's multiples leaves 64 bits. The result is worked out by slices,
which stay in the processor's cache, and between which a statement can be stopped.

Few elements, as of a column with two kinds of cells, are all worked out one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil import deadline
from tallyveil.arrays import BoolArray, IntArray

__all__ = ["ceiling_of_sum"]


# Sums of products stay below 2^62.
_BITS: Final = 62
# A multiple is cut in two at so many bits: the smaller it is, the larger the base may be.
_HALF: Final = 31
# About one in 2^_RARE elements, besides those that are all but integers, takes Python's integers.
_RARE: Final = 32
# So many elements take Python's integers no longer than numpy takes to begin.
_FEW: Final = 16
# Elements of a slice, about.
_SLICE: Final = 1 << 16


@dataclass(frozen=True)
class _Term:
    """rate · values, with values below 2^_HALF."""

    values: IntArray
    rate: Fraction
    most: int


@dataclass(frozen=True)
class _Base:
    """Fractions as ``places`` digits to a base; ``exact`` if none has to be rounded up."""

    base: int
    places: int
    exact: bool

    def digits(self, rate: Fraction) -> list[int]:
        """Of ⌈rate · baseᵖˡᵃᶜᵉˢ⌉: the whole number, and the digits of the fraction."""
        number = math.ceil(rate * self.base**self.places)
        found: list[int] = []
        for _ in range(self.places):
            number, digit = divmod(number, self.base)
            found.append(digit)
        return [number, *reversed(found)]

    def carry(self, parts: IntArray) -> None:
        """Bring each digit below the base, in place; ``parts`` are the integers and the digits."""
        for place in range(self.places, 0, -1):
            deadline.check()
            digit = parts[place]
            if self.exact:
                over, digit[...] = np.divmod(digit, self.base)
            else:
                over = digit >> (self.base.bit_length() - 1)
                digit &= self.base - 1
            parts[place - 1] += over


def ceiling_of_sum(values: Sequence[IntArray], rates: Sequence[Fraction], most: int) -> IntArray:
    """⌈Σ_c rates_c · values_c⌉ elementwise, cut off at ``most`` < 2^61.

    ``values`` (at least one, all ≥ 0) broadcast together; the rates are positive. The sum is
    rounded once.
    """
    shape = np.broadcast_shapes(*(v.shape for v in values))
    if math.prod(shape) * len(values) <= _FEW or not shape:
        ceilings = _one_by_one(values, rates, most, np.ones(shape, dtype=np.bool_))
        return np.array(ceilings, dtype=np.int64).reshape(shape)
    terms = [term for v, rate in zip(values, rates, strict=True) for term in _halves(v, rate)]
    together = sum(term.most for term in terms)
    base = _base([term.rate for term in terms], together)
    digits = [base.digits(term.rate) for term in terms]
    large = sum(term.most * own[0] for term, own in zip(terms, digits, strict=True)) > most
    result = np.empty(shape, dtype=np.int64)
    for place in _slices(shape):
        parts = np.zeros((1 + base.places, *result[place].shape), dtype=np.int64)
        for term, (whole, *fraction) in zip(terms, digits, strict=True):
            deadline.check()
            own = _cut(term.values, place)
            parts[0] += _product(own, term.most, whole, most)
            if large:
                np.minimum(parts[0], most + 1, out=parts[0])
            for part, digit in zip(parts[1:], fraction, strict=True):
                if digit:
                    part += own * digit
        here, doubtful = _ceilings(parts, base, together)
        if doubtful.any():
            moved = [_cut(v, place) for v in values]
            here[doubtful] = _one_by_one(moved, rates, most, doubtful)
        np.minimum(here, most, out=result[place])
    return result


def _ceilings(parts: IntArray, base: _Base, together: int) -> tuple[IntArray, BoolArray]:
    """Of integers and their digits, which it works on in place; and where they may be too large."""
    base.carry(parts)
    result, *digits = parts
    rest = np.zeros(result.shape, dtype=np.bool_)
    for digit in digits:
        rest |= digit != 0
    result += rest
    if base.exact:
        return result, np.zeros(result.shape, dtype=np.bool_)
    # Too large by less than `together` in the last place.
    return result, rest & (digits[0] <= together // base.base ** (base.places - 1))


def _slices(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Of an array, along its longest axis."""
    size = math.prod(shape)
    if size <= _SLICE:
        yield (slice(None),) * len(shape)
        return
    axis = shape.index(max(shape))
    step = max(1, _SLICE * shape[axis] // size)
    for start in range(0, shape[axis], step):
        yield (
            *(slice(None),) * axis,
            slice(start, start + step),
            *(slice(None),) * (len(shape) - axis - 1),
        )


def _cut(values: IntArray, place: tuple[slice, ...]) -> IntArray:
    """The part of an array that is spread over a slice of the result."""
    own = place[len(place) - values.ndim :]
    return values[
        tuple(s if n > 1 else slice(None) for s, n in zip(own, values.shape, strict=True))
    ]


def _halves(values: IntArray, rate: Fraction) -> list[_Term]:
    """The same product, as one or two with lesser values."""
    most = int(values.max(initial=0))
    if most < 1 << _HALF:
        return [_Term(values, rate, most)]
    low = values & ((1 << _HALF) - 1)
    deadline.check()
    high = values >> _HALF
    return [_Term(low, rate, (1 << _HALF) - 1), *_halves(high, rate * (1 << _HALF))]


def _base(rates: Sequence[Fraction], together: int) -> _Base:
    """``together`` is at least the sum of what one element multiplies the rates by."""
    room = _BITS - together.bit_length()
    common = 1
    for denominator in {rate.denominator for rate in rates}:
        common = math.lcm(common, denominator)
        if common.bit_length() > room:
            wanted = together.bit_length() + _RARE
            return _Base(1 << room, -(-wanted // room), False)
    return _Base(common, int(common > 1), True)


def _product(values: IntArray, highest: int, factor: int, most: int) -> IntArray:
    """values · factor, or most + 1 where that is more than ``most``; no value is above the
    ``highest``."""
    factor = min(factor, most + 1)
    limit = most // factor if factor else highest
    if highest <= limit:
        return values * factor
    within = np.minimum(values, limit) * factor
    return np.where(values > limit, most + 1, within)


def _one_by_one(
    values: Sequence[IntArray],
    rates: Sequence[Fraction],
    most: int,
    where: BoolArray,
) -> list[int]:
    """The exact ceilings of some elements."""
    denominator = math.lcm(*(rate.denominator for rate in rates))
    weights = [int(rate * denominator) for rate in rates]
    chosen = [np.broadcast_to(v, where.shape)[where].tolist() for v in values]
    ceilings: dict[tuple[int, ...], int] = {}
    result = []
    for element in zip(*chosen, strict=True):
        if element not in ceilings:
            deadline.check()
            total = sum(w * x for w, x in zip(weights, element, strict=True))
            ceilings[element] = min(most, -(-total // denominator))
        result.append(ceilings[element])
    return result
