"""Which of many sparse rows or columns are equal: the cells that no row tells apart, say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import IntArray

__all__ = ["alike", "coded", "scrambled", "stretches"]

_Marks = npt.NDArray[np.uint64]
_List = tuple[IntArray, Sequence[IntArray]]


def alike(labels: Sequence[IntArray], *lists: _List) -> IntArray:
    """For each of some things the first that is equal to it: in all ``labels``, and in ``lists``,
    of which each has the stretch ``starts[i]`` to ``starts[i + 1]`` for the i-th.

    Found by sums of scrambled numbers, and then compared; what only seemed equal is left apart.
    """
    number = len(lists[0][0]) - 1
    every = np.arange(number)
    labels = [*labels, *(np.diff(starts).astype(np.int64) for starts, _ in lists)]
    sums = scrambled(*labels)
    _, sort, times = np.unique(sums, return_inverse=True, return_counts=True)
    some = np.flatnonzero(times[sort.ravel()] > 1)  # the others are told apart by labels alone
    if len(some) < number:
        if len(some):
            every[some] = some[alike([label[some] for label in labels], *_taken(lists, some))]
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


def _taken(lists: Sequence[_List], which: IntArray) -> Iterator[_List]:
    """The stretches of some things."""
    for starts, columns in lists:
        of, places = stretches(starts, which)
        ends = np.bincount(of, minlength=len(which)).cumsum()
        yield np.append(0, ends), [column[places] for column in columns]


def coded(values: IntArray) -> tuple[IntArray, IntArray]:
    """(codes, distinct) with values = distinct[codes] and distinct ascending; values ≥ 0."""
    if values.size and int(values.max()) <= max(1 << 12, 4 * values.size):
        distinct = np.flatnonzero(np.bincount(values.ravel()))
        rank = np.zeros(int(distinct[-1]) + 1, dtype=np.int64)
        rank[distinct] = np.arange(len(distinct))
        return rank[values], distinct
    distinct, codes = np.unique(values, return_inverse=True)
    return codes.reshape(values.shape).astype(np.int64, copy=False), distinct


def stretches(starts: npt.NDArray[np.integer], which: IntArray) -> tuple[IntArray, IntArray]:
    """Of the stretches ``starts[i]`` to ``starts[i + 1]`` of some i, one after the other, the
    places in them, each with the number of its i among these."""
    lengths = starts[which + 1] - starts[which]
    ends = np.cumsum(lengths)
    of = np.repeat(np.arange(len(which)), lengths)
    return of, np.arange(len(of)) + (starts[which] - ends + lengths)[of]


def scrambled(*columns: IntArray) -> _Marks:
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
