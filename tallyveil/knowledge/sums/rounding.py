"""Reported values that are integers and add up as the rows of one statement do.

Estimates of rows from one system follow from one another as the rows do; rounded one by one they
need not. Rows are taken in families of disjoint rows, those of the fewest cells first. What is a
sum of a family's rows, with whole coefficients, is reported as the sum of what is reported of them;
they are rounded up and down so that their sums stay near. A later family is rounded so that its
sums are what is reported already. Where values do not add up before they are rounded, since some
rows are known better by themselves, or are to be 0 at least, they are first moved to the nearest
that do, each the less the better it is known (docs/mathematics.md, "Rows that add up").
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import sparse

from tallyveil import deadline
from tallyveil.arrays import BoolArray, FloatArray, IntArray
from tallyveil.inference.estimates.projection import projected
from tallyveil.knowledge.sums.integers import nearest_integers
from tallyveil.knowledge.sums.margins import rounded_in_margins
from tallyveil.knowledge.sums.parts import rounded_in_parts

__all__ = ["Rounded", "jointly_rounded"]

_DIGITS: Final = 6  # of values, so that what differs by rounding errors is rounded alike
_FAMILIES: Final = 8
_FRUITLESS: Final = 500_000  # entries that are looked at on and on though no sums are found
_LARGEST: Final = 2.0**60  # so that sums of them have 64 bits
_WHOLE: Final = 2.0**53  # up to here a double has all digits of a whole number
_NEGLIGIBLE: Final = 1 / 8  # of a standard deviation: as much may be lost beyond
_ROWS: Final = 20_000  # in other families than `parts` and `margins` have
_WORK: Final = 3e7  # products of the sums' parts, for values to be moved so that they add up
_EXACTLY: Final = 1e6  # so much more weight on a sum that is known exactly


@dataclass(frozen=True)
class Rounded:
    """An integer for each row; none if there are too many rows, or too large ones. ``agree``:
    whether all relations between them that were found hold."""

    values: Sequence[int] = ()
    agree: bool = False


@dataclass(frozen=True, eq=False)
class _Sum:
    """Row ``row`` is Σ ``factors[i]`` · row ``parts[i]``, over rows of one family."""

    row: int
    parts: IntArray
    factors: IntArray


def jointly_rounded(
    matrix: sparse.csr_matrix,
    values: FloatArray,
    variances: FloatArray,
    counts: BoolArray | None = None,
    columns: IntArray | None = None,
) -> Rounded | None:
    """An integer for each row of ``matrix`` (k×n), near its value, such that rows which are sums
    of others have the sums of theirs, and ``counts`` are at least 0; None if there are none.

    A value of variance 0 is an integer and stays. Rows of one of the statement's ``columns``, each
    its own if that is None, are looked at together.
    """
    if not _precise(values, variances):
        return Rounded()
    for shape in (rounded_in_parts, rounded_in_margins):
        rounded = shape(matrix, values, variances, counts)
        if rounded is not None:
            return Rounded(rounded, agree=True)
    if matrix.shape[0] > _ROWS:
        return Rounded()
    families, sums = _families(matrix, np.arange(len(values)) if columns is None else columns)
    if not sums:
        return None
    relations = _relations(sums, matrix.shape[0])
    moved = None
    if float((np.diff(relations.tocsc().indptr) ** 2.0).sum()) <= _WORK:
        moved = projected(relations, np.zeros(len(sums)), values, variances, counts)
    nearest = np.round(values if moved is None else moved, _DIGITS)
    told = _one_by_one(families, sums, nearest, variances)
    negative = counts is not None and bool((counts & (told < 0)).any())
    if negative or (relations @ told).any():
        integers = nearest_integers(relations, nearest, variances, counts, told)
        return Rounded(told.tolist()) if integers is None else Rounded(integers, agree=True)
    return Rounded(told.tolist(), agree=True)


def _precise(values: FloatArray, variances: FloatArray) -> bool:
    """Whether no value is too large, and doubles lose nothing of them that matters."""
    sizes = np.abs(values)
    if not sizes.max(initial=0) < _LARGEST:
        return False
    large = sizes > _WHOLE
    lost = np.spacing(sizes[large])
    return bool((lost <= _NEGLIGIBLE * np.sqrt(variances[large])).all())


def _one_by_one(
    families: Sequence[set[int]], sums: Sequence[_Sum], nearest: FloatArray, variances: FloatArray
) -> IntArray:
    """Family by family, and their sums; what is exact as it is."""
    result: dict[int, int] = {}
    for family in families:
        own = [one for one in sums if set(one.parts.tolist()) <= family]
        given = [one for one in own if one.row in result]
        _match(family, given, nearest, result)
        _diffuse(sorted(family - result.keys()), sums, nearest, variances, result)
        for one in own:
            if one.row not in result:
                parts = (result[part] for part in one.parts.tolist())
                result[one.row] = sum(map(operator.mul, parts, one.factors.tolist()))
    for row in np.flatnonzero(variances == 0).tolist():
        result[row] = round(nearest[row])
    return np.array([result[row] for row in range(len(nearest))], dtype=np.int64)


def _families(matrix: sparse.csr_matrix, columns: IntArray) -> tuple[list[set[int]], list[_Sum]]:
    """Families of disjoint rows, and all rows that are sums of a family's. The last family has all
    that is left, disjoint or not.

    Of rows of as many cells those of the least coefficients come first: a sum of numbers is a
    whole multiple of the count of the same records, and not the other way round. Later families
    begin with the rows of one column, and have rows of earlier ones too: where a part of one group
    was asked for as well, the total is still that of all groups.
    """
    sizes = np.diff(matrix.indptr)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((np.bincount(rows, np.abs(matrix.data), len(sizes)), sizes))
    left, families, sums = order.tolist(), list[set[int]](), dict[tuple[int, bytes], _Sum]()
    groups = order[np.bincount(columns + 1)[columns[order] + 1] > 1].tolist()  # of several
    begun = set[int]()  # columns that a family began with, or has all rows of
    for looked in range(_FAMILIES):
        seed = next((row for row in (*left, *groups) if columns[row] not in begun), None)
        if not left or seed is None:
            break
        owners, tried = _Owners(matrix), left
        if families:
            begun.add(int(columns[seed]))
            tried = [seed, *order[columns[order] == columns[seed]].tolist(), *left, *order.tolist()]
        family = {row for row in deadline.stoppable(tried) if owners.take(row)}
        begun |= {*columns.tolist()} - {*np.delete(columns, [*family]).tolist()}
        found = [one for one in owners.sums(rows) if one.row not in family]
        own = {key: one for one in found if (key := (one.row, one.parts.tobytes())) not in sums}
        if families and not own and looked * matrix.nnz > _FRUITLESS:
            break
        if families and not own:
            continue
        families.append(family)
        sums |= own
        done = family | {one.row for one in own.values()}
        left = [row for row in left if row not in done]
    return [*families, set(left)], [*sums.values()]


class _Owners:
    """Which of some disjoint rows has each cell, and with which coefficient."""

    def __init__(self, matrix: sparse.csr_matrix) -> None:
        self._matrix = matrix
        self._owner = np.full(matrix.shape[1], -1, dtype=np.int64)
        self._coefficients = np.ones(matrix.shape[1], dtype=np.int64)

    def take(self, row: int) -> bool:
        """Take up a row, if it has cells and nobody has them."""
        start, end = self._matrix.indptr[row : row + 2]
        cells = self._matrix.indices[start:end]
        if start == end or (self._owner[cells] >= 0).any():
            return False
        self._owner[cells], self._coefficients[cells] = row, self._matrix.data[start:end]
        return True

    def sums(self, rows: IntArray) -> list[_Sum]:
        """Every row that is a sum of whole multiples of those taken up. ``rows`` are those of the
        matrix's entries."""
        deadline.check()
        matrix, sizes = self._matrix, np.diff(self._matrix.indptr)
        owner = self._owner[matrix.indices]
        factors, rest = np.divmod(matrix.data, self._coefficients[matrix.indices])
        _, first, which, counts = np.unique(
            rows * (len(sizes) + 1) + owner,
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        parts, of = owner[first], rows[first]
        differ = (owner < 0) | (rest != 0) | (factors != factors[first][which.ravel()])
        no_sum = np.bincount(rows, differ, len(sizes)) > 0
        no_sum[of[counts != sizes[parts]]] = True
        found = np.flatnonzero(~no_sum & (sizes > 0))
        starts, ends = (np.searchsorted(of, found, side) for side in ("left", "right"))
        return [
            _Sum(row, parts[start:end], factors[first[start:end]])
            for row, start, end in zip(found.tolist(), starts, ends, strict=True)
        ]


def _relations(sums: Sequence[_Sum], rows: int) -> sparse.csr_matrix:
    """R, with R z = 0 if every sum is the sum of its parts."""
    numbers = np.repeat(np.arange(len(sums)), [len(one.parts) + 1 for one in sums])
    places = np.concatenate([np.append(one.parts, one.row) for one in sums])
    factors = np.concatenate([np.append(one.factors, -1) for one in sums])
    return sparse.csr_matrix((factors, (numbers, places)), shape=(len(sums), rows))


def _match(
    family: set[int], given: Sequence[_Sum], values: FloatArray, result: dict[int, int]
) -> None:
    """Round the parts of sums that are reported already: down, and those of the largest fractions
    up, as many as that takes. A sum with parts that are rounded already is left."""
    for one in sorted(given, key=lambda one: len(one.parts)):
        parts = one.parts.tolist()
        if any(part in result for part in parts) or (one.factors != 1).any():
            continue
        down = [math.floor(values[part]) for part in parts]
        each, more = divmod(result[one.row] - sum(down), len(parts))
        order = sorted(range(len(parts)), key=lambda n: down[n] - values[parts[n]])
        for rank, place in enumerate(order):
            result[parts[place]] = down[place] + each + (rank < more)


def _diffuse(
    rows: Sequence[int],
    sums: Sequence[_Sum],
    values: FloatArray,
    variances: FloatArray,
    result: dict[int, int],
) -> None:
    """Round each row up or down, whichever leaves the least squares of what it and the sums it is a
    part of are off by, the rows before it included."""
    part_of: dict[int, list[tuple[int, int]]] = {}
    for number, one in enumerate(sums):
        for part, factor in zip(one.parts.tolist(), one.factors.tolist(), strict=True):
            part_of.setdefault(part, []).append((number, factor))
    weights = [_EXACTLY if variances[one.row] == 0 else 1.0 for one in sums]
    off = [0.0] * len(sums)
    for row in result.keys() & part_of.keys():
        for n, factor in part_of[row]:
            off[n] += factor * (result[row] - values[row])
    for row in rows:
        own, low = part_of.get(row, []), math.floor(values[row])
        costs = [
            (value - values[row]) ** 2
            + sum(weights[n] * (off[n] + f * (value - values[row])) ** 2 for n, f in own)
            for value in (low, low + 1)
        ]
        result[row] = low + (costs[1] < costs[0])
        for n, factor in own:
            off[n] += factor * (result[row] - values[row])
