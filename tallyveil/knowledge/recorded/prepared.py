"""Recorded columns made ready to be looked at together: what they tell apart, and by how much."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tallyveil import deadline
from tallyveil.arrays import IntArray
from tallyveil.cache import Cache
from tallyveil.workload.workload import Column, Factor

__all__ = [
    "CELLS",
    "SEED",
    "PreparedColumn",
    "Signs",
    "_Places",
    "distinct",
    "fitting",
    "marks",
    "prepared",
]

CELLS: Final = 100_000
_WIDEST: Final = 500_000  # entries of a column that is looked at

SEED: Final = secrets.randbits(128)
"""Nobody who writes SQL may know it: with known marks, two values could be made to look alike.

Each process may have its own: marks are of public coefficients only, no noise is drawn from them,
and whatever they are, they tell the same values apart but for a chance of 2⁻⁶⁴.
"""

Signs: TypeAlias = npt.NDArray[np.uint64]

_Places: TypeAlias = tuple[tuple[IntArray, ...], ...]
"""By factor, and by its axes, the values of its entries."""


@dataclass(frozen=True, eq=False)
class PreparedColumn:
    """A column, and for each of its axes a number for each value, equal (but for a chance of
    2⁻⁶⁴) only where the column does not tell the values apart."""

    column: Column
    axes: frozenset[str]
    signs: Mapping[str, Signs]
    sizes: Mapping[str, int]
    """How many values of each axis are told apart."""
    places: _Places
    """Of each factor's entries, along each of its axes; none if the column by itself tells more
    cells apart than are looked at, so that it is small enough to be kept in mind."""

    @cached_property
    def too_large(self) -> bool:
        """Whether a coefficient may not be an int64, or there are more than are looked at."""
        return self.column.largest >= 2**63 or _entries(self.column) > _WIDEST

    def fits(self, question: PreparedColumn) -> bool:
        """Whether it can be looked at beside the question, if nothing else is."""
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
    def told_apart(self) -> frozenset[tuple[str, int]] | None:
        """Equal for columns that `fits` says the same of; None for those that never do."""
        return None if self.too_large else frozenset(self.sizes.items())

    @property
    def weight(self) -> int:
        """Its bytes, and the column's, which it keeps."""
        arrays = [*self.signs.values(), *(at for places in self.places for at in places)]
        return 200 + self.column.nbytes + sum(100 + array.nbytes for array in arrays)

    @classmethod
    def of(cls, column: Column) -> PreparedColumn:
        axes, factors = frozenset(column.axes), column.factors
        if _entries(column) > _WIDEST:
            return cls(column, axes, {}, {}, ((),) * len(factors))
        every = [_prepared_factor(factor) for factor in factors]
        signs = {axis: own for one in every for axis, own in one.signs.items()}
        sizes = {axis: size for one in every for axis, size in one.sizes.items()}
        small = math.prod(sizes.values()) <= CELLS
        return cls(column, axes, signs, sizes, tuple(one.places if small else () for one in every))


@dataclass(frozen=True, eq=False)
class _PreparedFactor:
    """What a factor adds to each `PreparedColumn` that it is in: many columns have it."""

    factor: Factor
    signs: Mapping[str, Signs]
    sizes: Mapping[str, int]
    places: tuple[IntArray, ...]

    @classmethod
    def of(cls, factor: Factor) -> _PreparedFactor:
        deadline.check()
        index = _index(factor)
        weights = factor.coefficients.view(np.uint64) * _marks(0, factor.height)[factor.rows]
        shape = factor.shape if len(factor.shape) > 1 else ()
        own = [_marks(1 + n, size)[index[n]] for n, size in enumerate(shape)]
        signs = {}
        for place, axis in enumerate(factor.axes):
            others = [mark for n, mark in enumerate(own) if n != place]
            sums = np.zeros(factor.shape[place], dtype=np.uint64)
            np.add.at(sums, index[place], math.prod(others, start=weights))
            signs[axis] = sums ^ (sums >> np.uint64(29))  # sums of them are told apart too
        sizes = {axis: distinct(sums) for axis, sums in signs.items()}
        return cls(factor, signs, sizes, index if math.prod(sizes.values()) <= CELLS else ())

    @property
    def weight(self) -> int:
        """Its bytes, and the factor's, which it keeps."""
        arrays = (*self.signs.values(), *self.places)
        own = 3 * self.factor.cells.nbytes
        return 200 + own + sum(100 + array.nbytes for array in arrays)


def _index(factor: Factor) -> tuple[IntArray, ...]:
    """Of the factor's entries, along each of its axes."""
    if len(factor.axes) < 2:
        return (factor.cells,) * len(factor.axes)
    every = np.unravel_index(factor.cells, factor.shape)
    return tuple(at.astype(np.int64, copy=False) for at in every)


def _prepared_factor(factor: Factor) -> _PreparedFactor:
    """Kept for some time for this very factor."""
    return _kept_factors.get(factor, lambda: _PreparedFactor.of(factor))


def _marks(place: int, number: int) -> Signs:
    """Of a factor's rows (place 0), or of the values of its first, second, … axis."""
    seed = [SEED, 3 + place]  # others are seeded by 1 and 2
    return _kept_marks.get((place, number), lambda: marks(np.random.default_rng(seed), number))


def _entries(column: Column) -> int:
    return sum(len(factor.cells) for factor in column.factors)


_kept: Final[Cache[PreparedColumn]] = Cache(4096, 1 << 27, lambda _, prepared: prepared.weight)
_kept_factors: Final[Cache[_PreparedFactor]] = Cache(4096, 1 << 26, lambda _, own: own.weight)
_kept_marks: Final[Cache[Signs]] = Cache(256, 1 << 24, lambda _, own: own.nbytes)


def prepared(columns: Sequence[Column]) -> list[PreparedColumn]:
    """As `PreparedColumn.of`, kept for some time for these very objects."""
    found = []
    for column, kept in zip(columns, _kept.find_all(columns), strict=True):
        one = kept
        if one is None:
            deadline.check()
            one = PreparedColumn.of(column)
            _kept.put(column, one)
        found.append(one)
    return found


def fitting(columns: Sequence[PreparedColumn], questions: Sequence[PreparedColumn]) -> list[bool]:
    """Which of the columns fit beside each of the questions."""
    said: dict[frozenset[tuple[str, int]] | None, bool] = {None: False}
    for one in columns:
        if one.told_apart not in said:
            said[one.told_apart] = all(one.fits(question) for question in questions)
    return [said[one.told_apart] for one in columns]


def marks(random: np.random.Generator, number: int) -> Signs:
    """Odd, so that no product of them is 0."""
    return random.integers(0, 2**64, number, dtype=np.uint64) | np.uint64(1)


def distinct(signs: Signs) -> int:
    """How many there are, by sorting: counting by a hash takes many times as long."""
    deadline.check()
    ordered = np.sort(signs)
    return 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
