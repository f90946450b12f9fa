"""Which recorded answers bear on a question, as one sparse matrix over the cells they tell apart.

Columns are Kronecker products over few attributes. The values of an attribute that no column tells
apart are one value here, and attributes that none mentions are left out, so that the matrix is
small where the questions are simple.

What is taken up is bounded by the work it makes: by the matrix's entries, and its cells. What is
first in order (`candidates`) comes first, and what no longer fits is left out. An estimate from a
part of the history is unbiased too, and its law is what it says.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tallyveil.rewriter.workload import Column, Factor, IntArray

__all__ = ["Prepared", "Related", "related"]

_CELLS: Final = 100_000
_COLUMN: Final = 100  # entries that are as much work as a column itself
_PRODUCT: Final = 1_000_000  # entries of a product of which some rows are taken

# Nobody who writes SQL may know it: with known marks, two values could be made to look alike.
_SEED: Final = secrets.randbits(128)

_Signs = Mapping[str, npt.NDArray[np.uint64]]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A column, and for each of its axes a number for each value, equal (but for a chance of
    2⁻⁶⁴) only where the column does not tell the values apart."""

    column: Column
    axes: frozenset[str]
    signs: _Signs
    places: tuple[tuple[IntArray, ...], ...]
    """Of each factor's entries, along each of its axes."""

    @cached_property
    def too_large(self) -> bool:
        """Whether a coefficient may not be an int64."""
        return self.column.largest >= 2**63

    @property
    def weight(self) -> int:
        """Its bytes, without the column's own."""
        arrays = [*self.signs.values(), *(at for places in self.places for at in places)]
        return 200 + sum(100 + array.nbytes for array in arrays)

    @classmethod
    def of(cls, column: Column) -> Prepared:
        random = np.random.default_rng(_SEED)
        signs: dict[str, npt.NDArray[np.uint64]] = {}
        places: list[tuple[IntArray, ...]] = []
        for factor in column.factors:
            if not factor.axes:
                places.append(())
                continue
            index = np.unravel_index(factor.cells, factor.shape)
            places.append(tuple(at.astype(np.int64) for at in index))
            rows = _marks(random, factor.height)[factor.rows]
            marks = [_marks(random, size)[i] for size, i in zip(factor.shape, index, strict=True)]
            weights = factor.coefficients.view(np.uint64) * rows
            for place, axis in enumerate(factor.axes):
                others = [mark for n, mark in enumerate(marks) if n != place]
                terms = math.prod(others, start=weights)
                sums = np.zeros(factor.shape[place], dtype=np.uint64)
                np.add.at(sums, index[place], terms)
                signs[axis] = sums
        return cls(column, frozenset(column.axes), signs, tuple(places))


def _marks(random: np.random.Generator, number: int) -> npt.NDArray[np.uint64]:
    """Odd, so that no product of them is 0."""
    return random.integers(0, 2**64, number, dtype=np.uint64) | np.uint64(1)


@lru_cache(maxsize=1024)
def _mark(number: int) -> np.uint64:
    mark: np.uint64 = _marks(np.random.default_rng([_SEED, number]), 1)[0]
    return mark


@dataclass(frozen=True, eq=False)
class Related:
    """``history`` (m×n) has the rows of the chosen columns one after the other, ``question`` (k×n)
    the question's; ``used`` are the chosen columns."""

    history: sparse.csr_matrix
    question: sparse.csr_matrix
    used: tuple[int, ...]


def related(
    question: Prepared, numbers: Sequence[int], history: Callable[[int], Prepared], work: int
) -> Related | None:
    """The matrices of those of the columns ``numbers``, from the first, that are ``work`` entries
    together; None if there are none, or the question itself is too large.

    Columns that tell values apart make entries of all others, so where most do not fit, the last
    half is left out from the start.
    """
    columns = [(n, history(n)) for n in numbers[: work // _COLUMN]]
    while columns:
        values = _Values()
        if not values.told_apart(question):
            return None
        columns = _fitting(values, columns)
        found = _matrices(question, columns, values, work)
        if found is None or 2 * len(found.used) >= len(columns):
            return found
        columns = columns[: len(columns) // 2]
    return None


def _matrices(
    question: Prepared, columns: Sequence[tuple[int, Prepared]], values: _Values, work: int
) -> Related | None:
    labels = values.labels()
    sizes = {axis: int(ranks.max()) + 1 for axis, ranks in labels.items()}
    strides: dict[str, int] = {}
    step = 1
    for axis, size in sizes.items():
        strides[axis], step = step, step * size
    asked = _spread(question, labels, sizes, strides, work)
    if asked is None:
        return None
    left = work - len(asked[0])
    parts: dict[int, _Entries] = {}
    heights = []
    for number, prepared in columns:
        spread = _spread(prepared, labels, sizes, strides, left) if left > 0 else None
        if spread is not None:
            parts[number] = spread
            heights.append(prepared.column.height)
            left -= len(spread[0]) + _COLUMN
    if not parts:
        return None
    return Related(
        _stacked(list(parts.values()), step, heights),
        _stacked([asked], step, [question.column.height]),
        tuple(parts),
    )


def _fitting(values: _Values, columns: list[tuple[int, Prepared]]) -> list[tuple[int, Prepared]]:
    """Those whose cells are few enough together, as told apart by all of them."""
    if values.all_told_apart([prepared for _, prepared in columns]):
        return columns
    return [(number, prepared) for number, prepared in columns if values.told_apart(prepared)]


class _Values:
    """The values of each attribute, as far as some columns tell them apart."""

    def __init__(self) -> None:
        self._columns = 0
        self._signs: dict[str, npt.NDArray[np.uint64]] = {}
        self._sizes: dict[str, int] = {}

    def told_apart(self, prepared: Prepared) -> bool:
        """Take up a column, unless there would be more than `_CELLS` cells."""
        return self.all_told_apart([prepared])

    def all_told_apart(self, columns: Sequence[Prepared]) -> bool:
        """Take up all of the columns or none."""
        signs = dict(self._signs)
        for prepared in columns:
            mark = _mark(self._columns)
            self._columns += 1
            for axis, sums in prepared.signs.items():
                mixed = (sums ^ (sums >> np.uint64(29))) * mark
                signs[axis] = signs[axis] + mixed if axis in signs else mixed
        changed = {axis for prepared in columns for axis in prepared.signs}
        sizes = self._sizes | {axis: len(np.unique(signs[axis])) for axis in changed}
        if math.prod(sizes.values()) > _CELLS:
            return False
        self._signs, self._sizes = signs, sizes
        return True

    def labels(self) -> dict[str, IntArray]:
        """For each axis the number of each value, −1 for one that is like an earlier one."""
        labels = {}
        for axis, sums in self._signs.items():
            first = np.sort(np.unique(sums, return_index=True)[1])
            ranks = np.full(len(sums), -1, dtype=np.int64)
            ranks[first] = np.arange(len(first))
            labels[axis] = ranks
        return labels


_Entries = tuple[IntArray, IntArray, IntArray]


def _spread(
    prepared: Prepared,
    labels: Mapping[str, IntArray],
    sizes: Mapping[str, int],
    strides: Mapping[str, int],
    limit: int,
) -> _Entries | None:
    """Rows, cells and coefficients over all axes; None if there are more than ``limit``."""
    column = prepared.column
    if prepared.too_large:
        return None
    missing = [axis for axis in sizes if axis not in prepared.axes]
    parts = [
        _merged(factor, places, labels, strides)
        for factor, places in zip(column.factors, prepared.places, strict=True)
    ]
    parts += [_ones(sizes[axis], strides[axis]) for axis in missing]
    heights = [factor.height for factor in column.factors] + [1] * len(missing)
    rows, cells, coefficients = _ones(1, 0)
    for height, (own, places, weights) in zip(heights, parts, strict=True):
        if len(rows) * len(own) > (limit if column.selected is None else _PRODUCT):
            return None
        rows = (rows[:, None] * height + own).ravel()
        cells = (cells[:, None] + places).ravel()
        coefficients = (coefficients[:, None] * weights).ravel()
    if column.selected is None:
        return rows, cells, coefficients
    number = np.searchsorted(column.selected, rows)
    number[number == column.height] = 0
    kept = column.selected[number] == rows
    return None if kept.sum() > limit else (number[kept], cells[kept], coefficients[kept])


def _ones(size: int, stride: int) -> _Entries:
    return (
        np.zeros(size, dtype=np.int64),
        np.arange(size, dtype=np.int64) * stride,
        np.ones(size, dtype=np.int64),
    )


def _merged(
    factor: Factor,
    places: Sequence[IntArray],
    labels: Mapping[str, IntArray],
    strides: Mapping[str, int],
) -> _Entries:
    """The factor's entries over the values that are told apart."""
    if not factor.axes:
        return factor.rows, factor.cells, factor.coefficients
    if len(factor.axes) == 1:
        [axis], [at] = factor.axes, places
        rank = labels[axis][at]
        own = rank >= 0
        return factor.rows[own], rank[own] * strides[axis], factor.coefficients[own]
    ranks = [labels[axis][at] for axis, at in zip(factor.axes, places, strict=True)]
    kept = np.logical_and.reduce([rank >= 0 for rank in ranks])
    cells = sum(
        (rank * strides[axis] for axis, rank in zip(factor.axes, ranks, strict=True)),
        start=np.zeros(len(kept), dtype=np.int64),
    )
    return factor.rows[kept], cells[kept], factor.coefficients[kept]


def _stacked(parts: list[_Entries], cells: int, heights: list[int]) -> sparse.csr_matrix:
    starts = np.cumsum([0, *heights])
    rows = np.concatenate([part[0] + start for part, start in zip(parts, starts, strict=False)])
    columns, data = (np.concatenate([part[n] for part in parts]) for n in (1, 2))
    return sparse.csr_matrix((data, (rows, columns)), shape=(int(starts[-1]), cells))
