"""Round the values of one statement's rows to integers that add up as the rows do.

Estimates from one system satisfy the linear relations between their rows; rounded one by one they
may not. Rows are rounded in families of disjoint rows, those of the fewest cells first. A row that
is a sum of a family's rows with integer coefficients reports the sum of their reported values, and
these are rounded so that such sums stay near. A later family is rounded so that its sums match what
is already reported. Values may not add up before rounding, because some rows are known better alone
or must be at least 0. Then they are first moved to the nearest values that do, the better known
ones less (docs/mathematics.md, "Rows that add up").
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
from tallyveil.inference.estimates.consistent_values import projected
from tallyveil.knowledge.sums.free_rows import rounded_freely
from tallyveil.knowledge.sums.margins import rounded_in_margins
from tallyveil.knowledge.sums.nearest_integers import nearest_integers
from tallyveil.knowledge.sums.relations import OTHERS, PUBLIC, Relations
from tallyveil.knowledge.sums.rounded_parts import rounded_in_parts

__all__ = ["ROWS", "Rounded", "jointly_rounded"]

_DIGITS: Final = 6  # of values, so that values that differ only by rounding errors round alike
_BITS: Final = 30  # of variances, for the same reason
_FAMILIES: Final = 8
_FRUITLESS: Final = 500_000  # entries to search before giving up if no sums are found
_LARGEST: Final = 2.0**60  # so that sums of values fit in 64 bits
_WHOLE: Final = 2.0**53  # up to here a double holds every integer
_NEGLIGIBLE: Final = 1 / 8  # of a standard deviation: larger values may be off by this much
_NOTHING: Final = frozenset[str]()
ROWS: Final = 20_000  # rows, unless `parts` or `margins` apply
_WORK: Final = 3e7  # products of the sums' parts, to move values so that they add up
_NEAR: Final = 1.5  # values moved by no more of their steps need no search
_EXACTLY: Final = 1e6  # the weight of a sum that is known exactly


@dataclass(frozen=True)
class Rounded:
    """An integer for each row, or none if there are too many rows or values are too large.
    ``apart``: to what the rows need not add up; nothing if all relations found hold."""

    values: Sequence[int] = ()
    apart: frozenset[str] = frozenset((OTHERS, PUBLIC))

    @property
    def agree(self) -> bool:
        return not self.apart


@dataclass(frozen=True, eq=False)
class _Sum:
    """Row ``row`` = Σ_i ``factors[i]`` · row ``parts[i]``, over rows of one family."""

    row: int
    parts: IntArray
    factors: IntArray


def jointly_rounded(
    matrix: sparse.csr_matrix,
    values: FloatArray,
    variances: FloatArray,
    counts: BoolArray | None = None,
    columns: IntArray | None = None,
    related: Relations | None = None,
) -> Rounded | None:
    """An integer for each row of ``matrix`` (k×n), near its value, such that rows that are sums of
    others get the sums of their integers, and ``counts`` are at least 0. None if no row is a sum.

    A value of variance 0 is an integer and stays. Rows of one of the statement's ``columns`` are
    kept together; by default each row has its own. ``related``: all relations between the first
    rows, if known; the others are exact sums of these.
    """
    if related is not None and not len(related.totals):
        return None
    if not _precise(values, variances):
        return Rounded()
    values, variances = _without_rounding_errors(values, variances)
    first = None if related is None else related.matrix.shape[1]
    for shape in (rounded_in_parts, rounded_in_margins):
        rounded = shape(matrix, values, variances, counts)
        if rounded is not None and (related is None or not related.broken(rounded[:first])):
            return Rounded(rounded, _NOTHING)
    if related is not None:
        own = None if counts is None else counts[:first]
        return _related(related, values[:first], variances[:first], own)
    if matrix.shape[0] > ROWS:
        return Rounded()
    families, sums = _families(matrix, np.arange(len(values)) if columns is None else columns)
    if not sums:
        return None
    relations = _relations(sums, matrix.shape[0])
    moved = None
    if float((np.diff(relations.tocsc().indptr) ** 2.0).sum()) <= _WORK:
        moved = projected(relations, np.zeros(len(sums)), values, variances, counts)
    nearest = np.round(values if moved is None else moved, _DIGITS)
    integers = _one_by_one(families, sums, nearest, variances)
    negative = counts is not None and bool((counts & (integers < 0)).any())
    if negative or (relations @ integers).any():
        agreeing = nearest_integers(relations, nearest, variances, counts, integers)
        return Rounded(integers.tolist()) if agreeing is None else Rounded(agreeing, _NOTHING)
    return Rounded(integers.tolist(), _NOTHING)


def _related(
    related: Relations, values: FloatArray, variances: FloatArray, counts: BoolArray | None
) -> Rounded:
    """Integers that satisfy all relations. Those by `rounded_freely` if they are near enough, else
    the nearest, which take long to find."""
    moved = projected(related.matrix, related.totals.astype(float), values, variances, counts)
    nearest = np.round(values if moved is None else moved, _DIGITS)
    freely = rounded_freely(related, nearest)
    if freely is not None:
        near = (np.abs(np.array(freely) - nearest) <= _NEAR * np.maximum(related.steps, 1)).all()
        if counts is not None and (np.array(freely)[counts] < 0).any():
            freely = None
        elif near:
            return Rounded(freely, _NOTHING)
    found = nearest_integers(related.matrix, nearest, variances, counts, None, related.totals)
    found = freely if found is None else found
    if found is not None:
        return Rounded(found, _NOTHING)
    found = np.rint(nearest).astype(np.int64).tolist()
    return Rounded(found, related.broken(found))


def _without_rounding_errors(
    values: FloatArray, variances: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Values and variances in fewer digits, for searches that such errors may lead elsewhere."""
    fewer = np.where(np.abs(values) < 2.0**_BITS, np.round(values, _DIGITS), values)
    parts, exponents = np.frexp(variances)
    return fewer, np.ldexp(np.round(np.ldexp(parts, _BITS)), exponents - _BITS)


def _precise(values: FloatArray, variances: FloatArray) -> bool:
    """Whether no value is too large, and doubles hold them precisely enough."""
    sizes = np.abs(values)
    if not sizes.max(initial=0) < _LARGEST:
        return False
    large = sizes > _WHOLE
    lost = np.spacing(sizes[large])
    return bool((lost <= _NEGLIGIBLE * np.sqrt(variances[large])).all())


def _one_by_one(
    families: Sequence[set[int]], sums: Sequence[_Sum], nearest: FloatArray, variances: FloatArray
) -> IntArray:
    """Round family by family, and add up their sums. Exact rows keep their values."""
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
    """Families of disjoint rows, and all rows that are sums of a family's rows. The last family has
    all remaining rows, disjoint or not.

    Of rows with equally many cells those with the smallest coefficients come first: a sum of
    numbers is an integer multiple of the count of the same records, but not the reverse. Later
    families start with the rows of one column, and reuse rows of earlier families: if a part of a
    group was asked too, the total is still the sum of all groups.
    """
    sizes = np.diff(matrix.indptr)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((np.bincount(rows, np.abs(matrix.data), len(sizes)), sizes))
    left, families, sums = order.tolist(), list[set[int]](), dict[tuple[int, bytes], _Sum]()
    groups = order[np.bincount(columns + 1)[columns[order] + 1] > 1].tolist()  # several in a column
    begun = set[int]()  # columns that a family started with, or contains
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
    """For each cell the row that contains it, of some disjoint rows, and its coefficient."""

    def __init__(self, matrix: sparse.csr_matrix) -> None:
        self._matrix = matrix
        self._owner = np.full(matrix.shape[1], -1, dtype=np.int64)
        self._coefficients = np.ones(matrix.shape[1], dtype=np.int64)

    def take(self, row: int) -> bool:
        """Add a row if it has cells and no other row contains them; return whether it did."""
        start, end = self._matrix.indptr[row : row + 2]
        cells = self._matrix.indices[start:end]
        if start == end or (self._owner[cells] >= 0).any():
            return False
        self._owner[cells], self._coefficients[cells] = row, self._matrix.data[start:end]
        return True

    def sums(self, rows: IntArray) -> list[_Sum]:
        """Every row that is a sum of integer multiples of the added rows. ``rows`` has the row of
        each of the matrix's entries."""
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
    """The matrix R with R z = 0 if every sum equals the sum of its parts."""
    numbers = np.repeat(np.arange(len(sums)), [len(one.parts) + 1 for one in sums])
    places = np.concatenate([np.append(one.parts, one.row) for one in sums])
    factors = np.concatenate([np.append(one.factors, -1) for one in sums])
    return sparse.csr_matrix((factors, (numbers, places)), shape=(len(sums), rows))


def _match(
    family: set[int], given: Sequence[_Sum], values: FloatArray, result: dict[int, int]
) -> None:
    """Round the parts of sums that have a value already: down, but up for as many of the largest
    fractions as the sum requires. Skip sums with a rounded part or a factor other than 1."""
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
    """Round each row up or down, whichever minimises the squared errors of the row and of the sums
    it is part of, including the errors of the rows before it."""
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
