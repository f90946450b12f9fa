"""Which recorded answers bear on a question, as one sparse matrix over the cells they tell apart.

Columns are Kronecker products over few attributes. The values of an attribute that no column tells
apart are one value here, attributes that none mentions are left out, and so are cells that are like
another in all rows, so that the matrix is small where the questions are simple.

What is taken up is bounded by the work it makes: by the matrix's entries, and its cells. What is
first in order (`relevance`) comes first, and what no longer fits is left out. An estimate from a
part of the history is unbiased too, and its law is what it says.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from scipy import sparse

from tallyveil import deadline
from tallyveil.arrays import IntArray
from tallyveil.knowledge.recorded.layout import Layout, Written
from tallyveil.knowledge.recorded.prepared import (
    CELLS,
    SEED,
    PreparedColumn,
    Signs,
    distinct,
    marks,
)
from tallyveil.knowledge.recorded.unlike import Products, mixed
from tallyveil.workload.workload import Factor

__all__ = ["COLUMN", "Related", "related"]

COLUMN: Final = 50  # entries that are as much work as a column itself
_FIRST: Final = 32  # columns that are laid out before it is known how many entries they make
_AT_ONCE: Final = 1 << 20  # values whose signs are summed


@dataclass(frozen=True, eq=False)
class Related:
    """``history`` (m×n) has the rows of the chosen columns one after the other, ``question`` (k×n)
    the question's; ``used`` are the chosen columns."""

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
    """The matrices of the questions' rows, one column after the other, and of those of the columns
    ``numbers``, from the first, that are ``work`` entries together; None if the questions
    themselves are too large.

    Columns that tell values apart make entries of all others. So a few of them are laid out, beside
    the ``first``, and then more, as long as most of those that are looked at fit.
    """
    values = _Values()
    if any(question.too_large for question in questions) or not values.told_apart(questions):
        return None
    best = _Trial(values, questions, 0, [], work)
    most_looked_at, size = min(len(numbers), work // COLUMN), first + _FIRST
    while best.size < most_looked_at:
        size = min(size, most_looked_at)
        trial = best.grown([(n, history(n)) for n in numbers[best.size : size]])
        if not trial.fits:
            if best.too_large:
                return None
            most_looked_at = size = size // 2
            continue
        best = trial
        if 4 * best.left < work:
            break
        size *= max(2, math.isqrt(work // max(1, work - best.left)))
    return None if best.too_large else best.written()


class _Trial:
    """The first ``size`` columns laid out, without those that tell too many cells ``apart``; as
    many of them are taken as there is the ``work`` for, of which so much is ``left``. It is laid
    out once somebody asks."""

    def __init__(
        self,
        apart: _Values,
        questions: Sequence[PreparedColumn],
        size: int,
        columns: list[tuple[int, PreparedColumn]],
        work: int,
    ) -> None:
        self.size = size
        self._apart, self._questions, self._columns, self._work = apart, questions, columns, work

    @cached_property
    def _laid(self) -> Written:
        """The questions, and after them the columns."""
        every = [*self._questions, *(prepared for _, prepared in self._columns)]
        return Written(self._apart.layout(), every)

    @cached_property
    def _asked(self) -> int:
        """The entries of the questions."""
        return sum(self._laid.entries[: len(self._questions)])

    @cached_property
    def _taken(self) -> tuple[list[int], int]:
        """The places of the columns, and the work that is left."""
        left, taken = self._work - self._asked, []
        for place, entries in enumerate(self._laid.entries[len(self._questions) :]):
            if entries <= left:
                taken.append(place)
                left -= entries + COLUMN
        return taken, left

    @property
    def left(self) -> int:
        return self._taken[1]

    @property
    def too_large(self) -> bool:
        """Whether the questions alone are more than the work."""
        return self._asked > self._work

    @property
    def fits(self) -> bool:
        """Whether the work is enough for most of what is looked at."""
        return self.left >= -COLUMN and 2 * len(self._taken[0]) >= len(self._columns)

    def grown(self, more: list[tuple[int, PreparedColumn]]) -> _Trial:
        """With more columns."""
        apart = copy.copy(self._apart)
        fitting = [one for one in more if not one[1].too_large]
        if not apart.told_apart([prepared for _, prepared in fitting]):
            fitting = [one for one in fitting if apart.told_apart([one[1]])]
        size, columns = self.size + len(more), self._columns + fitting
        return _Trial(apart, self._questions, size, columns, self._work)

    def written(self) -> Related:
        (taken, _), asked = self._taken, len(self._questions)
        used = tuple(self._columns[place][0] for place in taken)
        own, others = range(asked), [asked + place for place in taken]
        products = Products(self._laid, [*own, *others])
        cells = products.unlike()
        rows = None if cells is None else products.at(cells)
        if rows is not None:
            height = sum(one.column.height for one in self._questions)
            return Related(_compressed(rows[height:]), _compressed(rows[:height]), used)
        history, question = self._laid.matrix(others), self._laid.matrix(own)
        cells = _unlike(history, question) if cells is None else cells
        return Related(history[:, cells].tocsr(), question[:, cells].tocsr(), used)


def _compressed(rows: IntArray) -> sparse.csr_matrix:
    places = np.flatnonzero(rows)
    own, cells = np.divmod(places, max(1, rows.shape[1]))
    starts = np.searchsorted(own, np.arange(len(rows) + 1))
    found = sparse.csr_matrix(
        (rows.ravel()[places], cells.astype(np.int32), starts.astype(np.int32)), shape=rows.shape
    )
    found.has_canonical_format = True
    return found


def _unlike(*matrices: sparse.csc_matrix) -> IntArray:
    """The cells that are like none before them in all rows: each has a sum of marks, one for each
    row and coefficient."""
    random = np.random.default_rng([SEED, 2])
    [factor], sums = marks(random, 1), np.zeros(matrices[0].shape[1], dtype=np.uint64)
    for matrix in matrices:
        own = mixed(matrix.data.view(np.uint64) * factor)
        own *= marks(random, matrix.shape[0])[matrix.indices]
        total = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(own)])
        sums += total[matrix.indptr[1:]] - total[matrix.indptr[:-1]]
    return np.sort(np.unique(sums, return_index=True)[1])


class _Values:
    """The values of each attribute, as far as some columns tell them apart."""

    def __init__(self) -> None:
        self._random = np.random.default_rng([SEED, 1])
        self._factors: frozenset[Factor] = frozenset()
        self._signs: dict[str, Signs] = {}
        self._sizes: dict[str, int] = {}

    def told_apart(self, columns: Sequence[PreparedColumn]) -> bool:
        """Take up all of the columns, or none if there would be more than `CELLS` cells."""
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
        """With what is known of the axis, each times a mark of its own."""
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
            ranks = np.full(len(sums), -1, dtype=np.int64)
            ranks[first] = np.arange(len(first))
            labels[axis] = ranks
        return Layout(labels)
