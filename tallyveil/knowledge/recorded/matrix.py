"""Relevant recorded rows and a question's rows, as sparse matrices over the cells they distinguish.

Columns are Kronecker products over few attributes. Values of an attribute that no column
distinguishes are merged. Attributes that no column mentions are left out, as are cells that equal
another cell in all rows. So simple questions have small matrices.

The work, which is the number of entries, and the number of cells are bounded. Columns are added in
the order of `relevance`, and those that do not fit are left out. An estimate from a part of the
history is still unbiased, and its law is still exact.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import sparse

from tallyveil import deadline
from tallyveil.alike import ranks
from tallyveil.arrays import IntArray
from tallyveil.cache import cached_property
from tallyveil.knowledge.recorded.layout import ExpandedColumns, Layout, Rows
from tallyveil.knowledge.recorded.prepared import (
    CELLS,
    PreparedColumn,
    Signs,
    distinct,
    marks,
)
from tallyveil.workload.workload import Factor

__all__ = ["COLUMN", "Related", "Selection", "cells_of_all", "related", "selected"]

COLUMN: Final = 50  # the work of a column beside its entries
_FIRST: Final = 32  # columns expanded first, before the number of their entries is known
_AT_ONCE: Final = 1 << 20  # values whose marks are summed at once


@dataclass(frozen=True, eq=False)
class Related:
    """``history`` (m×n) has the rows of the ``used`` columns, one column after the other, and
    ``question`` (k×n) the question's rows."""

    history: sparse.csr_matrix
    question: sparse.csr_matrix
    used: tuple[int, ...]


def related(
    questions: Sequence[PreparedColumn],
    numbers: Sequence[int],
    history: Callable[[int], PreparedColumn],
    work: int,
    first: int = 0,
) -> Related | None:
    """The matrices of a selection (`selected`)."""
    found = selected(questions, numbers, history, work, first)
    return None if found is None else found.matrices()


def selected(
    questions: Sequence[PreparedColumn],
    numbers: Sequence[int],
    history: Callable[[int], PreparedColumn],
    work: int,
    first: int = 0,
) -> Selection | None:
    """Those columns ``numbers``, from the first, that fit in ``work`` entries together with the
    questions' rows; None if the questions alone are too large.

    Each column that distinguishes more values adds entries to all others. So it first expands the
    ``first`` columns and a few more, and then more as long as most of them fit.
    """
    values = _Values(questions[0].seed)
    if any(question.too_large for question in questions) or not values.add(questions):
        return None
    best = Selection(values, questions, 0, [], work)
    limit, size = min(len(numbers), work // COLUMN), first + _FIRST
    while best.size < limit:
        size = min(size, limit)
        trial = best.grown([(n, history(n)) for n in numbers[best.size : size]])
        if not trial.fits:
            if best.too_large:
                return None
            limit = size = size // 2
            continue
        best = trial
        if 4 * best.left < work:
            break
        size *= max(2, math.isqrt(work // max(1, work - best.left)))
    return None if best.too_large else best


def cells_of_all(
    questions: Sequence[PreparedColumn], history: Sequence[PreparedColumn], work: int
) -> int | None:
    """At most how many cells `related` tells apart; None if it would not take all columns."""
    found = selected(questions, range(len(history)), history.__getitem__, work)
    return found.cells if found is not None and len(found.used) == len(history) else None


class Selection:
    """The first ``size`` columns, without those that distinguish too many cells, expanded on first
    use. Columns are taken while their work fits in ``work``, of which ``left`` remains."""

    def __init__(
        self,
        values: _Values,
        questions: Sequence[PreparedColumn],
        size: int,
        columns: list[tuple[int, PreparedColumn]],
        work: int,
    ) -> None:
        self.size = size
        self._values, self._questions, self._columns, self._work = values, questions, columns, work

    @cached_property
    def _expanded(self) -> ExpandedColumns:
        """The questions, followed by the columns."""
        every = [*self._questions, *(prepared for _, prepared in self._columns)]
        return ExpandedColumns(self._values.layout(), every)

    @cached_property
    def _asked(self) -> int:
        """The number of the questions' entries."""
        return sum(self._expanded.entries[: len(self._questions)])

    @cached_property
    def _taken(self) -> tuple[list[int], int]:
        """The places of the columns taken, and the work that remains."""
        left, taken = self._work - self._asked, []
        for place, entries in enumerate(self._expanded.entries[len(self._questions) :]):
            if entries <= left:
                taken.append(place)
                left -= entries + COLUMN
        return taken, left

    @property
    def left(self) -> int:
        return self._taken[1]

    @property
    def too_large(self) -> bool:
        """Whether the questions alone exceed the work."""
        return self._asked > self._work

    @property
    def fits(self) -> bool:
        """Whether at least half of the columns fit."""
        return self.left >= -COLUMN and 2 * len(self._taken[0]) >= len(self._columns)

    @property
    def used(self) -> tuple[int, ...]:
        """The columns taken."""
        return tuple(self._columns[place][0] for place in self._taken[0])

    @property
    def recorded(self) -> tuple[int, ...]:
        """The columns taken that are not exact."""
        return tuple(number for number in self.used if number >= 0)

    def grown(self, more: list[tuple[int, PreparedColumn]]) -> Selection:
        """Return the selection from more columns."""
        values = copy.copy(self._values)
        fitting = [one for one in more if not one[1].too_large]
        if not values.add([prepared for _, prepared in fitting]):
            fitting = [one for one in fitting if values.add([one[1]])]
        size, columns = self.size + len(more), self._columns + fitting
        return Selection(values, self._questions, size, columns, self._work)

    @property
    def cells(self) -> int:
        return self._expanded.layout.cells

    def matrices(self) -> Related:
        asked = len(self._questions)
        own, others = range(asked), [asked + place for place in self._taken[0]]
        history, question = self._expanded.rows(others), self._expanded.rows(own)
        number = self._expanded.layout.cells
        cells = _distinct_cells(self._questions[0].seed, number, history, question)
        places = np.full(number, -1, dtype=np.int64)
        places[cells] = np.arange(len(cells))
        history_rows, asked_rows = (own.taken(places, len(cells)) for own in (history, question))
        return Related(history_rows, asked_rows, self.used)


def _distinct_cells(seed: int, number: int, *matrices: Rows) -> IntArray:
    """The first of each set of cells equal in all rows, compared by sums of marks."""
    random = np.random.default_rng([seed, 2])
    [factor], sums = marks(random, 1), np.zeros(number, dtype=np.uint64)
    for matrix in matrices:
        own = _mixed(matrix.coefficients.view(np.uint64) * factor)
        own *= marks(random, matrix.height)[matrix.rows]
        np.add.at(sums, matrix.cells, own)
    return np.sort(np.unique(sums, return_index=True)[1])


def _mixed(values: Signs) -> Signs:
    """Mix high bits into low ones, in place: multiples of 2ⁿ otherwise differ in few. 0 stays 0."""
    values ^= values >> np.uint64(32)
    return values


class _Values:
    """The values of each attribute that the columns added so far distinguish."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng([seed, 1])
        self._factors: frozenset[Factor] = frozenset()
        self._signs: dict[str, Signs] = {}
        self._sizes: dict[str, int] = {}

    def add(self, columns: Sequence[PreparedColumn]) -> bool:
        """Add the columns, or return False if that would make more than `CELLS` cells."""
        factors: dict[Factor, Mapping[str, Signs]] = {}
        for prepared in columns:
            if prepared.signs:
                factors.update(dict.fromkeys(prepared.column.factors, prepared.signs))
        found: dict[str, list[Signs]] = {}
        for factor in (factor for factor in factors if factor not in self._factors):
            for axis in factor.axes:
                found.setdefault(axis, []).append(factors[factor][axis])
        sums = {axis: self._sum(axis, own) for axis, own in found.items()}
        sizes = self._sizes | {axis: distinct(own) for axis, own in sums.items()}
        if math.prod(sizes.values()) > CELLS:
            return False
        self._factors |= factors.keys()
        self._signs, self._sizes = self._signs | sums, sizes
        return True

    def _sum(self, axis: str, every: Sequence[Signs]) -> Signs:
        """The axis's signs so far, plus each of ``every`` times a mark of its own."""
        total = self._signs.get(axis, np.zeros_like(every[0]))
        at_once = max(1, _AT_ONCE // max(1, len(total)))
        for start in range(0, len(every), at_once):
            deadline.check()
            some = np.array(every[start : start + at_once])
            total = total + marks(self._random, len(some)) @ some
        return total

    def layout(self) -> Layout:
        labels = {}
        for axis, sums in self._signs.items():
            first = np.sort(np.unique(sums, return_index=True)[1])
            labels[axis] = ranks(first, len(sums))
        return Layout(labels)
