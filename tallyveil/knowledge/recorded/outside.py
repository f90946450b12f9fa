"""A quick proof, from a few cells, that the recorded rows do not determine a question.

If q = A H, then wherever q is not 0, some row of H is not 0. And if D takes the difference of
neighbouring values along each attribute, q D = A (H D): wherever q *changes* along all attributes
at once, some row of H does. A range over some attributes changes only at its corners, and along an
attribute that is not mentioned it changes only at the first value. So a single corner that no
recorded row has proves that the question is not a combination of theirs.

Where the rows of a question differ in some attributes, its keys, one value of each key is fixed.
That leaves a multiple of a recorded row's factors over the other attributes, and the question's own
factors. So one check rules out all groups or none. Of several questions no combination lies in the
span of H if each has a place that no row of H touches, and their values at these places are
linearly independent.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from tallyveil import deadline
from tallyveil.alike import coded
from tallyveil.knowledge.recorded.spans import Spans
from tallyveil.workload.classes import all_known
from tallyveil.workload.workload import Column, Factor

__all__ = ["keys_of", "outside", "separate"]

_PLACES: Final = 16  # places of a question to check
_QUESTIONS: Final = 16

_Point: TypeAlias = Mapping[str, int]
_Lines: TypeAlias = Mapping[str, Factor]
"""One row of coefficients by attribute. Along other attributes all coefficients are 1."""


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


def outside(questions: Sequence[Column], keys: frozenset[str], recorded: Sequence[Spans]) -> bool:
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
    free = []
    for own in lines:
        for point in _points(own, change=change):
            if not any(spans.touches(point, keys, change=change) for spans in recorded):
                free.append(point)
                break
        else:
            return False
    if len(lines) == 1:
        return True
    values = [[_value(own, point, change=change) for own in lines] for point in free]
    return int(np.linalg.matrix_rank(np.array(values))) == len(lines)


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


def _value(lines: _Lines, point: _Point, *, change: bool) -> float:
    """The coefficient or change at a point. Attributes without a line change at the first value
    only."""
    if change and any(at for axis, at in point.items() if axis not in lines):
        return 0.0
    values = []
    for axis, line in lines.items():
        at = point.get(axis, 0)
        values.append(_coefficient(line, at) - (_coefficient(line, at - 1) if change else 0))
    return float(math.prod(values))


def _coefficient(line: Factor, at: int) -> int:
    place = int(line.cells.searchsorted(at))
    here = place < len(line.cells) and line.cells[place] == at
    return int(line.coefficients[place]) if here else 0
