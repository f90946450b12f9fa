"""Exact integers of a lattice as Arrow arrays in an answer's unit and type.

A step of a lattice is the rational ``multiplier``, and an answer of v steps is multiplier · v:
truncated after the last decimal of a decimal type or an integer, rounded to the nearest double for
floats. What stays within 64 bits, and for floats within the integers that are doubles, is computed
in numpy; else row by row in Python's integers, with the same result.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tallyveil import deadline
from tallyveil.arrays import BoolArray, IntArray
from tallyveil.errors import NumericValueOutOfRange

__all__ = ["answer_array", "double"]

_LARGEST_DOUBLE: Final = Fraction(sys.float_info.max)
_EXACT: Final = Context(prec=38)

# Integers up to this are doubles, and the nearest double to a quotient of two is their quotient.
_DOUBLES: Final = 2**53
_INT64: Final = 2**63 - 1
_PORTION: Final = 1024  # rows that are computed in Python between two checks of the deadline


def answer_array(
    steps: Sequence[int | None] | IntArray,
    multiplier: Fraction,
    kind: pa.DataType,
    least: int | None = None,
) -> pa.Array:
    """multiplier · v for each v of ``steps``, or ``least`` steps if v is less; None stays None.

    Raises NumericValueOutOfRange if one does not fit: noise can exceed any bound, but rarely does.
    """
    whole = isinstance(steps, np.ndarray) or None not in steps
    missing = None if whole else np.array([v is None for v in steps], dtype=np.bool_)
    try:
        numbers = np.array(steps if whole else [v or 0 for v in steps], dtype=np.int64)
    except OverflowError:
        return _row_by_row(steps, multiplier, kind, least)
    if least is not None:
        np.maximum(numbers, least, out=numbers)
    most = max(1, int(numbers.max(initial=0)), -int(numbers.min(initial=0)))
    top, bottom = multiplier.numerator, multiplier.denominator
    if pa.types.is_floating(kind):
        if most * top > _DOUBLES or bottom > _DOUBLES:
            return _row_by_row(steps, multiplier, kind, least)
        return pa.array(numbers * top / bottom, kind, mask=missing)
    decimals = pa.types.is_decimal128(kind)
    scale = 10**kind.scale if decimals else 1
    if (
        most * top * scale > _INT64
        or bottom > _INT64
        or most * top * scale >= _bound(kind) * bottom
    ):
        return _row_by_row(steps, multiplier, kind, least)
    units = _truncated(numbers * (top * scale), bottom)
    return _decimals(units, kind, missing) if decimals else pa.array(units, kind, mask=missing)


def _bound(kind: pa.DataType) -> int:
    """The least magnitude that does not fit, in units of the type's last decimal."""
    return int(10**kind.precision) if pa.types.is_decimal128(kind) else 2**63


def _truncated(values: IntArray, divisor: int) -> IntArray:
    """The quotients, rounded toward 0."""
    if divisor == 1:
        return values
    quotients: IntArray = np.sign(values) * (np.abs(values) // divisor)
    return quotients


def _decimals(units: IntArray, kind: pa.DataType, missing: BoolArray | None) -> pa.Array:
    """Decimals of 128 bits: integers in two words, the lower one first."""
    words = np.stack([units, units >> 63], axis=1)
    valid = None
    if missing is not None:
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little").tobytes())
    return pa.Array.from_buffers(kind, len(units), [valid, pa.py_buffer(words.tobytes())])


def _row_by_row(
    steps: Sequence[int | None] | IntArray,
    multiplier: Fraction,
    kind: pa.DataType,
    least: int | None,
) -> pa.Array:
    values: list[Any] = []
    for number, v in enumerate(steps.tolist() if isinstance(steps, np.ndarray) else steps):
        if not number % _PORTION:
            deadline.check()
        if v is not None and least is not None:
            v = max(v, least)
        values.append(None if v is None else _value(multiplier * v, kind))
    return pa.array(values, kind)


def _value(value: Fraction, kind: pa.DataType) -> Any:
    if pa.types.is_floating(kind):
        return double(value)
    if pa.types.is_decimal(kind):
        units = int(value * 10**kind.scale)
        if abs(units) >= 10**kind.precision:
            raise _does_not_fit(f"numeric({kind.precision}, {kind.scale})")
        return _EXACT.scaleb(Decimal(units), -kind.scale)
    whole = int(value)
    if not -(2**63) <= whole < 2**63:
        raise _does_not_fit("bigint")
    return whole


def double(value: Fraction) -> float:
    """The nearest double. Raises NumericValueOutOfRange if there is none."""
    if abs(value) > _LARGEST_DOUBLE:
        raise _does_not_fit("double precision")
    return float(value)


def _does_not_fit(kind: str) -> NumericValueOutOfRange:
    """For an answer that is charged already, with its noise."""
    return NumericValueOutOfRange(
        f"a noisy answer, or an end of its interval, is out of range for type {kind}",
        hint="Divide what is summed, as in sum(x / 1000.0), or ask with less noise. What has been "
        "paid for is remembered.",
    )
