"""Which of many sparse rows or columns are equal: the cells that no row tells apart, say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["alike", "coded", "scrambled"]

_Ints = npt.NDArray[np.int64]
_Marks = npt.NDArray[np.uint64]


def alike(labels: Sequence[_Ints], *lists: tuple[_Ints, Sequence[_Ints]]) -> _Ints:
    """For each of some things the first that is equal to it: in all ``labels``, and in ``lists``,
    of which each has the stretch ``starts[i]`` to ``starts[i + 1]`` for the i-th.

    Found by sums of scrambled numbers, and then compared; what only seemed equal is left apart.
    """
    number = len(lists[0][0]) - 1
    if number == 1:
        return np.zeros(1, dtype=np.int64)
    sums = np.zeros(number, dtype=np.uint64)
    for label in labels:
        sums = _mixed(sums + label.astype(np.uint64))
    for starts, columns in lists:
        places = np.arange(len(columns[0])) - np.repeat(starts[:-1], np.diff(starts))
        mixed = places.astype(np.uint64)
        for column in columns:
            mixed = _mixed(mixed + column.view(np.uint64))
        total = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(mixed)])
        sums = _mixed(sums + np.diff(starts).astype(np.uint64))
        sums = _mixed(sums + total[starts[1:]] - total[starts[:-1]])
    _, first, sort = np.unique(sums, return_index=True, return_inverse=True)
    result: _Ints = first[sort.ravel()]
    for starts, columns in lists:
        lengths = np.diff(starts)
        same = lengths == lengths[result]
        mine = np.repeat(starts[:-1], lengths)
        theirs = np.repeat(np.where(same, starts[result], starts[:-1]), lengths)
        offsets = np.arange(len(columns[0])) - mine
        for column in columns:
            differs = column != column[theirs + offsets]
            same[np.repeat(np.arange(number), lengths)[differs]] = False
        result = np.where(same, result, np.arange(number))
    for label in labels:
        result = np.where(label == label[result], result, np.arange(number))
    return result


def coded(values: _Ints) -> tuple[_Ints, _Ints]:
    """(codes, distinct) with values = distinct[codes] and distinct ascending; values ≥ 0."""
    if values.size and int(values.max()) <= max(1 << 12, 4 * values.size):
        distinct = np.flatnonzero(np.bincount(values.ravel()))
        rank = np.zeros(int(distinct[-1]) + 1, dtype=np.int64)
        rank[distinct] = np.arange(len(distinct))
        return rank[values], distinct
    distinct, codes = np.unique(values, return_inverse=True)
    return codes.reshape(values.shape).astype(np.int64, copy=False), distinct


def scrambled(*columns: _Ints) -> _Marks:
    """Numbers that look random, equal where all columns are."""
    marks = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        marks = _mixed(marks + column.view(np.uint64))
    return marks


def _mixed(values: _Marks) -> _Marks:
    mixed = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: _Marks = mixed ^ (mixed >> np.uint64(31))
    return result
