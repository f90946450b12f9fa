"""From DuckDB's coefficients to an exact integer `Workload`, its entries sorted by row and cell."""

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
from tallyveil.rewriter.domain.integers import integers_of, portions
from tallyveil.workload.workload import Factor

__all__ = ["by_first_cells", "factor", "groups", "indicator", "is_number", "nothing", "numbers"]

# Up to so many different numbers groups have before they are numbered anew.
_CODES: Final = 1 << 24


def groups(keys: Sequence[pa.ChunkedArray], cells: IntArray) -> tuple[IntArray, IntArray]:
    """Number the distinct key tuples, in the order of their first cells.

    Returns (group of each row, row with the first cell of each group).
    """
    return by_first_cells((_coded(_plain(key)) for key in keys), cells)


def numbers(values: pa.Array, places: IntArray) -> tuple[IntArray, int]:
    """Of the values at some places a number for each, and what all of them are less than."""
    own, size = _coded(_plain(pa.chunked_array([values])))
    return own[places], size


def _coded(key: pa.Array) -> tuple[IntArray, int]:
    """A number for each value, and what all of them are less than."""
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
    """Number, as `groups` does, the groups that rows are in together by each of the parts: a number
    of each row, and what all of them are less than.
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
    """-0.0 is 0.0, as a group."""
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
    """A matrix in integers, over no more axes than it depends on, and the unit they count."""
    if not is_number(values.type):
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
    size = math.prod(axis.size for axis in domain.project(mentioned))
    rows, cells, coefficients = _in_order(height, size, rows, cells, coefficients)
    axes = domain.project(mentioned)
    names = [axis.name for axis in axes]
    shape = [axis.size for axis in axes]
    for axis in reversed(range(len(names))):
        reduced = _without_axis(axis, shape, rows, cells, coefficients)
        if reduced is not None:
            rows, cells, coefficients = reduced
            del names[axis], shape[axis]
    return Factor(tuple(names), tuple(shape), height, rows, cells, coefficients)


def is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _without_axis(
    axis: int, shape: Sequence[int], rows: IntArray, cells: IntArray, coefficients: IntArray
) -> tuple[IntArray, IntArray, IntArray] | None:
    """The entries without an axis, or None where some coefficient depends on it."""
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
    """As `_without_axis`, where each row has all cells."""
    grid = coefficients.reshape(-1, size, inner)
    for some in portions(grid, size * inner):
        if (some != some[:, :1]).any():
            return None
    own, places, kept = (of.reshape(grid.shape)[:, 0].ravel() for of in (rows, cells, coefficients))
    return own, places // (inner * size) * inner + places % inner, kept


def _ends_are_repeated(
    size: int, inner: int, rows: IntArray, cells: IntArray, coefficients: IntArray
) -> bool:
    """Whether the first entry, and the last one, stand in their rows at every coordinate of an
    axis: a necessary condition that is quick to check.
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
    """The entries other than 0, sorted by (row, cell); each of ``height`` rows has ``size`` cells.

    DuckDB gives them in any order: they are laid out where that takes little room.
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
        laid_out = np.zeros(height * size, dtype=np.int64)
        for some, own in zip(portions(places), portions(coefficients), strict=True):
            laid_out[some] = own
        places = np.flatnonzero(laid_out)
        if len(places) == len(cells):
            return (*np.divmod(places, size), laid_out[places])
    if (cells[1:] >= cells[:-1]).all():
        order = _order_of(rows)
        return rows[order], cells[order], coefficients[order]
    deadline.check()
    numbered = (rows.astype(np.int32), cells.astype(np.int32))
    entries = sparse.coo_array((coefficients, numbered), (height, size))
    entries.has_canonical_format = True  # no two are of one cell in one row
    by_row = entries.tocsr()
    deadline.check()
    by_row.sort_indices()
    deadline.check()
    every = np.repeat(np.arange(height), np.diff(by_row.indptr))
    return every, by_row.indices.astype(np.int64), by_row.data


def _order_of(numbers: IntArray) -> IntArray:
    """The stable order of numbers of 32 bits, by the lower half and then the upper: numpy sorts
    16 bits in linear time."""
    deadline.check()
    if (numbers[1:] >= numbers[:-1]).all():
        return np.arange(len(numbers))
    order = np.argsort(numbers.astype(np.uint16), kind="stable")
    deadline.check()
    upper = (numbers[order] >> 16).astype(np.uint16)
    return order[np.argsort(upper, kind="stable")] if upper.any() else order
