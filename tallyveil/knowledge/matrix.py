"""Which recorded answers bear on a question, as one sparse matrix over the cells they tell apart.

Columns are Kronecker products over few attributes. The values of an attribute that no column tells
apart are one value here, and attributes that none mentions are left out, so that the matrix is
small where the questions are simple.

What is taken up is bounded by the work it makes: by the matrix's entries, and its cells. What is
first in order (`candidates`) comes first, and what no longer fits is left out. An estimate from a
part of the history is unbiased too, and its law is what it says.
"""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tallyveil import deadline
from tallyveil.cache import Cache
from tallyveil.knowledge.layout import Entries, Layout, Places, Work
from tallyveil.workload.workload import Column, IntArray

__all__ = ["CELLS", "Prepared", "Related", "most", "prepared", "related"]

CELLS: Final = 100_000
_WIDEST: Final = 500_000  # entries of a column that is looked at
_COLUMN: Final = 50  # entries that are as much work as a column itself

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
    sizes: Mapping[str, int]
    """How many values of each axis are told apart."""
    places: Places
    """Of each factor's entries, along each of its axes; none if the column by itself tells more
    cells apart than are looked at, so that it is small enough to be kept in mind."""

    @cached_property
    def too_large(self) -> bool:
        """Whether a coefficient may not be an int64, or there are more than are looked at."""
        return self.column.largest >= 2**63 or _entries(self.column) > _WIDEST

    def fits(self, question: Prepared) -> bool:
        """Whether it can be looked at beside the question, if nothing else is."""
        if self.too_large:
            return False
        own, others = self.sizes, question.sizes
        cells = math.prod(max(size, others.get(axis, 1)) for axis, size in own.items())
        return cells * math.prod(n for axis, n in others.items() if axis not in own) <= CELLS

    @cached_property
    def alike(self) -> tuple[str, ...] | None:
        """Equal for columns that can be written out at once; None for those that cannot."""
        column = self.column
        single = len(column.factors) == 1 and column.selected is None
        return column.axes if single and not self.too_large else None

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
        if _entries(column) > _WIDEST:
            return cls(column, frozenset(column.axes), signs, {}, ((),) * len(column.factors))
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
                signs[axis] = sums ^ (sums >> np.uint64(29))  # sums of them are told apart too
        sizes = {axis: _distinct(sums) for axis, sums in signs.items()}
        if math.prod(sizes.values()) > CELLS:
            places = [()] * len(places)
        return cls(column, frozenset(column.axes), signs, sizes, tuple(places))


def _entries(column: Column) -> int:
    return sum(len(factor.cells) for factor in column.factors)


_kept: Final[Cache[Prepared]] = Cache(4096, 1 << 27, lambda _, prepared: prepared.weight)


def prepared(column: Column) -> Prepared:
    """As `Prepared.of`, kept for some time for this very object."""
    return _kept.get(column, lambda: Prepared.of(column))


def _marks(random: np.random.Generator, number: int) -> npt.NDArray[np.uint64]:
    """Odd, so that no product of them is 0."""
    return random.integers(0, 2**64, number, dtype=np.uint64) | np.uint64(1)


def _endless_marks() -> Iterator[np.uint64]:
    random = np.random.default_rng([_SEED, 1])
    while True:
        yield from _marks(random, 1024)


def most(work: int) -> int:
    """How many columns may take part with so much work."""
    return work // _COLUMN


@dataclass(frozen=True, eq=False)
class Related:
    """``history`` (m×n) has the rows of the chosen columns one after the other, ``question`` (k×n)
    the question's; ``used`` are the chosen columns."""

    history: sparse.csr_matrix
    question: sparse.csr_matrix
    used: tuple[int, ...]


def related(
    questions: Sequence[Prepared],
    numbers: Sequence[int],
    history: Callable[[int], Prepared],
    work: int,
) -> Related | None:
    """The matrices of the questions' rows, one column after the other, and of those of the columns
    ``numbers``, from the first, that are ``work`` entries together; None if the questions
    themselves are too large.

    Columns that tell values apart make entries of all others, so where most do not fit, it is done
    again with fewer.
    """
    columns = [(n, history(n)) for n in numbers[: most(work)]]
    while True:
        values = _Values()
        if not values.told_apart(questions):
            return None
        columns = _fitting(values, columns)
        found = _matrices(questions, columns, values.layout(), work)
        if found is None or 2 * len(found.used) >= len(columns):
            return found
        columns = columns[: min(len(columns) // 2, 4 * len(found.used))]


def _matrices(
    questions: Sequence[Prepared],
    columns: Sequence[tuple[int, Prepared]],
    layout: Layout,
    work: int,
) -> Related | None:
    asked: list[Entries] = []
    left = Work(work, _COLUMN)
    for question in questions:
        own = (
            None
            if question.too_large or left.left < 0
            else layout.spread(question.column, question.places, left.left)
        )
        if own is None:
            return None
        asked.append(own)
        left.left -= len(own[0])
    used: list[int] = []
    parts: list[Entries] = []
    heights: list[int] = []
    for alike, run in itertools.groupby(columns, lambda one: one[1].alike):
        deadline.check()
        some = list(run)
        for taken, entries in _spread([one for _, one in some], alike is not None, layout, left):
            used += [some[n][0] for n in taken]
            heights.append(sum(some[n][1].column.height for n in taken))
            parts.append(entries)
    return Related(
        _stacked(parts, layout.cells, heights),
        _stacked(asked, layout.cells, [question.column.height for question in questions]),
        tuple(used),
    )


def _spread(
    some: Sequence[Prepared], alike: bool, layout: Layout, work: Work
) -> Iterator[tuple[list[int], Entries]]:
    """Which there is the work for, and their entries."""
    if alike:
        columns, places = [one.column for one in some], [one.places for one in some]
        yield layout.spread_alike(columns, places, work)
        return
    for n, one in enumerate(some):
        deadline.check()
        if work.left > 0 and not one.too_large:
            entries = layout.spread(one.column, one.places, work.left)
            if entries is not None and work.allows(len(entries[0])):
                yield [n], entries


def _fitting(values: _Values, columns: list[tuple[int, Prepared]]) -> list[tuple[int, Prepared]]:
    """Those whose cells are few enough together, as told apart by all of them."""
    if values.told_apart([prepared for _, prepared in columns]):
        return columns
    return [(number, prepared) for number, prepared in columns if values.told_apart([prepared])]


def _distinct(signs: npt.NDArray[np.uint64]) -> int:
    """How many there are, by sorting: counting by a hash takes many times as long."""
    deadline.check()
    ordered = np.sort(signs)
    return 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))


class _Values:
    """The values of each attribute, as far as some columns tell them apart."""

    def __init__(self) -> None:
        self._marks = _endless_marks()
        self._signs: dict[str, npt.NDArray[np.uint64]] = {}
        self._sizes: dict[str, int] = {}

    def told_apart(self, columns: Sequence[Prepared]) -> bool:
        """Take up all of the columns, or none if there would be more than `CELLS` cells."""
        signs = dict(self._signs)
        for prepared in columns:
            mark = next(self._marks)
            for axis, sums in prepared.signs.items():
                signs[axis] = signs[axis] + sums * mark if axis in signs else sums * mark
        changed = {axis for prepared in columns for axis in prepared.signs}
        sizes = self._sizes | {axis: _distinct(signs[axis]) for axis in changed}
        if math.prod(sizes.values()) > CELLS:
            return False
        self._signs, self._sizes = signs, sizes
        return True

    def layout(self) -> Layout:
        labels = {}
        for axis, sums in self._signs.items():
            first = np.sort(np.unique(sums, return_index=True)[1])
            ranks = np.full(len(sums), -1, dtype=np.int64)
            ranks[first] = np.arange(len(first))
            labels[axis] = ranks
        return Layout(labels)


def _stacked(parts: list[Entries], cells: int, heights: list[int]) -> sparse.csr_matrix:
    if not parts:
        return sparse.csr_matrix((0, cells), dtype=np.int64)
    starts = np.cumsum([0, *heights])
    rows = np.concatenate([part[0] + start for part, start in zip(parts, starts, strict=False)])
    columns, data = (np.concatenate([part[n] for part in parts]) for n in (1, 2))
    return sparse.csr_matrix((data, (rows, columns)), shape=(int(starts[-1]), cells))
