"""Find equal rows or columns of sparse matrices, such as the cells that no row distinguishes, and
runs of equal entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tallyveil.arrays import BoolArray, IntArray

__all__ = [
    "changes",
    "coded",
    "distinct_rows",
    "group_equal",
    "ranks",
    "run_starts",
    "scrambled",
    "stretches",
    "unsigned",
]

_Marks = npt.NDArray[np.uint64]
_List = tuple[IntArray, Sequence[IntArray]]


def group_equal(labels: Sequence[IntArray], *lists: _List) -> IntArray:
    """For each item, the index of the first item equal to it. Two items are equal if they agree in
    all ``labels`` and ``lists``. A list (starts, columns) gives item i the entries
    ``starts[i]`` to ``starts[i + 1]`` of each of its columns.

    Candidates are found by hash sums and then compared. Items whose hashes collide but which
    differ are never reported as equal; an item that collides so keeps its own index.
    """
    number = len(lists[0][0]) - 1
    every = np.arange(number)
    labels = [*labels, *(np.diff(starts).astype(np.int64) for starts, _ in lists)]
    sums = scrambled(*labels)
    _, sort, times = np.unique(sums, return_inverse=True, return_counts=True)
    rest = np.flatnonzero(times[sort.ravel()] > 1)  # labels alone distinguish the others
    if len(rest) < number:
        if len(rest):
            every[rest] = rest[
                group_equal([label[rest] for label in labels], *_selected(lists, rest))
            ]
        return every
    for starts, columns in lists:
        places = np.arange(len(columns[0])) - np.repeat(starts[:-1], np.diff(starts))
        mixed = places.astype(np.uint64)
        for column in columns:
            mixed = _mixed(mixed + column.view(np.uint64))
        total = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(mixed)])
        sums = _mixed(sums + total[starts[1:]] - total[starts[:-1]])
    _, first, sort = np.unique(sums, return_index=True, return_inverse=True)
    result: IntArray = first[sort.ravel()]
    for starts, columns in lists:
        lengths = np.diff(starts)
        same = lengths == lengths[result]
        mine = np.repeat(starts[:-1], lengths)
        theirs = np.repeat(np.where(same, starts[result], starts[:-1]), lengths)
        offsets = np.arange(len(columns[0])) - mine
        for column in columns:
            differs = column != column[theirs + offsets]
            same[np.repeat(every, lengths)[differs]] = False
        result = np.where(same, result, every)
    for label in labels:
        result = np.where(label == label[result], result, every)
    return result


def distinct_rows(matrix: sparse.csr_matrix) -> IntArray:
    """The places of the distinct rows of an integer matrix, the first of each (`group_equal`)."""
    if not matrix.has_sorted_indices:
        matrix = matrix.sorted_indices()
    entries = [matrix.indices.astype(np.int64), matrix.data.astype(np.int64)]
    return np.unique(group_equal([], (matrix.indptr.astype(np.int64), entries)))


def _selected(lists: Sequence[_List], which: IntArray) -> Iterator[_List]:
    """The lists of the items ``which`` only."""
    for starts, columns in lists:
        of, places = stretches(starts, which)
        ends = np.bincount(of, minlength=len(which)).cumsum()
        yield np.append(0, ends), [column[places] for column in columns]


def coded(values: IntArray) -> tuple[IntArray, IntArray]:
    """Return (codes, distinct) with values = distinct[codes] and distinct ascending; values ≥ 0."""
    if values.size and int(values.max()) <= max(1 << 12, 4 * values.size):
        distinct = np.flatnonzero(np.bincount(values.ravel()))
        rank = np.zeros(int(distinct[-1]) + 1, dtype=np.int64)
        rank[distinct] = np.arange(len(distinct))
        return rank[values], distinct
    distinct, codes = np.unique(values, return_inverse=True)
    return codes.reshape(values.shape).astype(np.int64, copy=False), distinct


def ranks(chosen: npt.NDArray[np.integer], size: int) -> IntArray:
    """For each number below ``size`` its place among the distinct ``chosen``, −1 for none."""
    found = np.full(size, -1, dtype=np.int64)
    found[chosen] = np.arange(len(chosen))
    return found


def changes(*columns: npt.NDArray[Any]) -> BoolArray:
    """Whether each entry differs from the one before it in some column; True for the first."""
    found = np.ones(len(columns[0]), dtype=np.bool_)
    np.not_equal(columns[0][1:], columns[0][:-1], out=found[1:])
    for column in columns[1:]:
        found[1:] |= column[1:] != column[:-1]
    return found


def run_starts(*columns: npt.NDArray[Any]) -> IntArray:
    """The place where each run begins of entries that are equal in every column."""
    return np.flatnonzero(changes(*columns))


def stretches(starts: npt.NDArray[np.integer], which: IntArray) -> tuple[IntArray, IntArray]:
    """Concatenate the ranges ``starts[i]`` to ``starts[i + 1]`` for each i of ``which``.

    Returns (of, places): for each place in these ranges, the position of its i in ``which``, and
    the place itself.
    """
    lengths = starts[which + 1] - starts[which]
    ends = np.cumsum(lengths)
    of = np.repeat(np.arange(len(which)), lengths)
    return of, np.arange(len(of)) + (starts[which] - ends + lengths)[of]


def unsigned(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    """The integer matrix with coefficients modulo 2⁶⁴, for sums that tell rows or cells apart."""
    data = matrix.data.astype(np.int64).view(np.uint64)
    return sparse.csr_matrix((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def scrambled(*columns: IntArray) -> _Marks:
    """A hash of each row of ``columns``. Rows that are equal in all columns have equal hashes."""
    marks = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        marks = _mixed(marks + column.view(np.uint64))
    return marks


def _mixed(values: _Marks) -> _Marks:
    mixed = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: _Marks = mixed ^ (mixed >> np.uint64(31))
    return result
