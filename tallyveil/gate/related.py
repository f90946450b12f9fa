"""Which recorded answers bear on a question, as one sparse matrix over the cells they tell apart.

Columns are Kronecker products over few attributes. The values of an attribute that no column tells
apart are one value here, and attributes that none mentions are left out, so that the matrix is
small where the questions are simple.

What is taken up is bounded: at most `_COLUMNS` recorded columns, and as many fewer as keep the
matrix below `_CELLS` cells and `_ENTRIES` entries. Those that hold the very rows of the question
come first, then those that mention the fewest other attributes, the latest first. An estimate from
a part of the history is unbiased too, and its law is what it says.
"""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tallyveil.rewriter.workload import Column, Factor, IntArray

__all__ = ["Prepared", "Related", "choose", "related"]

_COLUMNS: Final = 16
_CELLS: Final = 100_000
_ENTRIES: Final = 100_000

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

    @classmethod
    def of(cls, column: Column) -> Prepared:
        random = np.random.default_rng(_SEED)
        signs: dict[str, npt.NDArray[np.uint64]] = {}
        for factor in column.factors:
            if not factor.axes:
                continue
            index = np.unravel_index(factor.cells, factor.shape)
            rows = _marks(random, factor.height)[factor.rows]
            marks = [_marks(random, size)[i] for size, i in zip(factor.shape, index, strict=True)]
            weights = factor.coefficients.view(np.uint64) * rows
            for place, axis in enumerate(factor.axes):
                others = [mark for n, mark in enumerate(marks) if n != place]
                terms = math.prod(others, start=weights)
                sums = np.zeros(factor.shape[place], dtype=np.uint64)
                np.add.at(sums, index[place], terms)
                signs[axis] = sums
        return cls(column, frozenset(column.axes), signs)


def _marks(random: np.random.Generator, number: int) -> npt.NDArray[np.uint64]:
    """Odd, so that no product of them is 0."""
    return random.integers(0, 2**64, number, dtype=np.uint64) | np.uint64(1)


@dataclass(frozen=True, eq=False)
class Related:
    """``history`` (m×n) has the rows of the chosen columns one after the other, ``question`` (k×n)
    the question's; ``used`` are the chosen columns."""

    history: sparse.csr_matrix
    question: sparse.csr_matrix
    used: tuple[int, ...]


def choose(question: Prepared, same: Sequence[int], history: Sequence[Prepared]) -> tuple[int, ...]:
    """The numbers of the columns of the history to look at, the most useful first; ``same`` are
    those that hold some of the question's own rows."""
    first = sorted(set(same), reverse=True)[:_COLUMNS]
    taken = set(first)
    others = sorted(
        (n for n in range(len(history)) if n not in taken),
        key=lambda n: (len(history[n].axes - question.axes), -n),
    )
    return (*first, *itertools.islice(others, _COLUMNS - len(first)))


def related(
    question: Prepared, chosen: tuple[int, ...], history: Sequence[Prepared]
) -> Related | None:
    """The matrices of as many of the chosen columns, from the first, as are small enough together;
    None if there are none, or the question itself is too large."""
    while chosen:
        found = _matrices(question, [history[n] for n in chosen])
        if found is not None:
            return Related(*found, chosen)
        chosen = chosen[: len(chosen) // 2]
    return None


def _matrices(
    question: Prepared, history: list[Prepared]
) -> tuple[sparse.csr_matrix, sparse.csr_matrix] | None:
    labels = _labels([question, *history])
    sizes = {axis: int(ranks.max()) + 1 for axis, ranks in labels.items()}
    total = math.prod(sizes.values())
    if total > _CELLS:
        return None
    strides: dict[str, int] = {}
    step = 1
    for axis, size in sizes.items():
        strides[axis], step = step, step * size
    left, parts = _ENTRIES, []
    for prepared in [*history, question]:
        spread = _spread(prepared.column, labels, sizes, strides, left)
        if spread is None:
            return None
        parts.append(spread)
        left -= len(spread[0])
    return _stacked(parts[:-1], total, [p.column.height for p in history]), _stacked(
        parts[-1:], total, [question.column.height]
    )


def _labels(columns: list[Prepared]) -> dict[str, IntArray]:
    """For each axis the number of each value, −1 for one that is like an earlier one."""
    signs: dict[str, npt.NDArray[np.uint64]] = {}
    marks = _marks(np.random.default_rng(_SEED + 1), len(columns))
    for mark, prepared in zip(marks, columns, strict=True):
        for axis, sums in prepared.signs.items():
            mixed = (sums ^ (sums >> np.uint64(29))) * mark
            signs[axis] = signs[axis] + mixed if axis in signs else mixed
    labels = {}
    for axis, sums in signs.items():
        first = np.sort(np.unique(sums, return_index=True)[1])
        ranks = np.full(len(sums), -1, dtype=np.int64)
        ranks[first] = np.arange(len(first))
        labels[axis] = ranks
    return labels


_Entries = tuple[IntArray, IntArray, IntArray]


def _spread(
    column: Column,
    labels: Mapping[str, IntArray],
    sizes: Mapping[str, int],
    strides: Mapping[str, int],
    limit: int,
) -> _Entries | None:
    """Rows, cells and coefficients over all axes; None if there are more than ``limit``."""
    factors = tuple(_merged(factor, labels, sizes) for factor in column.factors)
    small = Column(factors, column.multiplier, column.selected).multiplied_out(_CELLS)
    if small is None:
        return None
    missing = [axis for axis in sizes if axis not in small.axes]
    repeats = math.prod(sizes[axis] for axis in missing)
    if len(small.rows) * repeats > limit:
        return None
    index = np.unravel_index(small.cells, small.shape) if small.axes else ()
    cells = np.zeros(len(small.rows), dtype=np.int64)
    for axis, places in zip(small.axes, index, strict=True):
        cells += places * strides[axis]
    offsets = np.zeros(1, dtype=np.int64)
    for axis in missing:
        steps = np.arange(sizes[axis], dtype=np.int64) * strides[axis]
        offsets = (offsets[:, None] + steps).ravel()
    return (
        np.repeat(small.rows, repeats),
        (cells[:, None] + offsets).ravel(),
        np.repeat(small.coefficients, repeats),
    )


def _merged(factor: Factor, labels: Mapping[str, IntArray], sizes: Mapping[str, int]) -> Factor:
    """The factor over the values that are told apart."""
    if not factor.axes:
        return factor
    shape = tuple(sizes[axis] for axis in factor.axes)
    index = np.unravel_index(factor.cells, factor.shape)
    ranks = [labels[axis][i] for axis, i in zip(factor.axes, index, strict=True)]
    keep = np.logical_and.reduce([rank >= 0 for rank in ranks])
    cells = np.ravel_multi_index(tuple(rank[keep] for rank in ranks), shape).astype(np.int64)
    return Factor(
        factor.axes, shape, factor.height, factor.rows[keep], cells, factor.coefficients[keep]
    )


def _stacked(parts: list[_Entries], cells: int, heights: list[int]) -> sparse.csr_matrix:
    starts = np.cumsum([0, *heights])
    rows = np.concatenate([part[0] + start for part, start in zip(parts, starts, strict=False)])
    columns, data = (np.concatenate([part[n] for part in parts]) for n in (1, 2))
    return sparse.csr_matrix((data, (rows, columns)), shape=(int(starts[-1]), cells))
