"""Classes of cells that no query distinguishes, and the distances between classes.

Under replace-one the loss of a pair of cells depends only on the coefficients that the queries have
on the two. Cells on which all rows agree form one class. There are few classes even where there are
very many cells, so all pairs of classes can be examined. Nothing is stored for every cell: values
of an attribute that no row of a column distinguishes are one kind.
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
from tallyveil.mechanisms.losses.loss_tensor import CELL_LIMIT, align, join_axes
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
    """A partition of the cells. ``kinds[n]`` is the kind of each coordinate of ``axes[n]`` (in any
    order); ``labels``, over kinds, is each cell's class, 0..count−1, each occurring.

    ``outside`` is the class of a record outside the cube, or None if there is no such record.
    """

    axes: tuple[str, ...]
    kinds: tuple[IntArray, ...]
    labels: IntArray
    count: int
    outside: int | None


class ClassRows(NamedTuple):
    """Row ``rows[t]`` has ``coefficients[t]`` on each cell of class ``classes[t]``, and 0 on
    classes not listed for it. Ordered by row."""

    rows: IntArray
    classes: IntArray
    coefficients: IntArray


def partition(column: Column, closed: bool) -> tuple[CellClasses, ClassRows] | None:
    """Group cells with equal columns C e_j into classes, and return each class's coefficients.

    None if there are more than `CLASS_LIMIT` classes, or if the column cannot be multiplied out.
    """
    return _KEPT.get((column, closed), lambda: (column, _partition(column, closed)))[1]


_Kept: TypeAlias = tuple[Column, tuple[CellClasses, ClassRows] | None]


def _bytes(_: object, kept: _Kept) -> int:
    """The bytes that an entry holds: a few kinds of each attribute can make millions of labels."""
    column, found = kept
    if found is None:
        return column.nbytes
    own, rows = found
    return column.nbytes + sum(each.nbytes for each in (own.labels, *own.kinds, *rows))


_KEPT: Final[Cache[_Kept]] = Cache(1024, 1 << 27, _bytes)


def too_many(column: Column) -> bool:
    """Whether a quick check shows that its cells fall into more than `CLASS_LIMIT` classes.

    Cells whose first rows differ are in different classes. In a product, the numbers of different
    first rows multiply.
    """
    if column.selected is not None or column.product_height <= CLASS_LIMIT:
        return False
    return math.prod(map(_first_rows, column.factors)) > CLASS_LIMIT


def _first_rows(factor: Factor) -> int:
    """Return how many rows are the first to touch some cell."""
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
    rest = len(cells) < factor.size  # class 0 holds the cells that no row touches, if any
    labels, count = np.zeros(factor.size, dtype=np.int64), len(firsts) + rest
    if count > CLASS_LIMIT:
        return None
    labels[cells] = of_cell + rest
    outside = None
    if not closed:
        outside = 0 if rest else count  # no row touches the outside
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
    """Return D[a, b] = Σ_i |C_ij − C_ik|^p for cells j of class a and k of class b.

    |u − v|^p = |u|^p + |v|^p except in rows where both have entries, so the sum of the norms is
    corrected row by row. A row takes time in the square of the number of classes it touches. None
    if these squares add up to more than `WORK_LIMIT`.
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
        excess = own[:, None] + own[None, :] - np.abs(v[:, None] - v[None, :]) ** power
        np.fill_diagonal(excess, 0)
        matrix[np.ix_(touched, touched)] -= excess
    return matrix


def join(parts: Sequence[CellClasses]) -> tuple[CellClasses, tuple[IntArray, ...]] | None:
    """Return the coarsest common refinement of ``parts``, and, for each part, the part's class of
    each class of the refinement.

    None if it has more than `CLASS_LIMIT` classes, or `CELL_LIMIT` combinations of kinds.
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
