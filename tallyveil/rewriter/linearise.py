"""From DuckDB's coefficients to an exact integer `Workload`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallyveil.errors import DatatypeMismatch, InvalidParameterValue
from tallyveil.policy.domain import Domain
from tallyveil.rewriter.workload import Factor

__all__ = ["GRID_BITS", "MAX_COEFFICIENT", "IntArray", "factor", "groups", "indicator", "nothing"]

IntArray = npt.NDArray[np.int64]

MAX_COEFFICIENT: Final = 2**52
GRID_BITS: Final = 40


def groups(keys: Sequence[pa.ChunkedArray], cells: IntArray) -> tuple[IntArray, IntArray]:
    """Number the distinct key tuples, in the order of their first cells.

    Returns (group of each row, row with the first cell of each group).
    """
    combined = np.zeros(len(cells), dtype=np.int64)
    for key in keys:
        encoded = _plain(key).dictionary_encode(null_encoding="encode")
        codes = encoded.indices.to_numpy().astype(np.int64)
        _, combined = np.unique(
            combined * max(len(encoded.dictionary), 1) + codes, return_inverse=True
        )
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
    unique, inverse = _unique(values)
    exact = [_fraction(value) for value in unique]
    denominator = math.lcm(*(q.denominator for q in exact)) if exact else 1
    largest = max((abs(q) for q in exact), default=Fraction(0))
    if largest * denominator > MAX_COEFFICIENT:
        if pa.types.is_floating(values.type):
            grid = Fraction(2) ** (math.frexp(float(largest))[1] - GRID_BITS)
            exact = [round(q / grid) * grid for q in exact]
            denominator = grid.denominator
            if grid > 1:
                exact, denominator = [q / grid for q in exact], 1
                return _primitive([int(q) for q in exact], inverse, grid)
        else:
            raise InvalidParameterValue(
                f"a SUM reaches values of {largest}; the limit is 2^52 smallest units",
                hint="Divide the argument, or round it to fewer decimals.",
            )
    return _primitive([int(q * denominator) for q in exact], inverse, Fraction(1, denominator))


def _primitive(integers: list[int], inverse: IntArray, unit: Fraction) -> tuple[IntArray, Fraction]:
    divisor = math.gcd(*integers) or 1
    scaled = np.array([i // divisor for i in integers], dtype=np.int64)
    return scaled[inverse] if len(scaled) else np.zeros(0, dtype=np.int64), unit * divisor


def _unique(values: pa.ChunkedArray) -> tuple[list[Any], IntArray]:
    array = values.combine_chunks()
    if pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
        unique, inverse = np.unique(array.to_numpy(zero_copy_only=False), return_inverse=True)
        return unique.tolist(), inverse.astype(np.int64)
    encoded = array.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)


def _fraction(value: int | float | Decimal) -> Fraction:
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidParameterValue(
            f"a SUM meets the value {value} somewhere in the public domain",
            hint="Guard the argument, for instance with CASE WHEN … THEN … ELSE 0 END.",
        )
    return Fraction(value)
