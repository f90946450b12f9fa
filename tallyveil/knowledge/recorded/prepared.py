"""Columns prepared for use together: marks for the values that each distinguishes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tallyveil import deadline
from tallyveil.arrays import IntArray
from tallyveil.cache import Cache, cached_property
from tallyveil.workload.workload import Column, Factor

__all__ = [
    "CELLS",
    "PreparedColumn",
    "Signs",
    "distinct",
    "fitting",
    "marks",
    "prepared",
    "prepared_column",
]

CELLS: Final = 100_000
_WIDEST: Final = 500_000  # entries of a column, at most

Signs: TypeAlias = npt.NDArray[np.uint64]

_Places: TypeAlias = tuple[tuple[IntArray, ...], ...]
"""By factor and by axis, the values of the factor's entries."""


@dataclass(frozen=True, eq=False)
class PreparedColumn:
    """A column, with ``signs``: for each axis a number for each value, equal only if the column
    does not distinguish the values (except with probability 2⁻⁶⁴).

    The ``seed`` of the marks they are made of must stay secret (`Accountant.seed`): an analyst who
    knew the marks could write SQL that makes two values look equal. No noise is drawn from it.
    """

    seed: int
    column: Column
    signs: Mapping[str, Signs]
    sizes: Mapping[str, int]
    """The number of values of each axis that are distinguished."""
    places: _Places
    """Left empty, to save memory, if the column alone distinguishes more than `CELLS` cells."""

    @cached_property
    def too_large(self) -> bool:
        """Whether a coefficient may not fit in 64 bits, or there are too many entries."""
        return self.column.largest >= 2**63 or _entries(self.column) > _WIDEST

    def fits(self, question: PreparedColumn) -> bool:
        """Whether the column and the question alone distinguish at most `CELLS` cells."""
        if self.too_large:
            return False
        own, others = self.sizes, question.sizes
        cells = math.prod(max(size, others.get(axis, 1)) for axis, size in own.items())
        return cells * math.prod(n for axis, n in others.items() if axis not in own) <= CELLS

    @cached_property
    def kind(self) -> tuple[tuple[str, ...], ...]:
        """The axes of its factors."""
        return tuple(factor.axes for factor in self.column.factors)

    @cached_property
    def fit_key(self) -> frozenset[tuple[str, int]] | None:
        """Equal for columns that `fits` treats alike; None for columns that never fit."""
        return None if self.too_large else frozenset(self.sizes.items())

    @property
    def weight(self) -> int:
        """About its bytes and those of its column."""
        arrays = [*self.signs.values(), *(at for places in self.places for at in places)]
        return 200 + self.column.nbytes + sum(100 + array.nbytes for array in arrays)

    @classmethod
    def of(cls, seed: int, column: Column) -> PreparedColumn:
        if _entries(column) > _WIDEST:
            return cls(seed, column, {}, {}, ((),) * len(column.factors))
        every = [_prepared_factor(seed, factor) for factor in column.factors]
        signs = {axis: own for one in every for axis, own in one.signs.items()}
        sizes = {axis: size for one in every for axis, size in one.sizes.items()}
        small = math.prod(sizes.values()) <= CELLS
        return cls(seed, column, signs, sizes, tuple(one.places if small else () for one in every))


@dataclass(frozen=True, eq=False)
class _PreparedFactor:
    """A factor's part of every `PreparedColumn` it is in. Many columns may share a factor."""

    seed: int
    factor: Factor
    signs: Mapping[str, Signs]
    sizes: Mapping[str, int]
    places: tuple[IntArray, ...]

    @classmethod
    def of(cls, seed: int, factor: Factor) -> _PreparedFactor:
        deadline.check()
        index = _index(factor)
        weights = factor.coefficients.view(np.uint64) * _marks(seed, 0, factor.height)[factor.rows]
        shape = factor.shape if len(factor.shape) > 1 else ()
        own = [_marks(seed, 1 + n, size)[index[n]] for n, size in enumerate(shape)]
        signs = {}
        for place, axis in enumerate(factor.axes):
            others = [mark for n, mark in enumerate(own) if n != place]
            sums = np.zeros(factor.shape[place], dtype=np.uint64)
            np.add.at(sums, index[place], math.prod(others, start=weights))
            signs[axis] = sums ^ (sums >> np.uint64(29))  # so that sums of signs differ too
        sizes = {axis: distinct(sums) for axis, sums in signs.items()}
        return cls(seed, factor, signs, sizes, index if math.prod(sizes.values()) <= CELLS else ())

    @property
    def weight(self) -> int:
        """About its bytes and those of its factor."""
        arrays = (*self.signs.values(), *self.places)
        own = 3 * self.factor.cells.nbytes
        return 200 + own + sum(100 + array.nbytes for array in arrays)


def _index(factor: Factor) -> tuple[IntArray, ...]:
    """The values of the factor's entries along each axis."""
    if len(factor.axes) < 2:
        return (factor.cells,) * len(factor.axes)
    every = np.unravel_index(factor.cells, factor.shape)
    return tuple(at.astype(np.int64, copy=False) for at in every)


def _prepared_factor(seed: int, factor: Factor) -> _PreparedFactor:
    """Cached by the factor object, for the latest seed."""
    found = _kept_factors.find(factor)
    if found is None or found.seed != seed:
        found = _PreparedFactor.of(seed, factor)
        _kept_factors.put(factor, found)
    return found


def _marks(seed: int, place: int, number: int) -> Signs:
    """Marks for a factor's rows (place 0), or for the values of its first, second, … axis."""
    own = [seed, 3 + place]  # others are seeded by 1 and 2
    key = seed, place, number
    return _kept_marks.get(key, lambda: marks(np.random.default_rng(own), number))


def _entries(column: Column) -> int:
    return sum(len(factor.cells) for factor in column.factors)


# With a column live about 50 objects of other caches, which last as long as it does. A factor is
# two objects. Where there are many charges, a statement visits a hundred of thousands of factors.
_kept: Final[Cache[PreparedColumn]] = Cache(4096, 1 << 27, lambda _, prepared: prepared.weight)
_kept_factors: Final[Cache[_PreparedFactor]] = Cache(8192, 1 << 26, lambda _, own: own.weight)
_kept_marks: Final[Cache[Signs]] = Cache(256, 1 << 24, lambda _, own: own.nbytes)


def prepared(seed: int, columns: Sequence[Column]) -> list[PreparedColumn]:
    """As `prepared_column`, for each column."""
    return [
        _prepared(seed, column) if kept is None or kept.seed != seed else kept
        for column, kept in zip(columns, _kept.find_all(columns), strict=True)
    ]


def prepared_column(seed: int, column: Column) -> PreparedColumn:
    """Apply `PreparedColumn.of`. Results are cached by column object, for the latest seed."""
    kept = _kept.find(column)
    return _prepared(seed, column) if kept is None or kept.seed != seed else kept


def _prepared(seed: int, column: Column) -> PreparedColumn:
    deadline.check()
    found = PreparedColumn.of(seed, column)
    _kept.put(column, found)
    return found


def fitting(columns: Sequence[PreparedColumn], questions: Sequence[PreparedColumn]) -> list[bool]:
    """Which of the columns fit beside each of the questions."""
    fits: dict[frozenset[tuple[str, int]] | None, bool] = {None: False}
    for one in columns:
        if one.fit_key not in fits:
            fits[one.fit_key] = all(one.fits(question) for question in questions)
    return [fits[one.fit_key] for one in columns]


def marks(random: np.random.Generator, number: int) -> Signs:
    """Random odd numbers. No product of them is 0."""
    return random.integers(0, 2**64, number, dtype=np.uint64) | np.uint64(1)


def distinct(signs: Signs) -> int:
    """The number of distinct signs, by sorting: hashing takes many times as long."""
    deadline.check()
    ordered = np.sort(signs)
    return 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
