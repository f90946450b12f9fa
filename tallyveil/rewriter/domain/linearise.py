"""From DuckDB's coefficients to an exact integer `Workload`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallyveil import deadline
from tallyveil.errors import DatatypeMismatch, InvalidParameterValue
from tallyveil.policy.domain import Domain
from tallyveil.workload.workload import Factor

__all__ = ["GRID_BITS", "MAX_COEFFICIENT", "IntArray", "factor", "groups", "indicator", "nothing"]

IntArray = npt.NDArray[np.int64]
_Numbers: TypeAlias = npt.NDArray[np.integer[Any] | np.floating[Any]]

MAX_COEFFICIENT: Final = 2**52
GRID_BITS: Final = 40
# How many decimals are looked at between two looks at the deadline.
_PORTION: Final = 1024


def groups(keys: Sequence[pa.ChunkedArray], cells: IntArray) -> tuple[IntArray, IntArray]:
    """Number the distinct key tuples, in the order of their first cells.

    Returns (group of each row, row with the first cell of each group).
    """
    combined = np.zeros(len(cells), dtype=np.int64)
    for key in keys:
        deadline.check()
        encoded = _plain(key).dictionary_encode(null_encoding="encode")
        codes = encoded.indices.to_numpy().astype(np.int64)
        _, combined = np.unique(
            combined * max(len(encoded.dictionary), 1) + codes, return_inverse=True
        )
    deadline.check()
    order = np.argsort(cells, kind="stable")
    _, first, inverse = np.unique(combined[order], return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    group = np.empty(len(cells), dtype=np.int64)
    group[order] = rank[inverse]
    return group, order[np.sort(first)]


def _plain(key: pa.ChunkedArray) -> pa.Array:
    """-0.0 is 0.0, as a group."""
    array = key.combine_chunks()
    return pc.add(array, 0.0) if pa.types.is_floating(array.type) else array


def factor(
    domain: Domain,
    mentioned: frozenset[str],
    height: int,
    rows: IntArray,
    cells: IntArray,
    values: pa.ChunkedArray,
) -> tuple[Factor, Fraction]:
    """A matrix in integers, over no more axes than it depends on, and the unit they count."""
    _refuse_other_than_numbers(values.type)
    coefficients, multiplier = _integers(values)
    return _factor(domain, mentioned, height, rows, cells, coefficients), multiplier


def indicator(
    domain: Domain, mentioned: frozenset[str], height: int, rows: IntArray, cells: IntArray
) -> Factor:
    """The matrix that counts each cell once in its row."""
    return _factor(domain, mentioned, height, rows, cells, np.ones_like(cells))


def nothing(height: int) -> Factor:
    """The matrix without a coefficient."""
    none = np.zeros(0, dtype=np.int64)
    return Factor((), (), height, none, none.copy(), none.copy())


def _factor(
    domain: Domain,
    mentioned: frozenset[str],
    height: int,
    rows: IntArray,
    cells: IntArray,
    coefficients: IntArray,
) -> Factor:
    keep = coefficients != 0
    rows, cells, coefficients = rows[keep], cells[keep], coefficients[keep]
    order = np.lexsort((cells, rows))
    rows, cells, coefficients = rows[order], cells[order], coefficients[order]
    axes = domain.project(mentioned)
    names = [axis.name for axis in axes]
    shape = [axis.size for axis in axes]
    for axis in reversed(range(len(names))):
        reduced = _without_axis(axis, shape, rows, cells, coefficients)
        if reduced is not None:
            rows, cells, coefficients = reduced
            del names[axis], shape[axis]
    return Factor(tuple(names), tuple(shape), height, rows, cells, coefficients)


def _refuse_other_than_numbers(kind: pa.DataType) -> None:
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise DatatypeMismatch(
            "SUM and AVG over records take numbers only",
            hint="Extract a number from the value first.",
        )


def _without_axis(
    axis: int, shape: Sequence[int], rows: IntArray, cells: IntArray, coefficients: IntArray
) -> tuple[IntArray, IntArray, IntArray] | None:
    """The entries without an axis, or None where some coefficient depends on it."""
    size = shape[axis]
    if len(cells) % size:
        return None
    inner = math.prod(shape[axis + 1 :])
    rest = cells // (inner * size) * inner + cells % inner
    order = np.lexsort((coefficients, rest, rows))
    by_rest = [a[order].reshape(-1, size) for a in (rows, rest, coefficients)]
    if not all((a == a[:, :1]).all() for a in by_rest):
        return None
    rows, rest, coefficients = (np.ascontiguousarray(a[:, 0]) for a in by_rest)
    return rows, rest, coefficients


def _integers(values: pa.ChunkedArray) -> tuple[IntArray, Fraction]:
    """Integer coefficients with greatest common divisor 1, and the unit they are counted in.

    Integers, decimals and binary fractions are exact. Floating-point coefficients whose common
    denominator is too fine are first rounded to a grid of 2^-40 of the largest: the query that is
    answered has those coefficients, which differ from the written ones by less than 2^-40 of the
    largest per record.
    """
    array, places = values.combine_chunks(), None
    if pa.types.is_floating(array.type):
        integers, unit = _of_floats(array.to_numpy(zero_copy_only=False))
    elif pa.types.is_integer(array.type):
        integers, unit = _of_integers(array.to_numpy(zero_copy_only=False)), Fraction(1)
    elif (units := _short_decimals(array)) is not None:
        integers, unit = _of_units(units, 10**array.type.scale)
    else:
        encoded = array.dictionary_encode()
        integers, unit = _of_decimals(encoded.dictionary.to_pylist())
        places = encoded.indices.to_numpy().astype(np.int64)
    deadline.check()
    if not len(integers):
        return np.zeros(0, dtype=np.int64), unit
    divisor = int(np.gcd.reduce(integers)) or 1
    integers = integers if divisor == 1 else integers // divisor
    return integers if places is None else integers[places], unit * divisor


def _of_integers(values: _Numbers) -> IntArray:
    largest = max(abs(int(values.min(initial=0))), int(values.max(initial=0)))
    if largest > MAX_COEFFICIENT:
        raise _too_large(largest)
    return values.astype(np.int64)


def _short_decimals(array: pa.Array) -> IntArray | None:
    """Decimals of 128 bits in units of the last decimal; None if they take more than 64 bits.

    DuckDB's sums of integers come as such.
    """
    if not pa.types.is_decimal128(array.type) or array.null_count:
        return None
    words = np.frombuffer(array.buffers()[1], dtype="<i8")
    low, high = words[2 * array.offset : 2 * (array.offset + len(array))].reshape(-1, 2).T
    short = (high == low >> 63) & (low != np.iinfo(np.int64).min)
    return low.astype(np.int64) if short.all() else None


def _of_units(units: IntArray, denominator: int) -> tuple[IntArray, Fraction]:
    """units / denominator, in lowest terms together."""
    common = math.gcd(int(np.gcd.reduce(units)) if len(units) else 0, denominator)
    largest = int(np.abs(units).max(initial=0))
    if largest // common > MAX_COEFFICIENT:
        raise _too_large(Fraction(largest, denominator))
    return units // common, Fraction(common, denominator)


def _of_floats(values: _Numbers) -> tuple[IntArray, Fraction]:
    """A double is m · 2^x with an integer m; scaling by a power of two rounds nothing."""
    for value in values[~np.isfinite(values)].tolist():
        raise InvalidParameterValue(
            f"a SUM meets the value {value} somewhere in the public domain",
            hint="Guard the argument, for instance with CASE WHEN … THEN … ELSE 0 END.",
        )
    values = values.astype(np.float64)
    parts, powers = np.frexp(values[values != 0])
    odd = np.ldexp(parts, 53).astype(np.int64)
    trailing = np.frexp((odd & -odd).astype(np.float64))[1] - 1
    places = max(0, int((53 - powers - trailing).max(initial=0)))
    largest = float(np.abs(values).max(initial=0))
    if Fraction(largest) * 2**places > MAX_COEFFICIENT:
        places = GRID_BITS - math.frexp(largest)[1]
    return np.rint(np.ldexp(values, places)).astype(np.int64), 1 / Fraction(2) ** places


def _of_decimals(values: list[Decimal]) -> tuple[IntArray, Fraction]:
    exact = []
    for number, value in enumerate(values):
        if not number % _PORTION:
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
        f"a SUM reaches values of {largest}; the limit is 2^52 smallest units",
        hint="Divide the argument, or round it to fewer decimals.",
    )
