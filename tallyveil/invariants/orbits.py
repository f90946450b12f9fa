"""Sums of declared rows over cells that a question does not distinguish.

Two margins of a table stay two margins when values on which a question is constant are merged: rows
that differ only in these values are summed, and the sum counts whole classes of cells. By symmetry,
some best λ for the question is equal on the rows of such a sum.
"""

from __future__ import annotations

import numpy as np

from tallyveil.alike import group_equal, run_starts
from tallyveil.arrays import IntArray
from tallyveil.workload.classes import Classes, all_known, spread
from tallyveil.workload.workload import Column, Factor

__all__ = ["orbits"]


def orbits(column: Column, classes: Classes, limit: int) -> tuple[Factor, IntArray] | None:
    """The sums of a declared column's rows, as rows over the classes, and the sum that each row is
    in; None if they do not count whole classes, or are too many."""
    if column.selected is not None:
        return None
    known = all_known(_factor_orbits(factor, classes) for factor in column.factors)
    if known is None:
        return None
    sums = spread(Column(tuple(f for f, _ in known)), classes.axes, classes.shape, limit)
    numbers = column.factor_rows(column.numbers)
    of_row = np.zeros(column.height, dtype=np.int64)
    for (factor, own), rows in zip(known, numbers, strict=True):
        of_row = of_row * factor.height + own[rows]
    return None if sums is None else (sums, of_row)


def _factor_orbits(factor: Factor, classes: Classes) -> tuple[Factor, IntArray] | None:
    """The sums of a factor's rows over the classes, and the sum that each row is in."""
    axes = tuple(axis for axis in factor.axes if axis in classes.labels)
    shape = tuple(len(classes.firsts[axis]) for axis in axes)
    at = np.unravel_index(np.arange(factor.size), factor.shape) if factor.axes else ()
    of_cell = np.zeros(factor.size, dtype=np.int64)
    for axis, own in zip(factor.axes, at, strict=True):
        if axis in classes.labels:
            of_cell = of_cell * len(classes.firsts[axis]) + classes.labels[axis][own]
    sizes = np.bincount(of_cell)
    touched = of_cell[factor.cells]
    rows, kinds, coefficients, counts = _counted(factor.rows, touched, factor.coefficients)
    starts = np.searchsorted(rows, np.arange(factor.height + 1))
    first = group_equal([], (starts, [kinds, coefficients, counts]))
    orbit = np.unique(first, return_inverse=True)[1].ravel().astype(np.int64)
    height = int(orbit.max(initial=-1)) + 1
    # The sum of each orbit on each cell must be the same on all cells of a class.
    places, entry = np.unique(orbit[factor.rows] * factor.size + factor.cells, return_inverse=True)
    sums = np.zeros(len(places), dtype=np.int64)
    np.add.at(sums, entry.ravel(), factor.coefficients)
    orbits_of, cells = np.divmod(places, max(1, factor.size))
    order = np.lexsort((of_cell[cells], orbits_of))
    rows, kinds, values, counts = _counted(orbits_of[order], of_cell[cells][order], sums[order])
    if (counts != sizes[kinds]).any():
        return None
    return Factor.of_entries(axes, shape, height, rows, kinds, values), orbit


def _counted(*labels: IntArray) -> tuple[IntArray, ...]:
    """The distinct combinations in order, and the number of occurrences of each."""
    order = np.lexsort(labels[::-1])
    values = [label[order] for label in labels]
    first = run_starts(*values)
    counts = np.diff(np.append(first, len(order)))
    return (*(value[first] for value in values), counts)
