"""Make exact integer matrices from DuckDB's coefficients, with entries sorted by row and cell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from tallyveil import deadline
from tallyveil.arrays import IntArray
from tallyveil.errors import DatatypeMismatch
from tallyveil.policy.domain import Domain
from tallyveil.rewriter.domain.integer_units import integers_of, portions
from tallyveil.workload.refinement import Refinement
from tallyveil.workload.workload import Factor

__all__ = ["by_first_cells", "counted", "factor", "groups", "indicator", "zero_factor"]

# Codes of groups stay below this; beyond it they are numbered again from 0.
_CODES: Final = 1 << 24


def groups(keys: Sequence[pa.ChunkedArray], cells: IntArray) -> tuple[IntArray, IntArray]:
    """Number the distinct key tuples, in the order of their first cells.

    Returns (group of each row, row with the first cell of each group).
    """
    return by_first_cells((_coded(_plain(key)) for key in keys), cells)


def _coded(key: pa.Array) -> tuple[IntArray, int]:
    """A number for each distinct value, and a bound above all numbers."""
    if len(key) and pa.types.is_signed_integer(key.type) and not key.null_count:
        values = key.to_numpy()
        least, most = int(values.min()), int(values.max())
        if most - least < min(_CODES, 4 * len(values)):
            return values.astype(np.int64) - least, most - least + 1
    encoded = key.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), max(len(encoded.dictionary), 1)


def by_first_cells(
    parts: Iterable[tuple[IntArray, int]], cells: IntArray
) -> tuple[IntArray, IntArray]:
    """Number, as `groups` does, the rows that are equal in all parts. Each part has a number for
    each row, and a bound above all its numbers.
    """
    codes, size = np.zeros(len(cells), dtype=np.int64), 1
    for own, several in parts:
        deadline.check()
        codes, size = codes * several + own, size * several
        if size > _CODES:
            found, codes = np.unique(codes, return_inverse=True)
            size = len(found)
    order = _order_of(cells)
    deadline.check()
    codes_in_order = codes[order]
    deadline.check()
    place = np.full(size, -1, dtype=np.int64)
    place[codes_in_order[::-1]] = np.arange(len(cells))[::-1]
    there = np.flatnonzero(place >= 0)
    there = there[np.argsort(place[there])]
    deadline.check()
    rank = np.empty(size, dtype=np.int64)
    rank[there] = np.arange(len(there))
    return rank[codes], order[place[there]]


def _plain(key: pa.ChunkedArray) -> pa.Array:
    """Make -0.0 equal to 0.0, since they are one group."""
    deadline.check()
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
    """A matrix in integers, over only the axes it depends on, and the unit of the integers.

    Raises DatatypeMismatch if the values are not numbers.
    """
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise DatatypeMismatch(
            "SUM and AVG over records take numbers only",
            hint="Extract a number from the value first.",
        )
    coefficients, multiplier = integers_of(values)
    return _factor(domain, mentioned, height, rows, cells, coefficients), multiplier


def indicator(
    domain: Domain, mentioned: frozenset[str], height: int, rows: IntArray, cells: IntArray
) -> Factor:
    """The matrix that counts each cell once in its row."""
    return _factor(domain, mentioned, height, rows, cells, np.ones_like(cells))


def zero_factor(height: int) -> Factor:
    """The matrix of zeros."""
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
    axes = domain.project(mentioned)
    names, shape = [axis.name for axis in axes], [axis.size for axis in axes]
    rows, cells, coefficients = _in_order(height, math.prod(shape), rows, cells, coefficients)
    for axis in reversed(range(len(names))):
        reduced = _without_axis(axis, shape, rows, cells, coefficients)
        if reduced is not None:
            rows, cells, coefficients = reduced
            del names[axis], shape[axis]
    found = Factor(tuple(names), tuple(shape), height, rows, cells, coefficients)
    return _joint_codes(domain).factor(found) if domain.joint else found


def counted(domain: Domain, factors: Sequence[Factor]) -> list[Factor]:
    """A row for each axis of joint codes that the factors do not have, of the cells that count."""
    return _joint_codes(domain).counted(factors) if domain.joint else []


def _joint_codes(domain: Domain) -> Refinement:
    cells = {name: np.array(own, dtype=np.int64) for name, own in domain.joint.items()}
    return Refinement(domain.names, cells, {})


def _without_axis(
    axis: int, shape: Sequence[int], rows: IntArray, cells: IntArray, coefficients: IntArray
) -> tuple[IntArray, IntArray, IntArray] | None:
    """The entries without an axis, or None if some coefficient depends on it."""
    size = shape[axis]
    inner = math.prod(shape[axis + 1 :])
    if len(cells) and len(cells) == (int(rows[-1]) + 1) * math.prod(shape):
        return _without_axis_of_all(size, inner, rows, cells, coefficients)
    if len(cells) % size or not _ends_are_repeated(size, inner, rows, cells, coefficients):
        return None
    coordinates = (cells // inner % size).astype(np.min_scalar_type(size))
    deadline.check()
    if (np.bincount(coordinates, minlength=size) != len(cells) // size).any():
        return None
    # The entries of one coordinate stay sorted by (row, cell), and so by (row, rest).
    order = np.argsort(coordinates, kind="stable").reshape(size, -1)
    model = order[0]
    rest = cells // (inner * size) * inner + cells % inner
    for step in range(1, size):
        deadline.check()
        own = order[step]
        if any((a[own] != a[model]).any() for a in (coefficients, rest, rows)):
            return None
    return rows[model], rest[model], coefficients[model]


def _without_axis_of_all(
    size: int, inner: int, rows: IntArray, cells: IntArray, coefficients: IntArray
) -> tuple[IntArray, IntArray, IntArray] | None:
    """The same as `_without_axis`, for rows that have all cells."""
    grid = coefficients.reshape(-1, size, inner)
    for portion in portions(grid, size * inner):
        if (portion != portion[:, :1]).any():
            return None
    own, places, kept = (of.reshape(grid.shape)[:, 0].ravel() for of in (rows, cells, coefficients))
    return own, places // (inner * size) * inner + places % inner, kept


def _ends_are_repeated(
    size: int, inner: int, rows: IntArray, cells: IntArray, coefficients: IntArray
) -> bool:
    """Whether the first entry, and the last, are in their rows at every coordinate of an axis: a
    necessary condition that is quick to check.
    """
    for end in (0, -1) if len(cells) else ():
        start, stop = np.searchsorted(rows, [rows[end], rows[end] + 1])
        line = cells[end] // (inner * size) * inner * size + cells[end] % inner
        wanted = line + inner * np.arange(size)
        places = start + np.searchsorted(cells[start:stop], wanted)
        places = np.minimum(places, stop - 1)
        if not ((cells[places] == wanted) & (coefficients[places] == coefficients[end])).all():
            return False
    return True


def _in_order(
    height: int, size: int, rows: IntArray, cells: IntArray, coefficients: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """The entries other than 0, sorted by (row, cell). Each of ``height`` rows has ``size`` cells.

    DuckDB returns them in any order. A dense array sorts them if it is small enough.
    """
    if not coefficients.all():
        keep = np.flatnonzero(coefficients)
        rows, cells, coefficients = (of.take(keep) for of in (rows, cells, coefficients))
    deadline.check()
    places = rows * size + cells
    if (places[1:] > places[:-1]).all():
        return rows, cells, coefficients
    deadline.check()
    if height * size <= 2 * len(places):
        dense = np.zeros(height * size, dtype=np.int64)
        for some, own in zip(portions(places), portions(coefficients), strict=True):
            dense[some] = own
        places = np.flatnonzero(dense)
        if len(places) == len(cells):
            return (*np.divmod(places, size), dense[places])
    if (cells[1:] >= cells[:-1]).all():
        order = _order_of(rows)
        return rows[order], cells[order], coefficients[order]
    deadline.check()
    numbered = (rows.astype(np.int32), cells.astype(np.int32))
    entries = sparse.coo_array((coefficients, numbered), (height, size))
    entries.has_canonical_format = True  # each cell occurs once in a row
    by_row = entries.tocsr()
    deadline.check()
    by_row.sort_indices()
    deadline.check()
    sorted_rows = np.repeat(np.arange(height), np.diff(by_row.indptr))
    return sorted_rows, by_row.indices.astype(np.int64), by_row.data


def _order_of(numbers: IntArray) -> IntArray:
    """The stable order of 32-bit numbers, sorted by the lower half and then by the upper: numpy
    sorts 16 bits in linear time."""
    deadline.check()
    if (numbers[1:] >= numbers[:-1]).all():
        return np.arange(len(numbers))
    order = np.argsort(numbers.astype(np.uint16), kind="stable")
    deadline.check()
    upper = (numbers[order] >> 16).astype(np.uint16)
    return order[np.argsort(upper, kind="stable")] if upper.any() else order
