"""Choices of linear algebra that are the same on every processor and with any number of threads.

Products and decompositions add in an order that depends on the processor, so their last digits
differ. Nothing that is drawn, charged or reported may depend on these digits: values that are equal
but for rounding count as equal, the first of them is chosen, and of the bases of a space the one
that follows from the space alone.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from tallyveil.arrays import FloatArray, IntArray

__all__ = [
    "first_largest", "first_least", "nearest_integers", "orthonormal", "pivoted", "rounded",
    "settled",
]  # fmt: skip

# Between what rounding adds, about 1e-12, and what sets apart values that are not equal. Symmetric
# queries make equal values, others are as close as this with a probability of about 1e-9.
_EQUAL: Final = 1 - 1e-9
_HALF: Final = 0.5 + 1e-5  # in multiples, which are far less exact than 1e-9
_SHORT: Final = 2.0**44
_BITS: Final = 24  # so that a value lies near a boundary with a probability of about 1e-5


def first_largest(values: FloatArray) -> int:
    """The first of those values that are the largest but for rounding; none is negative."""
    return int(np.argmax(values >= values.max() * _EQUAL))


def first_least(values: FloatArray) -> int:
    """The first of those values that are the least but for rounding; none is negative."""
    return int(np.argmax(values * _EQUAL <= values.min()))


def nearest_integers(values: FloatArray) -> FloatArray:
    """The nearest integers; the greater of two that are equally near but for rounding."""
    found: FloatArray = np.floor(values + _HALF)
    return found


def rounded(values: FloatArray) -> FloatArray:
    """The values to 44 bits, so that those which are equal but for rounding mostly are."""
    parts, powers = np.frexp(values)
    found: FloatArray = np.ldexp(np.rint(parts * _SHORT) / _SHORT, powers)
    return found


def settled(value: float) -> float:
    """The value rounded down to 24 bits, which are the same on every processor."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.floor(math.ldexp(mantissa, _BITS)), exponent - _BITS)


def pivoted(matrix: FloatArray, least: float) -> tuple[FloatArray, IntArray]:
    """L (k×r) with L Lᵀ = ``matrix``, which is symmetric and positive, and r rows of it that
    determine the others: at each step the one that is farthest from those before, and the first
    of these. Rows nearer than ``least``, a share of the first one's square, depend on them."""
    left, factor, rows = matrix.copy(), list[FloatArray](), list[int]()
    top = float(left.diagonal().max(initial=0))
    while len(rows) < len(left) and left.diagonal().max() > least * top:
        row = first_largest(np.maximum(left.diagonal(), 0))
        own = left[row] / np.sqrt(left[row, row])
        left -= np.outer(own, own)
        factor.append(own)
        rows.append(row)
    return np.array(factor).reshape(-1, len(left)).T, np.array(rows, dtype=np.int64)


def orthonormal(basis: FloatArray) -> FloatArray:
    """The orthonormal basis of the space of this one (k×r) that its projector P has as L: P = L Lᵀ
    and P P = P make Lᵀ L = I."""
    # What is left of P is a projector at each step: its diagonal has a 0, or an entry of 1/k.
    return pivoted(basis @ basis.T, 0.5 / len(basis))[0]
