"""Whether a question lies outside of what is recorded, as a look at a few places shows.

If q = A H, then wherever q is other than 0 some row of H is. And if D takes the difference of
neighbouring values along each attribute, q D = A (H D): wherever q *changes* along all attributes
at once, some row of H does. A range over some attributes changes at its corners alone, and an
attribute that is not mentioned changes at its first value alone; so a single corner that no
recorded row has shows that the question is none of their combinations.

The rows of a question that differ in some attributes, its keys, are looked at through one value of
each key: of a recorded row this leaves a multiple of its factors over the other attributes, and of
the question its own. So one look rules out all groups, or none of them. Of several questions no
combination lies in the span of H if there is a place for each that no row of H touches, and their
values at these places are independent.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from tallyveil import deadline
from tallyveil.alike import coded
from tallyveil.inference.noise import FloatArray
from tallyveil.workload.classes import all_known
from tallyveil.workload.workload import Column, Factor

__all__ = ["keys_of", "outside", "separate"]

_PLACES: Final = 16  # of a question, that are looked at
_QUESTIONS: Final = 16

_Point: TypeAlias = Mapping[str, int]
_Lines: TypeAlias = Mapping[str, FloatArray]
"""By attribute the coefficients of its values; 1 for all values of one that is not here."""


def keys_of(columns: Sequence[Column]) -> frozenset[str]:
    """The attributes in which the rows of a column differ."""
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


def outside(
    questions: Sequence[Column],
    keys: frozenset[str],
    touched: Callable[[_Point, bool], bool],
) -> bool:
    """Whether no combination of the questions' rows, but for 0, lies in the span of rows of which
    ``touched`` says if any may be other than 0 at a point or, if True, change there. False if that
    is not known."""
    if len(questions) > _QUESTIONS:
        return False
    known = all_known(_lines(question, keys) for question in questions)
    if known is None:
        return False
    changes = [*map(_changes, known)]
    return _apart(changes, touched, change=True) or _apart(known, touched, change=False)


def _apart(
    lines: Sequence[_Lines], touched: Callable[[_Point, bool], bool], *, change: bool
) -> bool:
    free = []
    for own in lines:
        found = next((point for point in _points(own) if not touched(point, change)), None)
        if found is None:
            return False
        free.append(found)
    values = [[_value(own, point, change=change) for own in lines] for point in free]
    return len(lines) == 1 or int(np.linalg.matrix_rank(np.array(values))) == len(lines)


def _lines(question: Column, keys: frozenset[str]) -> _Lines | None:
    """None where an attribute that is no key goes together with others."""
    found = {}
    for factor in question.factors:
        if keys.issuperset(factor.axes):
            continue
        if len(factor.axes) != 1 or factor.height != 1 or not len(factor.cells):
            return None
        line = np.zeros(factor.size)
        line[factor.cells] = factor.coefficients
        found[factor.axes[0]] = line
    return found


def _changes(lines: _Lines) -> _Lines:
    return {axis: np.diff(line, prepend=0.0) for axis, line in lines.items()}


def _points(lines: _Lines) -> Iterator[_Point]:
    """The first and the last places of each attribute that are not 0, combined."""
    ends = []
    for line in lines.values():
        filled = np.flatnonzero(line)
        ends.append(sorted({int(filled[0]), int(filled[-1])}))
    for places in itertools.islice(itertools.product(*ends), _PLACES):
        yield dict(zip(lines, places, strict=True))


def _value(lines: _Lines, point: _Point, *, change: bool) -> float:
    """At a point; an attribute that is not among the lines is 1 at all values, and changes at the
    first alone."""
    if change and any(at for axis, at in point.items() if axis not in lines):
        return 0.0
    return math.prod(float(line[point.get(axis, 0)]) for axis, line in lines.items())
