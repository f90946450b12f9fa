"""Buys disjoint parts of the counts that a statement asks, and sums by moments of each part.

Counts that nest or overlap are sums of the parts on which all of them agree, and each record is in
one part. A sum of values from lo to hi over a part P is bought as

    a = Σ (v − lo)  and  b = Σ (hi − v):  P = (a + b)/(hi − lo),  Σ v = lo · P + a,

and with a sum of squares as three rows (`moments`). A record moves these together no more than it
could move one. So at the cost of the rows as asked, averages, variances and shares get far less
noise (docs/mathematics.md, "Parts and moments"). The parts are charged by their own loss, and all
rows follow from their answers, as from any others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np

from tallyveil.arrays import IntArray
from tallyveil.gate.strategies.moments import families
from tallyveil.gate.strategies.other_rows import Asked, OtherRows, content
from tallyveil.mechanisms import Measure
from tallyveil.workload.workload import Column, Factor

__all__ = ["parts"]

_COLUMNS: Final = 16  # of a statement; their overlaps are bits of an integer
_PARTS: Final = 32  # columns that are bought
_CELLS: Final = 200_000  # that the rows of one group distinguish
_LARGEST: Final = 2**31  # coefficient


def parts(asked: Asked) -> OtherRows | None:
    """None if there is no more to be bought than each column by itself, or they are too many."""
    columns = asked.columns[: asked.bought]
    if not 1 < len(columns) <= _COLUMNS:
        return None
    found = _parts(columns, asked.axes, asked.measure)
    if found is None or len(found) > _PARTS:
        return None
    return OtherRows(tuple(own for own, _ in found), tuple(step for _, step in found))


_Part: TypeAlias = tuple[Column, float]
"""A column that is bought, and what its noise is in proportion to."""


def _parts(columns: Sequence[Column], axes: Sequence[str], measure: Measure) -> list[_Part] | None:
    """The columns to buy; None if that is no more than each by itself."""
    alike: dict[object, list[int]] = {}
    for number, column in enumerate(columns):
        groups = tuple(map(content, _groups(column)))
        chosen = None if column.selected is None else column.selected.tobytes()
        alike.setdefault((groups, chosen), []).append(number)
    found, divided = list[_Part](), False
    for numbers in alike.values():
        own = _of_group(columns, numbers, axes, measure)
        if own is None:
            return None
        found += own
        divided = divided or any(one not in columns for one, _ in own)
    return found if divided else None


def _groups(column: Column) -> list[Factor]:
    return [factor for factor in column.factors if factor.height != 1]


def _of_group(
    columns: Sequence[Column], numbers: Sequence[int], axes: Sequence[str], measure: Measure
) -> list[_Part] | None:
    """The parts of columns ``numbers``, whose rows differ by what they add up of a group alone: a
    cell has a bit of its label for each count. Sums over other cells stay as they are. None if they
    distinguish too many cells. ``axes`` has the table's order."""
    first = columns[numbers[0]]
    each = [{content(factor) for factor in columns[number].factors} for number in numbers]
    common = frozenset(each[0]).intersection(*each)
    groups = tuple(factor for factor in first.factors if content(factor) in common)
    rest = [[f for f in columns[n].factors if content(f) not in common] for n in numbers]
    extents = {
        axis: size
        for own in rest
        for factor in own
        for axis, size in zip(factor.axes, factor.shape, strict=True)
    }
    sizes = {axis: extents[axis] for axis in axes if axis in extents}
    grouped = {axis for factor in groups for axis in factor.axes}
    plain = all((factor.coefficients == 1).all() for factor in groups)
    if math.prod(sizes.values()) > _CELLS or not plain or not grouped.isdisjoint(sizes):
        return None
    if any(columns[number].largest >= _LARGEST for number in numbers):
        return None
    vectors = np.array([_vector(own, sizes) for own in rest])
    counts = tuple(n for n, own in enumerate(vectors) if ((own == 0) | (own == 1)).all())
    labels = np.zeros(vectors.shape[1], dtype=np.int64)
    for bit, n in enumerate(counts):
        labels |= vectors[n] << bit

    def column(vector: IntArray, multiplier: Fraction) -> Column:
        cells = np.flatnonzero(vector).astype(np.int64)
        own = Factor(
            tuple(sizes), tuple(sizes.values()), 1, np.zeros_like(cells), cells, vector[cells]
        )
        return Column((*groups, own) if sizes else groups, multiplier, first.selected)

    units = [columns[number].multiplier for number in numbers]
    equal: dict[bytes, int] = {}
    every = [equal.setdefault(vector.tobytes(), n) for n, vector in enumerate(vectors)]
    every = [n for n in dict.fromkeys(every) if n not in counts]
    beyond = [n for n in every if vectors[n, labels == 0].any()]
    sums = [n for n in every if n not in beyond]
    bought = [(columns[numbers[n]], float(np.abs(vectors[n]).max())) for n in beyond]
    for label in np.unique(labels[labels != 0]).tolist():
        inside = labels == label
        varied = families([(n, vectors[n, inside]) for n in sums if np.ptp(vectors[n, inside]) > 0])
        if not varied:
            whole = [n for n in counts if units[n] == 1 and (vectors[n] == inside).all()]
            count = columns[numbers[whole[0]]] if whole else None
            bought.append((count or column(inside.astype(np.int64), Fraction(1)), 1.0))
        for family in varied:
            for moment in family.moments(measure):
                values = np.zeros_like(labels)
                values[inside] = moment.values
                unit = (units[family.of] * family.unit) ** family.degree
                bought.append((column(values, unit), float(moment.step)))
    return bought


def _vector(factors: Sequence[Factor], sizes: dict[str, int]) -> IntArray:
    """What a row of these factors counts of each cell of the axes."""
    found = np.ones(tuple(sizes.values()), dtype=np.int64)
    for factor in factors:
        shape = [size if axis in factor.axes else 1 for axis, size in sizes.items()]
        found = found * factor.dense().reshape(shape)  # both have the table's order
    return found.ravel()
