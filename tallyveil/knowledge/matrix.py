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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import sparse

from tallyveil import deadline
from tallyveil.knowledge.layout import Layout, Written
from tallyveil.knowledge.prepared import CELLS, SEED, Prepared, Signs, distinct, marks
from tallyveil.workload.workload import Factor

__all__ = ["Related", "most", "related"]

_COLUMN: Final = 50  # entries that are as much work as a column itself
_AT_ONCE: Final = 1 << 20  # values whose signs are summed


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
        if any(question.too_large for question in questions) or not values.told_apart(questions):
            return None
        columns = _fitting(values, columns)
        layout = values.layout()
        asked = Written(layout, questions)
        left = work - sum(asked.entries)
        if left < 0:
            return None
        looked_at = [(n, prepared) for n, prepared in columns if not prepared.too_large]
        recorded = Written(layout, [prepared for _, prepared in looked_at])
        taken = _taken(recorded.entries, left)
        if 2 * len(taken) >= len(columns):
            return Related(
                recorded.matrix(taken),
                asked.matrix(range(len(questions))),
                tuple(looked_at[n][0] for n in taken),
            )
        columns = columns[: min(len(columns) // 2, 4 * len(taken))]


def _taken(entries: Sequence[int], left: int) -> list[int]:
    """Those of so many entries that there is the work for, from the first."""
    taken = []
    for place, number in enumerate(entries):
        if number <= left:
            taken.append(place)
            left -= number + _COLUMN
    return taken


def _fitting(values: _Values, columns: list[tuple[int, Prepared]]) -> list[tuple[int, Prepared]]:
    """Those whose cells are few enough together, as told apart by all of them."""
    if values.told_apart([prepared for _, prepared in columns]):
        return columns
    return [(number, prepared) for number, prepared in columns if values.told_apart([prepared])]


class _Values:
    """The values of each attribute, as far as some columns tell them apart."""

    def __init__(self) -> None:
        self._random = np.random.default_rng([SEED, 1])
        self._factors: frozenset[Factor] = frozenset()
        self._signs: dict[str, Signs] = {}
        self._sizes: dict[str, int] = {}

    def told_apart(self, columns: Sequence[Prepared]) -> bool:
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
