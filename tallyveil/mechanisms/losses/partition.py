"""Cells in classes that no query so far tells apart, and the distances between classes.

Under replace-one the loss of a pair of cells depends only on what the queries say about the two.
Cells on which all rows agree form one class; there are few classes even where there are very
many cells, and all pairs of classes can be looked at. Nothing is spelled out for all cells: where
no row of a column tells values of an attribute apart, they are one kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from tallyveil import deadline
from tallyveil.alike import coded
from tallyveil.arrays import IntArray
from tallyveil.cache import Cache
from tallyveil.mechanisms.losses.tensors import CELL_LIMIT, align, join_axes
from tallyveil.workload.classes import kinds_of_cells, over_classes
from tallyveil.workload.workload import Column, Factor

__all__ = [
    "CLASS_LIMIT", "WORK_LIMIT", "CellClasses", "ClassRows", "distances", "join", "partition",
    "too_many",
]  # fmt: skip

CLASS_LIMIT = 1024
WORK_LIMIT = 20_000_000  # additions: about 0.2 s


@dataclass(frozen=True, eq=False)
class CellClasses:
    """``kinds[n]`` has the kind of each coordinate of ``axes[n]`` (in any order), and ``labels``,
    over kinds, the number of each cell's class, 0..count−1, each occurring.

    ``outside`` is the class of a record outside the cube, or None if there is no such record.
    """

    axes: tuple[str, ...]
    kinds: tuple[IntArray, ...]
    labels: IntArray
    count: int
    outside: int | None


class ClassRows(NamedTuple):
    """Row ``rows[t]`` has ``coefficients[t]`` on each cell of class ``classes[t]``; of other
    classes it has none. In the order of the rows."""

    rows: IntArray
    classes: IntArray
    coefficients: IntArray


def partition(column: Column, closed: bool) -> tuple[CellClasses, ClassRows] | None:
    """Cells with equal columns C e_j in one class; None if there are more than `CLASS_LIMIT`, or
    if they cannot be multiplied out."""
    return _KEPT.get((column, closed), lambda: (column, _partition(column, closed)))[1]


_Kept: TypeAlias = tuple[Column, tuple[CellClasses, ClassRows] | None]


def _bytes(_: object, kept: _Kept) -> int:
    """Of a few kinds of each attribute there may be millions of combinations."""
    column, found = kept
    if found is None:
        return column.nbytes
    own, rows = found
    return column.nbytes + sum(each.nbytes for each in (own.labels, *own.kinds, *rows))


_KEPT: Final[Cache[_Kept]] = Cache(1024, 1 << 27, _bytes)


def too_many(column: Column) -> bool:
    """Whether its cells fall into more than `CLASS_LIMIT` classes, as a look at the first row that
    touches each cell shows. In a product, as many pairs of factors' cells differ in theirs."""
    if column.selected is not None or column.product_height <= CLASS_LIMIT:
        return False
    return math.prod(map(_first_rows, column.factors)) > CLASS_LIMIT


def _first_rows(factor: Factor) -> int:
    """How many rows are the first one that touches some cell."""
    first = np.full(factor.size, -1, dtype=np.int64)
    first[factor.cells[::-1]] = factor.rows[::-1]
    deadline.check()
    return len(np.flatnonzero(np.bincount(first[first >= 0], minlength=1)))


def _partition(column: Column, closed: bool) -> tuple[CellClasses, ClassRows] | None:
    if too_many(column):
        return None
    kinds, [over] = over_classes([column])
    factor = over.multiplied_out(CELL_LIMIT)
    if factor is None:
        return None
    cells, of_cell, firsts = kinds_of_cells(factor)
    rest = len(cells) < factor.size  # the class of the cells that no row touches comes first
    labels, count = np.zeros(factor.size, dtype=np.int64), len(firsts) + rest
    if count > CLASS_LIMIT:
        return None
    labels[cells] = of_cell + rest
    outside = None
    if not closed:
        outside = 0 if rest else count  # as a cell that no row touches
        count = max(count, outside + 1)
    number = np.full(factor.size, -1, dtype=np.int64)
    number[firsts] = labels[firsts]
    classes = number[factor.cells]
    own = np.flatnonzero(classes >= 0)
    axes = factor.axes
    found = CellClasses(
        axes, tuple(kinds.labels[a] for a in axes), labels.reshape(factor.shape), count, outside
    )
    return found, ClassRows(factor.rows[own], classes[own], factor.coefficients[own])


def distances(entries: ClassRows, count: int, power: int) -> IntArray | None:
    """D[a, b] = Σ_i |C_ij − C_ik|^p for cells j of class a and k of class b.

    |u − v|^p = |u|^p + |v|^p except in rows where both have entries, so the sum of the norms is
    corrected row by row; a row costs the square of the number of classes it touches. None if that
    is more than `WORK_LIMIT` in all.
    """
    rows, members, values = entries
    if int((np.bincount(rows, minlength=1) ** 2).sum()) > WORK_LIMIT:
        return None
    norms = np.zeros(count, dtype=np.int64)
    np.add.at(norms, members, np.abs(values) ** power)
    matrix = norms[:, None] + norms[None, :]
    np.fill_diagonal(matrix, 0)
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    ends = np.append(starts[1:], len(rows))
    several = ends - starts > 1
    for start, end in zip(starts[several].tolist(), ends[several].tolist(), strict=True):
        deadline.check()
        touched, v = members[start:end], values[start:end]
        own = np.abs(v) ** power
        apart = own[:, None] + own[None, :] - np.abs(v[:, None] - v[None, :]) ** power
        np.fill_diagonal(apart, 0)
        matrix[np.ix_(touched, touched)] -= apart
    return matrix


def join(parts: Sequence[CellClasses]) -> tuple[CellClasses, tuple[IntArray, ...]] | None:
    """The coarsest partition finer than all ``parts``, and each part's label of its classes.

    None if that means more than `CLASS_LIMIT` classes, or `CELL_LIMIT` combinations of kinds.
    """
    axes = join_axes(*(part.axes for part in parts))
    found: dict[str, IntArray] = {}
    for part in parts:
        for axis, own in zip(part.axes, part.kinds, strict=True):
            before = found.get(axis)
            found[axis] = own if before is None else coded(before * (int(own.max()) + 1) + own)[0]
    kinds = tuple(found[axis] for axis in axes)
    shape = [int(own.max()) + 1 for own in kinds]
    if math.prod(shape) > CELL_LIMIT:
        return None
    firsts = {axis: np.unique(own, return_index=True)[1] for axis, own in found.items()}
    labels, outside = np.zeros(math.prod(shape), dtype=np.int64), np.zeros(0, dtype=np.int64)
    if parts and parts[0].outside is not None:
        outside = np.zeros(1, dtype=np.int64)
    members: list[IntArray] = []
    joint = np.append(labels, outside)
    for part in parts:
        deadline.check()
        at = [own[firsts[axis]] for axis, own in zip(part.axes, part.kinds, strict=True)]
        own = np.broadcast_to(align(part.labels[np.ix_(*at)], part.axes, axes), shape).ravel()
        if part.outside is not None:
            own = np.append(own, part.outside)
        joint, present = coded(joint * part.count + own)
        if len(present) > CLASS_LIMIT:
            return None
        members = [m[present // part.count] for m in members]
        members.append(present % part.count)
    beyond = None if not len(outside) else int(joint[-1])
    cells = joint[:-1] if len(outside) else joint
    count = len(members[0]) if members else 1
    return CellClasses(axes, kinds, cells.reshape(shape), count, beyond), tuple(members)
