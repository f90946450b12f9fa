"""Cheap translates of a row: λ for which the greatest |w − λC| is small.

- Nested or disjoint sets: the middle between the row's least and greatest coefficient on each atom,
  which is optimal. One cell of a group whose total is known becomes ½ on the cell and −½ on the
  others.
- Anything else: the linear program min t, |w − λC| ≤ t, over classes of cells that the row does not
  distinguish where the declared rows are symmetric in them (`orbits`), or over all distinguishable
  cells.
- Several rows whose squares add up (ρ): on each atom the centre of the smallest ball around the
  cells' columns; Σ_i of the squares is then the smallest radius.

λ is rounded to fractions of one denominator. The charge is computed exactly from whichever λ is
chosen, so here λ need not be exact, only good.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np

from tallyveil import deadline
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.inference.canonical import nearest_integers
from tallyveil.invariants.laminar import Laminar, Weighed
from tallyveil.invariants.orbits import orbits
from tallyveil.invariants.span import Span
from tallyveil.invariants.translate import Translate
from tallyveil.workload.classes import Classes, by_kind, stacked
from tallyveil.workload.workload import Column, Factor

__all__ = ["centres", "posed", "translate_of"]

_ROWS: Final = 256  # of a column
_PROGRAM: Final = 200_000  # entries of a program
_PROGRAMS: Final = 16
_DENOMINATOR: Final = 4096
_ROUNDS: Final = 60
_CLOSE: Final = 1.001
_TINY: Final = 1e-9
_DEPENDENT: Final = 1e-12  # of the largest: below it a declared row follows from others


def centres(
    column: Column, span: Span, numbers: IntArray, *, squares: bool, most: int = _ROWS
) -> list[Translate]:
    """Candidate translates of a column, each of all its rows. ``numbers[i]`` is the published
    number of row i of the span; with ``squares`` the squares of the rows' costs add up. Columns
    without rows, or with more than ``most``, have none."""
    if not 0 < column.height <= most:
        return []
    several = squares and column.height > 1
    found = []
    if span.nested:
        joint = span.jointly([column])
        sets = None if joint is None else Laminar.of(joint.declared)
        if joint is not None and sets is not None:
            names = numbers[joint.numbers]
            found.append(_translate(sets.centres(joint.asked), names))
            if several:
                found.append(_translate(_balls(sets, joint.asked), names))
    else:
        if column.height <= _PROGRAMS:
            found.append(_programmed(column, span, numbers))
        if several:
            found.append(_ball_of_all(column, span, numbers))
    return [one for one in found if one is not None and len(one.rows)]


def _translate(weighed: Sequence[Weighed], names: IntArray) -> Translate | None:
    rows = np.repeat(np.arange(len(weighed)), [len(places) for places, _ in weighed])
    places = names[np.concatenate([own for own, _ in weighed])]
    return translate_of(rows, places, np.concatenate([own for _, own in weighed]))


def _balls(sets: Laminar, asked: Factor) -> list[Weighed]:
    """λ by the smallest ball around the columns of each atom's cells."""
    levels: list[dict[int, float]] = [{} for _ in range(asked.height)]
    for atom, rows, columns in sets.by_atom(asked):
        deadline.check()
        none = np.zeros((0, columns.shape[1]))
        middle = columns @ _ball(columns, none)
        for row, value in zip(rows.tolist(), middle.tolist(), strict=True):
            levels[row][atom] = value
    return [
        sets.weighed(np.array([*own], dtype=np.int64), np.array([*own.values()], dtype=np.float64))
        for own in levels
    ]


def _ball_of_all(column: Column, span: Span, numbers: IntArray) -> Translate | None:
    """λ by the smallest ball around the cells' columns, modulo those of the declared rows."""
    over = posed(column, span, numbers)
    if over is None:
        return None
    declared, asked, names = over
    found = _projection(asked, declared, _ball(asked, declared))
    rows, places = np.nonzero(found)
    return translate_of(rows, np.concatenate(names)[places], found[rows, places])


def _ball(columns: FloatArray, declared: FloatArray) -> FloatArray:
    """Weights p ≥ 0, Σp = 1, for which the mean of the columns, or their regression on the declared
    rows, is about the centre. Columns farther away gain weight: p ← p√q with q = ‖r‖² / Σp‖r‖²."""
    p = np.full(columns.shape[1], 1 / columns.shape[1])
    for _ in range(_ROUNDS):
        deadline.check()
        if len(declared):
            middle = _projection(columns, declared, p) @ declared
        else:
            middle = (columns @ p)[:, None]
        away = ((columns - middle) ** 2).sum(axis=0)
        mean = float(p @ away)
        if mean <= _TINY or away.max() <= _CLOSE * mean:
            break
        p = p * np.sqrt(away / mean)
        p /= p.sum()
    return p


def _projection(columns: FloatArray, declared: FloatArray, weights: FloatArray) -> FloatArray:
    """Λ = A P Cᵀ (C P Cᵀ)⁺."""
    weighted = declared * weights
    found: FloatArray = (
        columns @ weighted.T @ np.linalg.pinv(weighted @ declared.T, _DEPENDENT, hermitian=True)
    )
    return found


def _programmed(column: Column, span: Span, numbers: IntArray) -> Translate | None:
    """λ by linear programs, one for each row."""
    over = _by_orbits(column, span, numbers) or posed(column, span, numbers)
    if over is None:
        return None
    declared, asked, names = over
    rows, places, values = list[int](), list[int](), list[float]()
    for row in range(asked.shape[0]):
        deadline.check()
        best = _least(declared, asked[row])
        if best is None:
            return None
        for place in np.flatnonzero(np.abs(best) > _TINY).tolist():
            rows += [row] * len(names[place])
            places += names[place].tolist()
            values += [float(best[place])] * len(names[place])
    return translate_of(np.array(rows, np.int64), np.array(places, np.int64), np.array(values))


def translate_of(
    rows: IntArray, places: IntArray, values: FloatArray, most: int = _DENOMINATOR
) -> Translate | None:
    """The translate of row ``rows[t]`` by about ``values[t]`` times the declared row ``places[t]``,
    in fractions of ``most`` or of a smaller denominator; None if numbers are too large."""
    kept = np.abs(values) > _TINY
    rows, places, values = rows[kept], places[kept], values[kept]
    denominator = _denominator(values, most)
    numerators = nearest_integers(values * denominator)
    if np.abs(numerators).max(initial=0) >= 2.0**53:
        return None
    return Translate(rows, places, numerators.astype(np.int64), denominator)


_Posed: TypeAlias = tuple[FloatArray, FloatArray, list[IntArray]]
"""The declared rows and those asked over distinguishable cells, and the declared rows' numbers."""


def _by_orbits(column: Column, span: Span, numbers: IntArray) -> _Posed | None:
    classes = Classes.of([column])
    parts, names = [], list[IntArray]()
    for n in span.basis:
        one = orbits(span.columns[n], classes, _PROGRAM)
        if one is None:
            return None
        sums, of_row = one
        parts.append(sums)
        own = numbers[span.row_numbers(n)]
        order = np.argsort(of_row, kind="stable")
        names += np.split(own[order], np.cumsum(np.bincount(of_row))[:-1])
    asked = classes.column(column).multiplied_out(_PROGRAM)
    if asked is None or sum(part.height for part in parts) * asked.size > _PROGRAM:
        return None
    return stacked(parts).dense().astype(np.float64), asked.dense().astype(np.float64), names


def posed(column: Column, span: Span, numbers: IntArray) -> _Posed | None:
    """The problem over all distinguishable cells; None if these are too many."""
    joint = span.jointly([column])
    if joint is None:
        return None
    whole = by_kind(stacked([joint.declared, joint.asked]))
    if whole.size * whole.height > _PROGRAM:
        return None
    matrix, height = whole.dense().astype(np.float64), joint.declared.height
    return matrix[:height], matrix[height:], [numbers[[n]] for n in joint.numbers.tolist()]


def _least(declared: FloatArray, row: FloatArray) -> FloatArray | None:
    """The λ that minimises the greatest |row − λ · declared|; None if it is not found."""
    from scipy.optimize import linprog

    joint = np.unique(np.vstack([declared, row]), axis=1)
    declared, row = joint[:-1], joint[-1]
    ones = np.ones((declared.shape[1], 1))
    bounds = [(None, None)] * len(declared) + [(0, None)]
    objective = np.append(np.zeros(len(declared)), 1.0)
    sides = np.vstack([np.hstack([-declared.T, -ones]), np.hstack([declared.T, -ones])])
    found = linprog(objective, sides, np.append(-row, row), bounds=bounds, method="highs")
    return np.asarray(found.x[:-1]) if found.status == 0 else None


def _denominator(values: FloatArray, most: int) -> int:
    """The least denominator with which all values are about whole, or a large one."""
    for denominator in range(1, min(61, most)):
        scaled = values * denominator
        if (np.abs(scaled - np.rint(scaled)) < 1e-6).all():
            return denominator
    return most
