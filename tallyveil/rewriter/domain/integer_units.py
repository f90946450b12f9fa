"""Make coefficients integers with a common unit: exactly where possible, else on a fine grid."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallyveil import deadline
from tallyveil.arrays import IntArray
from tallyveil.errors import InvalidParameterValue

__all__ = ["GRID_BITS", "MAX_COEFFICIENT", "PORTION", "as_int64", "integers_of", "portions"]

_Numbers: TypeAlias = npt.NDArray[np.integer[Any] | np.floating[Any]]

MAX_COEFFICIENT: Final = 2**52
GRID_BITS: Final = 40
# The number of decimals processed between two checks of the deadline.
_DECIMALS: Final = 1024
# The number of other numbers.
PORTION: Final = 1 << 16


def integers_of(values: pa.ChunkedArray) -> tuple[IntArray, Fraction]:
    """Return integer coefficients with greatest common divisor 1, and their unit.

    Integers, decimals and binary fractions are exact. Floating-point coefficients whose common
    denominator is too large are first rounded to a grid of 2^-40 of the largest. The answered query
    has these, which differ from the written ones by less than 2^-40 of the largest per record.

    Raises InvalidParameterValue if one is not finite or too large.
    """
    places = None
    if pa.types.is_floating(values.type):
        integers, unit = _of_floats(values.combine_chunks().to_numpy(zero_copy_only=False))
    elif pa.types.is_integer(values.type):
        integers, unit = _of_units(as_int64(values), 1)
    elif (units := _short_decimals(values)) is not None:
        integers, unit = _of_units(units, 10**values.type.scale)
    else:
        encoded = values.combine_chunks().dictionary_encode()
        integers, unit = _of_decimals(encoded.dictionary.to_pylist())
        places = encoded.indices.to_numpy().astype(np.int64)
    deadline.check()
    if not len(integers):
        return np.zeros(0, dtype=np.int64), unit
    divisor = _divisor(integers) or 1
    integers = integers if divisor == 1 else integers // divisor
    return integers if places is None else integers[places], unit * divisor


def as_int64(values: pa.ChunkedArray) -> IntArray:
    """Integers of any width, without NULL, as 64 bits."""
    if values.type == pa.uint64():
        most = pc.max(values).as_py() or 0
        if most > MAX_COEFFICIENT:
            raise _too_large(most)
    found, start = np.empty(len(values), dtype=np.int64), 0
    for chunk in deadline.stoppable(values.chunks):
        found[start : start + len(chunk)] = chunk.to_numpy(zero_copy_only=False)
        start += len(chunk)
    return found


def _divisor(values: IntArray) -> int:
    """The greatest common divisor; 0 if all are 0."""
    divisor = 0
    for portion in portions(values):
        divisor = math.gcd(divisor, int(np.gcd.reduce(portion)))
        if divisor == 1:
            break
    return divisor


def _short_decimals(values: pa.ChunkedArray) -> IntArray | None:
    """Decimals of 128 bits in units of the last digit; None if they take more than 64 bits.

    DuckDB returns sums of integers as such decimals.
    """
    if not pa.types.is_decimal128(values.type) or values.null_count:
        return None
    found, start = np.empty(len(values), dtype=np.int64), 0
    for chunk in deadline.stoppable(values.chunks):
        words = np.frombuffer(chunk.buffers()[1], dtype="<i8")
        low, high = words[2 * chunk.offset : 2 * (chunk.offset + len(chunk))].reshape(-1, 2).T
        if not ((high == low >> 63) & (low != np.iinfo(np.int64).min)).all():
            return None
        found[start : start + len(chunk)] = low
        start += len(chunk)
    return found


def _of_units(units: IntArray, denominator: int) -> tuple[IntArray, Fraction]:
    """Reduce units / denominator to lowest terms, with one denominator for all."""
    common = 1 if denominator == 1 else math.gcd(_divisor(units), denominator)
    largest = max(-int(units.min(initial=0)), int(units.max(initial=0)))
    if largest // common > MAX_COEFFICIENT:
        raise _too_large(Fraction(largest, denominator))
    return units if common == 1 else units // common, Fraction(common, denominator)


def _of_floats(values: _Numbers) -> tuple[IntArray, Fraction]:
    """Scale doubles by a power of two, which is exact: each is m · 2^x with an integer m."""
    for value in values[~np.isfinite(values)].tolist():
        raise InvalidParameterValue(
            f"the argument of a SUM is {value} somewhere in the public domain",
            hint="Guard the argument, for instance with CASE WHEN … THEN … ELSE 0 END.",
        )
    values = values.astype(np.float64, copy=False)
    places = max((_binary_places(p) for p in portions(values[values != 0])), default=0)
    largest = float(np.abs(values).max(initial=0))
    if Fraction(largest) * 2**places > MAX_COEFFICIENT:
        places = GRID_BITS - math.frexp(largest)[1]
    integers = np.empty(len(values), dtype=np.int64)
    for into, portion in zip(portions(integers), portions(values), strict=True):
        into[:] = np.rint(np.ldexp(portion, places))
    return integers, 1 / Fraction(2) ** places


def _binary_places(values: _Numbers) -> int:
    """The least x ≥ 0 for which all values · 2^x are integers, for values other than 0."""
    parts, powers = np.frexp(values)
    odd = np.ldexp(parts, 53).astype(np.int64)
    trailing = np.frexp((odd & -odd).astype(np.float64))[1] - 1
    return max(0, int((53 - powers - trailing).max(initial=0)))


def portions(array: npt.NDArray[Any], width: int = 1) -> Iterator[npt.NDArray[Any]]:
    """Yield slices of the array that fit in the processor's cache, and check the deadline before
    each. An entry of the array is ``width`` numbers."""
    step = max(1, PORTION // width)
    for start in range(0, len(array), step):
        deadline.check()
        yield array[start : start + step]


def _of_decimals(values: list[Decimal]) -> tuple[IntArray, Fraction]:
    exact = []
    for number, value in enumerate(values):
        if not number % _DECIMALS:
            deadline.check()
        exact.append(Fraction(value))
    denominator = math.lcm(*{q.denominator for q in exact}) if exact else 1
    largest = max((abs(q) for q in exact), default=Fraction(0))
    if largest * denominator > MAX_COEFFICIENT:
        raise _too_large(largest)
    integers = [q.numerator * (denominator // q.denominator) for q in exact]
    return np.array(integers, dtype=np.int64), Fraction(1, denominator)


def _too_large(largest: Fraction | int) -> InvalidParameterValue:
    return InvalidParameterValue(
        f"the argument of a SUM has the value {largest}; the limit is 2^52 smallest units",
        hint="Divide the argument, or round it to fewer decimals.",
    )
