"""Buys disjoint parts of the counts that a statement asks, and sums by moments of each part.

Counts that nest or overlap are sums of the parts on which all of them agree, and each record is in
one part. A sum of values from lo to hi over a part P is bought as

    a = Σ (v − lo)  and  b = Σ (hi − v):  P = (a + b)/(hi − lo),  Σ v = lo · P + a,

and with a sum of squares as three rows (`moments`). A record moves these together no more than it
could move one. So at the cost of the rows as asked, averages, variances and shares get far less
noise (docs/mathematics.md, "Parts and moments"). Groups may be of the value itself, as those of
``age // 20``: then lo and hi are those of each group, and its noise follows them; a sum asked by
itself has noise of each group's largest value. The parts are charged by their own loss, and all
rows follow from their answers, as from any others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np

from tallyveil.alike import coded
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.gate.strategies.moments import families
from tallyveil.gate.strategies.other_rows import Asked, OtherRows, content
from tallyveil.mechanisms import Measure
from tallyveil.workload.workload import Column, Factor

__all__ = ["Cells", "parts", "same_groups"]

_COLUMNS: Final = 16  # of a statement; their overlaps are bits of an integer
_PARTS: Final = 32  # columns that are bought
_CELLS: Final = 200_000  # that the rows of one group distinguish
_WORK: Final = 4_000_000  # cells that are looked at for groups of a value itself
_LARGEST: Final = 2**31  # coefficient


def parts(asked: Asked) -> OtherRows | None:
    """None if there is no more to be bought than each column by itself, or they are too many."""
    columns = asked.columns[: asked.bought]
    if len(columns) > _COLUMNS or asked.margin > 1:
        return None
    found = _parts(columns, asked.axes, asked.measure)
    if found is None or len(found) > _PARTS:
        return None
    within = [[p for p, part in enumerate(found) if n in part.of] for n in range(len(columns))]

    def errors(noise: Sequence[float]) -> list[FloatArray]:
        each = [sum(noise[part] for part in own) for own in within]
        return [np.full(c.height, one) for c, one in zip(columns, each, strict=True)]

    certain = asked.bought == len(asked.columns) and all(part.of for part in found)
    like = tuple(part.size for part in found)
    return OtherRows(tuple(one.column for one in found), like, errors=errors if certain else None)


class _Part(NamedTuple):
    """A ``column`` that is bought, with noise in proportion to ``size``. It is disjoint from the
    other parts, with which it adds up to the columns numbered in ``of``; empty for other parts."""

    column: Column
    size: float
    of: frozenset[int] = frozenset()


def _parts(columns: Sequence[Column], axes: Sequence[str], measure: Measure) -> list[_Part] | None:
    """The columns to buy; None if that is no more than each by itself."""
    alike: list[list[int]] = []
    for number, column in enumerate(columns):
        kin = (own for own in alike if all(same_groups(columns[n], column) for n in own))
        numbers = next(kin, None)
        if numbers is None:
            alike.append(numbers := [])
        numbers.append(number)
    found, divided = list[_Part](), False
    for numbers in alike:
        own = _of_group(columns, numbers, axes, measure)
        if own is None:
            return None
        found += own
        # In ρ, all rows as asked say together as much of each other as fewer of them would.
        fewer = measure == "epsilon" and len(own) < len(numbers)
        divided |= fewer or any(one.column not in columns for one in own)
    return found if divided else None


def _groups(column: Column) -> list[Factor]:
    return [factor for factor in column.factors if factor.height != 1]


def same_groups(one: Column, other: Column) -> bool:
    """Whether row i of both is about the same group, for each i."""
    each = _groups(one), _groups(other)
    chosen = (None if c.selected is None else c.selected.tobytes() for c in (one, other))
    if len({*map(len, each)}) > 1 or len({*chosen}) > 1:
        return False
    return all(content(a) == content(b) or _agree(a, b) for a, b in zip(*each, strict=True))


def _labels(factor: Factor) -> IntArray:
    """The row of each cell, −1 for cells in none."""
    found = np.full(factor.size, -1, dtype=np.int64)
    found[factor.cells] = factor.rows
    return found


def _agree(one: Factor, other: Factor) -> bool:
    """Whether no cell is in two rows, or in different ones."""
    kinds = {(factor.axes, factor.shape, factor.height) for factor in (one, other)}
    if len(kinds) > 1 or not (one.disjoint and other.disjoint):
        return False
    a, b = _labels(one), _labels(other)
    return bool(((a == b) | (a < 0) | (b < 0)).all())


class Cells(NamedTuple):
    """The cells of ``sizes``, by axis, that columns with the same ``groups`` look at. ``vectors``
    has what the rows of each count of them, and ``rows`` the row of each cell, where the columns
    have groups of these cells themselves."""

    groups: tuple[Factor, ...]
    selected: IntArray | None
    sizes: dict[str, int]
    vectors: IntArray
    rows: IntArray
    keyed: bool

    @classmethod
    def of(cls, columns: Sequence[Column], axes: Sequence[str]) -> Cells | None:
        """None if they distinguish too many cells, or groups differ. ``axes`` has the table's
        order."""
        each = [{content(factor): factor for factor in column.factors} for column in columns]
        common = set.intersection(*map(set, each))
        groups = {k: f for k, f in each[0].items() if k in common and (f.coefficients == 1).all()}
        rest = [[factor for key, factor in own.items() if key not in groups] for own in each]
        every = list(itertools.chain(*rest))
        extents = {a: size for one in every for a, size in zip(one.axes, one.shape, strict=True)}
        sizes = {axis: extents[axis] for axis in axes if axis in extents}
        keyed, selected = [one for one in every if one.height != 1], columns[0].selected
        if math.prod(sizes.values()) > _CELLS or any(
            column.largest >= _LARGEST for column in columns
        ):
            return None
        if any(axis in sizes for factor in groups.values() for axis in factor.axes):
            return None
        if keyed and (selected is not None or not all(one.disjoint for one in keyed)):
            return None
        vectors = np.array([_vector(own, sizes) for own in rest])
        rows = _rows_of(keyed, sizes)
        return cls(tuple(groups.values()), selected, sizes, vectors, rows, bool(keyed))

    def column(self, vector: IntArray, multiplier: Fraction) -> Column:
        """The column whose rows count these numbers of the cells."""
        cells = np.flatnonzero(vector).astype(np.int64)
        rows, height = np.zeros_like(cells), 1
        if self.keyed:
            cells = cells[np.argsort(self.rows[cells], kind="stable")]
            rows, those = coded(self.rows[cells])
            height = len(those)
        shape = tuple(self.sizes), tuple(self.sizes.values()), height
        own = Factor(*shape, rows, cells, vector[cells])
        return Column((*self.groups, own) if self.sizes else self.groups, multiplier, self.selected)


def _of_group(
    columns: Sequence[Column], numbers: Sequence[int], axes: Sequence[str], measure: Measure
) -> list[_Part] | None:
    """The parts of columns ``numbers``, whose rows differ by what they add up of a group alone: a
    cell has a bit of its label for each count. Sums over other cells stay as they are. None if they
    distinguish too many cells."""
    cells = Cells.of([columns[number] for number in numbers], axes)
    if cells is None:
        return None
    vectors = cells.vectors
    counts = tuple(n for n, own in enumerate(vectors) if ((own == 0) | (own == 1)).all())
    labels = np.zeros(vectors.shape[1], dtype=np.int64)
    for bit, n in enumerate(counts):
        labels |= vectors[n] << bit
    units = [columns[number].multiplier for number in numbers]
    equal: dict[bytes, int] = {}
    different = [equal.setdefault(vector.tobytes(), n) for n, vector in enumerate(vectors)]
    different = [n for n in dict.fromkeys(different) if n not in counts]
    beyond = [n for n in different if vectors[n, labels == 0].any()]
    sums = [n for n in different if n not in beyond]
    bought = [one for n in beyond for one in _by_size(columns[numbers[n]])]
    added = not sums and not beyond
    found: dict[tuple[int, Fraction, float, int], IntArray] = {}
    wide = int(cells.rows.max()) + 1
    pairs = [divmod(one, wide) for one in coded(labels * wide + cells.rows)[1].tolist()]
    pairs = [one for one in pairs if one[0]]
    if cells.keyed and len(pairs) * labels.size > _WORK:
        return None
    for label, group in pairs:
        inside = (labels == label) & (cells.rows == group)
        varied = families([(n, vectors[n, inside]) for n in sums if np.ptp(vectors[n, inside]) > 0])
        rows = [
            (values.values, (units[one.of] * one.unit) ** one.degree, values.step)
            for one in varied
            for values in one.moments(measure)
        ]
        ones = np.ones(int(inside.sum()), dtype=np.int64)
        for place, (values, unit, step) in enumerate(rows or [(ones, Fraction(1), 1)]):
            key = label, unit, float(step), place if rows else -1
            found.setdefault(key, np.zeros_like(labels))[inside] = values
    for (label, unit, size, place), values in found.items():
        whole = [n for n in counts if place < 0 and units[n] == 1 and (vectors[n] == values).all()]
        count = columns[numbers[whole[0]]] if whole else None
        of = frozenset(numbers[n] for bit, n in enumerate(counts) if label >> bit & 1)
        bought.append(
            _Part(count or cells.column(values, unit), size, of if added else frozenset())
        )
    return bought


def _by_size(column: Column) -> list[_Part]:
    """The rows of a column, apart by their largest coefficients if these are few."""
    largest = np.ones(column.height)
    for factor, rows in zip(column.factors, column.factor_rows(column.numbers), strict=True):
        own = np.zeros(factor.height)
        own[factor.rows[factor.starts]] = factor.largest_by_row
        largest *= own[rows]
    sizes = np.unique(largest[largest > 0]).tolist() if column.disjoint else []
    if not 0 < len(sizes) <= _PARTS:
        return [_Part(column, float(column.largest))]
    each = ((np.flatnonzero(largest == size).astype(np.int64), size) for size in sizes)
    return [_Part(column.take(rows), size) for rows, size in each]


def _rows_of(factors: Sequence[Factor], sizes: dict[str, int]) -> IntArray:
    """The row of the product of factors that each cell of the axes is in. Those with the same axes
    agree; cells in none of their rows are in the first."""
    found = np.zeros(tuple(sizes.values()), dtype=np.int64)
    labels: dict[tuple[tuple[str, ...], int], IntArray] = {}
    for factor in factors:
        kind, own = (factor.axes, factor.height), _labels(factor)
        labels[kind] = np.maximum(labels.get(kind, own), own)
    for (axes, height), own in labels.items():
        found = found * height + np.maximum(own, 0).reshape(_broadcast(axes, sizes))
    return found.ravel()


def _broadcast(axes: Sequence[str], sizes: dict[str, int]) -> list[int]:
    """The shape of an array over some of the axes, in the table's order, beside the others."""
    return [size if axis in axes else 1 for axis, size in sizes.items()]


def _vector(factors: Sequence[Factor], sizes: dict[str, int]) -> IntArray:
    """What the rows of these factors, which are disjoint, count of each cell of the axes."""
    found = np.ones(tuple(sizes.values()), dtype=np.int64)
    for factor in factors:
        own = np.zeros(factor.size, dtype=np.int64)
        own[factor.cells] = factor.coefficients
        found = found * own.reshape(_broadcast(factor.axes, sizes))
    return found.ravel()
