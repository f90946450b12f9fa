"""Cells in classes that no query so far tells apart, and the distances between classes.

Under replace-one the loss of a pair of cells depends only on what the queries say about the two.
Cells on which all rows agree form one class; there are few classes even where there are very
many cells, and all pairs of classes can be looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tallyveil import deadline
from tallyveil.inference.alike import alike
from tallyveil.mechanisms.losses.tensors import CELL_LIMIT, align, join_axes
from tallyveil.mechanisms.units import IntArray, coded
from tallyveil.workload.workload import Column, Factor

__all__ = [
    "CLASS_LIMIT", "WORK_LIMIT", "Partition", "distances", "join", "partition", "too_many",
]  # fmt: skip

CLASS_LIMIT = 1024
WORK_LIMIT = 20_000_000  # additions: about 0.2 s


@dataclass(frozen=True, eq=False)
class Partition:
    """``labels`` over ``axes`` (any order) number the classes 0..count−1, each occurring.

    ``outside`` is the class of a record outside the cube, or None if there is no such record.
    """

    axes: tuple[str, ...]
    labels: IntArray
    count: int
    outside: int | None


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


def partition(factor: Factor, closed: bool) -> Partition | None:
    """Cells with equal columns F e_j in one class; None if there are more than `CLASS_LIMIT`."""
    order = np.lexsort((factor.rows, factor.cells))
    cells, starts = np.unique(factor.cells[order], return_index=True)
    entries = [factor.rows[order], factor.coefficients[order]]
    first = alike([], (np.append(starts, len(order)), entries))
    distinct, of_cell = np.unique(first, return_inverse=True)
    rest = len(cells) < factor.size  # the class of the cells that no row touches comes first
    labels, count = np.zeros(factor.size, dtype=np.int64), len(distinct) + rest
    labels[cells] = of_cell.ravel() + rest
    if count > CLASS_LIMIT:
        return None
    if closed:
        return Partition(factor.axes, labels.reshape(factor.shape), count, None)
    outside = 0 if rest else count  # as a cell that no row touches
    return Partition(factor.axes, labels.reshape(factor.shape), max(count, outside + 1), outside)


def distances(factor: Factor, classes: Partition, power: int) -> IntArray | None:
    """D[a, b] = Σ_i |F_ij − F_ik|^p for cells j of class a and k of class b.

    |u − v|^p = |u|^p + |v|^p except in rows where both have entries, so the sum of the norms is
    corrected row by row; a row costs the square of the number of classes it touches. None if that
    is more than `WORK_LIMIT` in all.
    """
    representative = np.full(classes.count, -1, dtype=np.int64)
    flat = classes.labels.ravel()
    representative[flat[::-1]] = np.arange(len(flat))[::-1]
    keep = representative[flat[factor.cells]] == factor.cells
    members, rows = flat[factor.cells[keep]], factor.rows[keep]
    values = factor.coefficients[keep]
    if int((np.bincount(rows, minlength=1) ** 2).sum()) > WORK_LIMIT:
        return None
    norms = np.zeros(classes.count, dtype=np.int64)
    np.add.at(norms, members, np.abs(values) ** power)
    matrix = norms[:, None] + norms[None, :]
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    for row in np.split(np.arange(len(rows)), starts[1:]):
        touched, v = members[row], values[row]
        own = np.abs(v) ** power
        apart = own[:, None] + own[None, :] - np.abs(v[:, None] - v[None, :]) ** power
        matrix[np.ix_(touched, touched)] -= apart
    return matrix


def join(parts: Sequence[Partition]) -> tuple[Partition, tuple[IntArray, ...]] | None:
    """The coarsest partition finer than all ``parts``, and each part's label of its classes.

    None if that means more than `CLASS_LIMIT` classes or `CELL_LIMIT` cells.
    """
    axes = join_axes(*(part.axes for part in parts))
    sizes = {n: k for p in parts for n, k in zip(p.axes, p.labels.shape, strict=True)}
    if math.prod(sizes.values()) > CELL_LIMIT:
        return None
    shape = [sizes[name] for name in axes]
    labels, outside = np.zeros(math.prod(shape), dtype=np.int64), np.zeros(0, dtype=np.int64)
    if parts and parts[0].outside is not None:
        outside = np.zeros(1, dtype=np.int64)
    members: list[IntArray] = []
    joint = np.append(labels, outside)
    for part in parts:
        own = np.broadcast_to(align(part.labels, part.axes, axes), shape).ravel()
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
    return Partition(axes, cells.reshape(shape), count, beyond), tuple(members)
