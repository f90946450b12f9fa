"""⌈Σ_c r_c x_c⌉ for rationals r_c and arrays of integers x_c, exactly, at the speed of numpy.

Each r_c is q_c + f_c with an integer q_c and 0 ≤ f_c < 1. The integers add up as they are. The
fractions are written with n digits to a base B, rounded up by at most B⁻ⁿ each, so that the sum of
their multiples is too large by less than ε = B⁻ⁿ Σ_c max x_c. Where the sum ends in a fraction of 0
or beyond ε, its ceiling is that of the exact sum; the few elements that remain are computed one by
one in Python's integers. If the fractions' common denominator is small enough, it is the base, and
ε is 0.

B is so small that no sum of a digit's multiples exceeds 64 bits. The result is computed in slices,
which fit the processor's cache, and between which a statement can be cancelled.

If there are few elements, as for a column with two kinds of cells, all are computed one by one.
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
# Values are split at this many bits: the smaller they are, the larger the base may be.
_HALF: Final = 31
# About one in 2^_RARE elements needs Python's integers, besides sums very close to an integer.
_RARE: Final = 32
# Up to this many elements, Python's integers are as fast as numpy.
_FEW: Final = 16
# About how many elements a slice has.
_SLICE: Final = 1 << 16


@dataclass(frozen=True)
class _Term:
    """rate · values, with values below 2^_HALF."""

    values: IntArray
    rate: Fraction
    most: int


@dataclass(frozen=True)
class _Base:
    """Fractions written as ``places`` digits to a base; ``exact`` if none needs rounding up."""

    base: int
    places: int
    exact: bool

    def digits(self, rate: Fraction) -> list[int]:
        """Return the whole part and the digits of the fraction of ⌈rate · baseᵖˡᵃᶜᵉˢ⌉."""
        number = math.ceil(rate * self.base**self.places)
        found: list[int] = []
        for _ in range(self.places):
            number, digit = divmod(number, self.base)
            found.append(digit)
        return [number, *reversed(found)]

    def carry(self, parts: IntArray) -> None:
        """Carry in place until each digit is below the base; ``parts`` are integers and digits."""
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
    """Return ⌈Σ_c rates_c · values_c⌉ elementwise, cut off at ``most`` < 2^61.

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
    """Return the ceilings of integers and their digits, and where they may be too large.

    It changes ``parts`` in place.
    """
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
    """Yield the slices of an array, along its longest axis."""
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
    """Return the part of an array that broadcasts to a slice of the result."""
    own = place[len(place) - values.ndim :]
    return values[
        tuple(s if n > 1 else slice(None) for s, n in zip(own, values.shape, strict=True))
    ]


def _halves(values: IntArray, rate: Fraction) -> list[_Term]:
    """Return rate · values as terms whose values are below 2^_HALF."""
    most = int(values.max(initial=0))
    if most < 1 << _HALF:
        return [_Term(values, rate, most)]
    low = values & ((1 << _HALF) - 1)
    deadline.check()
    high = values >> _HALF
    return [_Term(low, rate, (1 << _HALF) - 1), *_halves(high, rate * (1 << _HALF))]


def _base(rates: Sequence[Fraction], together: int) -> _Base:
    """Choose the base. ``together`` is at least the sum of one element's multiples of the rates."""
    room = _BITS - together.bit_length()
    common = 1
    for denominator in {rate.denominator for rate in rates}:
        common = math.lcm(common, denominator)
        if common.bit_length() > room:
            wanted = together.bit_length() + _RARE
            return _Base(1 << room, -(-wanted // room), False)
    return _Base(common, int(common > 1), True)


def _product(values: IntArray, highest: int, factor: int, most: int) -> IntArray:
    """Return values · factor, or most + 1 where that exceeds ``most``; no value exceeds
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
    """Return the exact ceilings of the elements that ``where`` marks."""
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
