"""From DuckDB's coefficients to an exact integer `Workload`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from tallyveil import deadline
from tallyveil.errors import DatatypeMismatch, InvalidParameterValue
from tallyveil.policy.domain import Domain
from tallyveil.workload.workload import Factor

__all__ = [
    "GRID_BITS", "MAX_COEFFICIENT", "IntArray", "by_first_cells", "factor", "groups", "indicator",
    "nothing", "numbers",
]  # fmt: skip

IntArray = npt.NDArray[np.int64]
_Numbers: TypeAlias = npt.NDArray[np.integer[Any] | np.floating[Any]]

MAX_COEFFICIENT: Final = 2**52
GRID_BITS: Final = 40
# How many decimals are looked at between two looks at the deadline.
_PORTION: Final = 1024
# And how many floating-point numbers.
_FLOATS: Final = 1 << 16
# How many numbers are sorted by counting them.
_MANY: Final = 1 << 16
_WORD: Final = np.iinfo(np.int32).max
# Up to so many different numbers groups have before they are numbered anew.
_CODES: Final = 1 << 24


def groups(keys: Sequence[pa.ChunkedArray], cells: IntArray) -> tuple[IntArray, IntArray]:
    """Number the distinct key tuples, in the order of their first cells.

    Returns (group of each row, row with the first cell of each group).
    """
    codes, size = np.zeros(len(cells), dtype=np.int64), 1
    for key in keys:
        deadline.check()
        plain = _plain(key)
        deadline.check()
        own, several = _coded(plain)
        deadline.check()
        codes, size = codes * several + own, size * several
        if size > _CODES:
            found, codes = np.unique(codes, return_inverse=True)
            size = len(found)
    return by_first_cells(codes, size, cells)


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


def by_first_cells(codes: IntArray, size: int, cells: IntArray) -> tuple[IntArray, IntArray]:
    """Number groups, of which each row has a number less than ``size``, as `groups` does."""
    order = _order(cells, int(cells.max(initial=0)) + 1)
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


def _in_order(
    height: int, size: int, rows: IntArray, cells: IntArray, coefficients: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """The entries other than 0, sorted by (row, cell); each of ``height`` rows has ``size`` cells.

    Sorted by laying them out where that takes little room, since DuckDB gives them in any order.
    """
    if not coefficients.all():
        keep = coefficients != 0
        rows, cells, coefficients = rows[keep], cells[keep], coefficients[keep]
    deadline.check()
    places = rows * size + cells if rows.any() else cells
    deadline.check()
    if (places[1:] > places[:-1]).all():
        return rows, cells, coefficients
    deadline.check()
    if height * size <= 2 * len(places):
        laid_out = np.zeros(height * size, dtype=np.int64)
        laid_out[places] = coefficients
        deadline.check()
        places = np.flatnonzero(laid_out)
        if len(places) == len(cells):
            deadline.check()
            coefficients = laid_out[places]
            deadline.check()
            return (*(np.divmod(places, size) if rows.any() else (rows, places)), coefficients)
    alike = bool((coefficients == coefficients[0]).all())
    deadline.check()
    if (cells[1:] < cells[:-1]).any():
        order = _order(cells, size)
        deadline.check()
        rows, cells = rows[order], cells[order]
        coefficients = coefficients if alike else coefficients[order]
    deadline.check()
    if alike:
        cells = _stably(cells, rows, height)
    else:
        order = _order(rows, height)
        deadline.check()
        cells, coefficients = cells[order], coefficients[order]
    deadline.check()
    return np.repeat(np.arange(height), np.bincount(rows, minlength=height)), cells, coefficients


def _order(numbers: IntArray, size: int) -> IntArray:
    """The stable order of numbers less than ``size``."""
    return _stably(np.arange(len(numbers)), numbers, size)


def _stably(values: IntArray, numbers: IntArray, size: int) -> IntArray:
    """``values`` in the stable order of ``numbers``, which are less than ``size``: of many by
    counting them, in 32 bits."""
    deadline.check()
    if (numbers[1:] >= numbers[:-1]).all():
        return values
    if len(numbers) < _MANY or max(size, len(numbers), int(values.max())) > _WORD:
        return values[np.argsort(numbers, kind="stable")]
    whole = np.array([0, len(numbers)], dtype=np.int32)
    own, places = values.astype(np.int32), numbers.astype(np.int32)
    deadline.check()
    line = sparse.csr_array((own, places, whole), (1, size))
    deadline.check()
    ordered = line.tocsc().data
    deadline.check()
    result: IntArray = ordered.astype(np.int64)
    return result


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
    inner = math.prod(shape[axis + 1 :])
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
    deadline.check()
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
    values = values.astype(np.float64, copy=False)
    places = max((_binary_places(p) for p in _portions(values[values != 0])), default=0)
    largest = float(np.abs(values).max(initial=0))
    if Fraction(largest) * 2**places > MAX_COEFFICIENT:
        places = GRID_BITS - math.frexp(largest)[1]
    integers = np.empty(len(values), dtype=np.int64)
    for into, portion in zip(_portions(integers), _portions(values), strict=True):
        into[:] = np.rint(np.ldexp(portion, places))
    return integers, 1 / Fraction(2) ** places


def _binary_places(values: _Numbers) -> int:
    """The least x ≥ 0 with integers values · 2^x, for values other than 0."""
    parts, powers = np.frexp(values)
    odd = np.ldexp(parts, 53).astype(np.int64)
    trailing = np.frexp((odd & -odd).astype(np.float64))[1] - 1
    return max(0, int((53 - powers - trailing).max(initial=0)))


def _portions(array: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """So that it can be stopped in between, and what is made of one stays in the cache."""
    for start in range(0, len(array), _FLOATS):
        deadline.check()
        yield array[start : start + _FLOATS]


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
