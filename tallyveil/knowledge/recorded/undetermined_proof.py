"""A quick proof, from a few cells, that the recorded rows do not determine a question.

If q = A H, then wherever q is not 0, some row of H is not 0. And if D takes the difference of
neighbouring values along each attribute, q D = A (H D): wherever q *changes* along all attributes
at once, some row of H does. A range over some attributes changes only at its corners, and along an
attribute that is not mentioned it changes only at the first value. So a single corner that no
recorded row has proves that the question is not a combination of theirs.

Along one attribute more can be proved. Fix a corner in all others: most rows that have this corner
are ranges of the one attribute. Such a range is an edge between the two cuts where it begins and
ends. If the rows determine the question, its changes add up to 0 over all cuts that the edges
connect with each other. A row that is not known to be a range may connect all cuts that it spans.

Where the rows of a question differ in some attributes, its keys, one value of each key is fixed.
That leaves a multiple of a recorded row's factors over the other attributes, and the question's own
factors. So one check rules out all groups or none. Of several questions no combination lies in the
span of H if each has a place, or a sum of changes, that is 0 for all rows of H, and the questions'
values there are linearly independent.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from tallyveil import deadline
from tallyveil.alike import coded
from tallyveil.arrays import IntArray
from tallyveil.knowledge.recorded.spans import Spans
from tallyveil.workload.classes import all_known
from tallyveil.workload.workload import Column, Factor

__all__ = ["keys_of", "proves_undetermined", "separate"]

_PLACES: Final = 16  # places of a question to check
_QUESTIONS: Final = 16
_CHANGES: Final = 1_000  # of a question along one attribute to check

_Point: TypeAlias = Mapping[str, int]
_Lines: TypeAlias = Mapping[str, Factor]
"""One row of coefficients by attribute. Along other attributes all coefficients are 1."""


class _Check(NamedTuple):
    """A point; with ``along`` an attribute of this ``size``, the sum of the changes at its
    ``cuts``, where the other attributes are at the point."""

    point: _Point
    along: str = ""
    size: int = 0
    cuts: frozenset[int] = frozenset()


def keys_of(columns: Sequence[Column]) -> frozenset[str]:
    """The attributes in which rows of the same column differ."""
    factors = (factor for column in columns for factor in column.factors)
    return frozenset(axis for factor in factors if factor.height > 1 for axis in factor.axes)


def separate(column: Column) -> bool:
    """Whether each row of each factor has a cell that no other row touches."""
    return all(_own_cells(factor) for factor in column.factors if factor.height > 1)


def _own_cells(factor: Factor) -> bool:
    if len(factor.starts) < factor.height:
        return False
    where, cells = coded(factor.cells)
    deadline.check()
    alone = np.bincount(where, minlength=len(cells))[where] == 1
    deadline.check()
    return bool(np.bincount(factor.rows[alone], minlength=factor.height).all())


def proves_undetermined(
    questions: Sequence[Column], keys: frozenset[str], recorded: Sequence[Spans]
) -> bool:
    """Whether the check proves that no combination of the questions' rows but 0 lies in the span of
    the recorded rows."""
    if len(questions) > _QUESTIONS:
        return False
    lines = all_known(_lines(question, keys) for question in questions)
    if lines is None:
        return False
    return any(_independent(lines, keys, recorded, change=change) for change in (True, False))


def _independent(
    lines: Sequence[_Lines], keys: frozenset[str], recorded: Sequence[Spans], *, change: bool
) -> bool:
    checks = all_known(_free(own, lines, keys, recorded, change=change) for own in lines)
    if checks is None:
        return False
    if len(lines) == 1:
        return True
    values = [[_value(own, check, change=change) for own in lines] for check in checks]
    return int(np.linalg.matrix_rank(np.array(values))) == len(lines)


def _free(
    own: _Lines,
    lines: Sequence[_Lines],
    keys: frozenset[str],
    recorded: Sequence[Spans],
    *,
    change: bool,
) -> _Check | None:
    """A check that gives 0 for all recorded rows, and something else for one question."""
    for point in _points(own, change=change):
        if not any(spans.touching(point, keys, change=change).any() for spans in recorded):
            return _Check(point)
    for axis in own if change else ():
        others = {other: line for other, line in own.items() if other != axis}
        for point in _points(others, change=True):
            size = own[axis].size
            cuts = _loose(own, axis, lines, _edges(point, keys, axis, size, recorded))
            if cuts:
                return _Check(point, axis, size, cuts)
    return None


def _edges(
    point: _Point, keys: frozenset[str], axis: str, size: int, recorded: Sequence[Spans]
) -> IntArray:
    """The first and the last cut along one axis of the columns that change at a point of the
    others, and whether they are ranges of it (3×n)."""
    found = []
    for spans in recorded:
        which = spans.touching(point, keys | {axis}, change=True)
        found.append(spans.take(np.flatnonzero(which)).along(axis, size))
    return np.concatenate(found, axis=1)


def _loose(own: _Lines, axis: str, lines: Sequence[_Lines], edges: IntArray) -> frozenset[int]:
    """Cuts of an axis that no edge connects with others, and over which the question's changes do
    not add up to 0. None if there are no such cuts, or the questions have too many changes."""
    asked = all_known(_changes(line.get(axis), own[axis].size) for line in lines)
    changes = _changes(own[axis], own[axis].size)
    if asked is None or changes is None:
        return frozenset()
    low, high, counted = edges[:, edges[0] < edges[1]]
    every = np.array([cut for one in asked for cut in one], dtype=np.int64)
    cuts = np.unique(np.concatenate([every, low, high]))
    low, high, whole = cuts.searchsorted(low), cuts.searchsorted(high), counted != 0
    filled = np.bincount(low[~whole], minlength=len(cuts))
    filled -= np.bincount(high[~whole], minlength=len(cuts))
    between = np.flatnonzero(filled.cumsum())
    low, high = np.append(low[whole], between), np.append(high[whole], between + 1)
    part = _connected(len(cuts), low, high)
    sums: dict[int, int] = {}
    for cut, by in changes.items():
        at = int(part[int(cuts.searchsorted(cut))])
        sums[at] = sums.get(at, 0) + by
    for at, total in sums.items():
        if total:
            return frozenset(cuts[part == at].tolist())
    return frozenset()


def _connected(count: int, low: IntArray, high: IntArray) -> IntArray:
    """For each of ``count`` cuts, the first of those that the edges connect with it."""
    part = np.arange(count)
    while True:
        before, least = part, np.minimum(part[low], part[high])
        part = before.copy()
        np.minimum.at(part, low, least)
        np.minimum.at(part, high, least)
        part = part[part]
        if np.array_equal(part, before):
            return part


def _changes(line: Factor | None, size: int) -> Mapping[int, int] | None:
    """By how much a line changes, by the cuts where it does; None if these may be too many. Without
    a line all coefficients are 1."""
    if line is None:
        return {0: 1, size: -1}
    low, high = int(line.cells[0]), int(line.cells[-1]) + 1
    first = int(line.coefficients[0])
    if high - low == len(line.cells) and (line.coefficients == first).all():
        return {low: first, high: -first}
    if len(line.cells) > _CHANGES:
        return None
    found: dict[int, int] = {}
    for cell, coefficient in zip(line.cells.tolist(), line.coefficients.tolist(), strict=True):
        found[cell] = found.get(cell, 0) + coefficient
        found[cell + 1] = -coefficient
    return {cut: by for cut, by in found.items() if by}


def _lines(question: Column, keys: frozenset[str]) -> _Lines | None:
    """The factors without keys; None unless each has one attribute and one row, with entries."""
    found = {}
    for factor in question.factors:
        if keys.issuperset(factor.axes):
            continue
        if len(factor.axes) != 1 or factor.height != 1 or not len(factor.cells):
            return None
        found[factor.axes[0]] = factor
    return found


def _points(lines: _Lines, *, change: bool) -> Iterator[_Point]:
    """Combinations of each attribute's first and last place that is not 0, or that changes."""
    ends = [sorted({int(own.cells[0]), _last(own, change=change)}) for own in lines.values()]
    for places in itertools.islice(itertools.product(*ends), _PLACES):
        yield dict(zip(lines, places, strict=True))


def _last(line: Factor, *, change: bool) -> int:
    """The last place that is not 0, or that changes."""
    last = int(line.cells[-1])
    if not change:
        return last
    if last + 1 < line.size:
        return last + 1
    alike = (np.diff(line.cells) == 1) & (line.coefficients[1:] == line.coefficients[:-1])
    return int(line.cells[0 if alike.all() else np.flatnonzero(~alike)[-1] + 1])


def _value(lines: _Lines, check: _Check, *, change: bool) -> float:
    """The coefficient, change or sum of changes. Attributes without a line change at the first
    value only, and after the last one."""
    values, point = [], check.point
    if check.along:
        changes = _changes(lines.get(check.along), check.size) or {}
        values.append(sum(by for cut, by in changes.items() if cut in check.cuts))
    if change and any(at for axis, at in point.items() if axis not in lines):
        return 0.0
    for axis, line in lines.items():
        if axis != check.along:
            at = point.get(axis, 0)
            values.append(_coefficient(line, at) - (_coefficient(line, at - 1) if change else 0))
    return float(math.prod(values))


def _coefficient(line: Factor, at: int) -> int:
    place = int(line.cells.searchsorted(at))
    here = place < len(line.cells) and line.cells[place] == at
    return int(line.coefficients[place]) if here else 0
