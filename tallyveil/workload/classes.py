"""Columns over classes of the values that some columns distinguish, exactly.

Values on which all columns agree are one class; an attribute that no column mentions has one class.
So simple questions have few joint classes, however large the cube.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from tallyveil import deadline
from tallyveil.alike import coded, group_equal, ranks, run_starts, scrambled
from tallyveil.arrays import IntArray
from tallyveil.cache import Cache, kept_with
from tallyveil.workload.workload import Column, Factor

__all__ = ["Classes", "all_known", "by_kind", "kinds_of_cells", "over_classes", "spread", "stacked"]

_Known = TypeVar("_Known")


@dataclass(frozen=True, eq=False)
class Classes:
    """``labels[axis]`` has the number of each value's class, ``firsts[axis]`` the first value of
    each class."""

    labels: Mapping[str, IntArray]
    firsts: Mapping[str, IntArray]

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Classes:
        """The classes that the columns distinguish."""
        labels: dict[str, IntArray] = {}
        for factor in dict.fromkeys(f for column in columns for f in column.factors):
            deadline.check()
            for axis in factor.axes:
                own = _labels(factor, axis)
                before = labels.get(axis)
                joint = own if before is None else before * len(own) + own
                labels[axis] = np.unique(joint, return_inverse=True)[1].ravel().astype(np.int64)
        firsts = {axis: np.unique(own, return_index=True)[1] for axis, own in labels.items()}
        return cls(labels, firsts)

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(self.labels)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(map(len, self.firsts.values()))

    @property
    def size(self) -> int:
        """The number of joint classes."""
        return math.prod(self.shape)

    def column(self, column: Column) -> Column:
        """The same rows, over classes."""
        factors = tuple(map(self._factor, column.factors))
        return Column(factors, column.multiplier, column.selected)

    def _factor(self, factor: Factor) -> Factor:
        identity = (
            len(self.firsts[axis]) == size and (np.diff(self.labels[axis]) == 1).all()
            for axis, size in zip(factor.axes, factor.shape, strict=True)
        )
        if all(identity):
            return factor
        at = np.unravel_index(factor.cells, factor.shape)
        shape = tuple(len(self.firsts[axis]) for axis in factor.axes)
        classes = [self.labels[axis][own] for axis, own in zip(factor.axes, at, strict=True)]
        firsts = [self.firsts[axis][own] for axis, own in zip(factor.axes, classes, strict=True)]
        kept = np.flatnonzero(
            np.logical_and.reduce([a == b for a, b in zip(at, firsts, strict=True)])
        )
        cells = np.ravel_multi_index([own[kept] for own in classes], shape).astype(np.int64)
        return Factor.of_entries(
            factor.axes, shape, factor.height, factor.rows[kept], cells, factor.coefficients[kept]
        )


def over_classes(columns: Sequence[Column]) -> tuple[Classes, tuple[Column, ...]]:
    """The classes that some columns distinguish, and the columns over these; cached."""
    own = tuple(columns)

    def made() -> tuple[Classes, tuple[Column, ...]]:
        classes = Classes.of(own)
        return classes, tuple(map(classes.column, own))

    return _OVER_CLASSES.get(own, made)


def _held(_: object, own: tuple[Classes, tuple[Column, ...]]) -> int:
    classes, columns = own
    return sum(map(len, classes.labels.values())) * 8 + sum(column.nbytes for column in columns)


_OVER_CLASSES: Final[Cache[tuple[Classes, tuple[Column, ...]]]] = Cache(256, 1 << 26, _held)


@kept_with
def _labels(factor: Factor, axis: str) -> IntArray:
    """For each value of the axis the first that no row of the factor distinguishes from it; cached
    with the factor."""
    deadline.check()
    size = factor.shape[factor.axes.index(axis)]
    inner = math.prod(factor.shape[factor.axes.index(axis) + 1 :])
    own = factor.cells // inner % size if len(factor.axes) > 1 else factor.cells
    rest = factor.cells - own * inner
    marks = scrambled(factor.rows, rest, factor.coefficients)
    sums = np.zeros(size, dtype=np.uint64)
    np.add.at(sums, own, marks)
    _, kinds, counts = np.unique(sums, return_inverse=True, return_counts=True)
    labels = np.arange(size)
    # Different sums prove that the entries differ.
    doubtful = np.flatnonzero(counts[kinds] > 1)
    if not len(doubtful):
        return labels
    number = ranks(doubtful, size)
    kept = np.flatnonzero(number[own] >= 0)
    deadline.check()
    # Entries are already sorted by row and cell; numpy sorts short integers in linear time.
    short = number[own[kept]].astype(np.min_scalar_type(len(doubtful)))
    kept = kept[np.argsort(short, kind="stable")]
    starts = np.searchsorted(number[own[kept]], np.arange(len(doubtful) + 1))
    labels[doubtful] = doubtful[
        group_equal([], (starts, [factor.rows[kept], rest[kept], factor.coefficients[kept]]))
    ]
    return labels


def kinds_of_cells(factor: Factor) -> tuple[IntArray, IntArray, IntArray]:
    """The cells that some row touches, the kind of each, and a cell of each kind. No row
    distinguishes cells of one kind."""
    deadline.check()
    if factor.disjoint:
        values = np.unique(factor.coefficients)
        kinds = np.searchsorted(values, factor.coefficients)
        of_cell, distinct = coded(factor.rows * len(values) + kinds)
        firsts = np.zeros(len(distinct), dtype=np.int64)
        firsts[of_cell] = factor.cells
        return factor.cells, of_cell, firsts
    order = np.argsort(factor.cells, kind="stable")
    deadline.check()
    own = factor.cells[order]
    starts = run_starts(own)
    entries = [factor.rows[order], factor.coefficients[order]]
    first, of_cell = np.unique(
        group_equal([], (np.append(starts, len(order)), entries)), return_inverse=True
    )
    cells = own[starts]
    return cells, of_cell.ravel().astype(np.int64), cells[first]


def by_kind(factor: Factor) -> Factor:
    """The factor's rows over one cell of each kind that some row touches."""
    _, _, firsts = kinds_of_cells(factor)
    number = ranks(np.sort(firsts), factor.size)
    kept = number[factor.cells] >= 0
    return Factor(
        ("",), (len(firsts),), factor.height,
        factor.rows[kept], number[factor.cells[kept]], factor.coefficients[kept],
    )  # fmt: skip


def spread(column: Column, axes: Sequence[str], shape: Sequence[int], limit: int) -> Factor | None:
    """The column as one factor over ``axes``, which include its own; None if that has more than
    ``limit`` cells or entries."""
    if math.prod(shape) > limit:
        return None
    across = ((axis, n) for axis, n in zip(axes, shape, strict=True) if axis not in column.axes)
    every = (Factor.everything((axis,), (n,)) for axis, n in across)
    factor = Column((*column.factors, *every), selected=column.selected).multiplied_out(limit)
    if factor is None or len(factor.rows) > limit:
        return None
    if factor.axes == tuple(axes):
        return factor
    at = dict(zip(factor.axes, np.unravel_index(factor.cells, factor.shape), strict=True))
    cells = np.ravel_multi_index([at[axis] for axis in axes], tuple(shape)).astype(np.int64)
    return Factor.of_entries(
        tuple(axes), tuple(shape), factor.height, factor.rows, cells, factor.coefficients
    )


def all_known(found: Iterable[_Known | None]) -> list[_Known] | None:
    """All entries, or None if one is None; stops at the first None."""
    known = []
    for one in found:
        if one is None:
            return None
        known.append(one)
    return known


def stacked(factors: Sequence[Factor]) -> Factor:
    """The rows of some factors over the same axes, one factor after the other."""
    starts = itertools.accumulate((f.height for f in factors), initial=0)
    rows = [f.rows + start for f, start in zip(factors, starts, strict=False)]
    return Factor(
        factors[0].axes,
        factors[0].shape,
        sum(f.height for f in factors),
        np.concatenate(rows),
        np.concatenate([f.cells for f in factors]),
        np.concatenate([f.coefficients for f in factors]),
    )
