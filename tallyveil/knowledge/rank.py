"""Whether recorded columns may determine a question at all, found out without solving for it.

A row q is determined by recorded rows H only if q = A H, and then q V = A (H V) for whatever matrix
V. V is random here, a product of a matrix for each attribute, so that a column that is a Kronecker
product is multiplied factor by factor. Where q V lies outside the space that the rows of H V span,
q is not determined; where it lies inside, it almost surely is, but for what V does not look at.

The rows of a question that differ in some attributes, its keys, are looked at through one value of
each key: of a recorded row this leaves a multiple of its factors over the other attributes, and of
the question its own. So one test rules out all groups, or none of them.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import numpy as np

from tallyveil import deadline
from tallyveil.inference.noise import FloatArray
from tallyveil.knowledge.projection import Probes
from tallyveil.locks import Rank, ranked_lock
from tallyveil.workload.workload import Column, Factor

__all__ = ["Span", "keys_of", "separate"]

_RANK: Final = 512
_SPARE: Final = 32  # columns of V more than the rank, so that what lies outside is seen to
_PROBES: Final = _RANK + _SPARE
_FIRST: Final = 128
_TOGETHER: Final = 64
_BASES: Final = 8

_NOTHING: Final = 1e-13  # what rounding leaves of a row that lies in the space
_OUTSIDE: Final = 1e-7  # what is at least left of a row that does not
_ROUNDING: Final = 1e-15
_DOUBTFUL: Final = 1e-2


def keys_of(column: Column) -> frozenset[str]:
    """The attributes in which the column's rows differ."""
    return frozenset(axis for factor in column.factors if factor.height > 1 for axis in factor.axes)


class Span:
    """Of the columns of one table that are added to it. Threads may share it.

    Its lock is held while the rows of at most `_TOGETHER` columns are multiplied with V and
    compared, which each thread would have to do again.
    """

    def __init__(self) -> None:
        self._lock = ranked_lock(Rank.LEAF)
        self._columns: list[Column] = []
        self._keys: frozenset[str] = frozenset()
        self._probes = Probes(_PROBES, _RANK)
        self._bases: OrderedDict[frozenset[str], _Basis] = OrderedDict()

    def add(self, column: Column) -> None:
        self._columns.append(column)
        self._keys |= keys_of(column)

    def may_determine(self, questions: Sequence[Column]) -> bool | None:
        """False if no combination of the questions' rows, but for 0, lies in the span of the rows
        of all columns so far; None if that is not known."""
        keys = frozenset[str]().union(*map(keys_of, questions))
        for through in dict.fromkeys((keys, keys | self._keys)):
            inside = self._meets(through, questions)
            if inside is not None:
                return inside and (True if through == keys else None)
        return None

    def _meets(self, through: frozenset[str], questions: Sequence[Column]) -> bool | None:
        while True:
            with self._lock:
                basis = self._grown(through)
                if basis.full:
                    return None
                if basis.seen == len(self._columns):
                    found = [self._probes.rows(one, through, basis.width) for one in questions]
                    rows = [one for one in found if one is not None]
                    return basis.meets(np.concatenate(rows)) if len(rows) == len(found) else None
            deadline.check()

    def _grown(self, through: frozenset[str]) -> _Basis:
        """The basis of the rows of the columns, by some columns more."""
        basis = self._bases.setdefault(through, _Basis(_FIRST))
        rows = None if basis.full else self._next_rows(through, basis)
        if rows is None:
            basis.full = True
        else:
            basis.take_up(rows)
            if basis.full and basis.width < _PROBES:
                self._bases[through] = basis = _Basis(min(2 * basis.width, _PROBES))
        self._bases.move_to_end(through)
        while len(self._bases) > _BASES:
            self._bases.popitem(last=False)
        return basis

    def _next_rows(self, through: frozenset[str], basis: _Basis) -> FloatArray | None:
        """Of some columns that the basis has not seen; None if one of them has too many."""
        rows: list[FloatArray] = []
        for column in self._columns[basis.seen : basis.seen + _TOGETHER]:
            own = self._probes.rows(column, through, basis.width)
            if own is None:
                return None
            rows.append(own)
            basis.seen += 1
            if sum(len(own) for own in rows) >= _TOGETHER:
                break
        return np.concatenate(rows) if rows else np.zeros((0, basis.width))


class _Basis:
    """An orthonormal basis of rows, taken up one after the other."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.seen = 0
        """How many columns were taken up."""
        self.full = False
        """Whether there are too many rows to say more."""
        self._rows = np.zeros((_TOGETHER, width))
        self._rank = 0
        self._tolerance = _OUTSIDE

    def take_up(self, rows: FloatArray) -> None:
        before = self._rank
        for left in self._without(rows, 0):
            alone = self._without(left, before)
            length = math.sqrt(float(alone @ alone))
            if not length > _NOTHING:
                continue
            # The nearer to the space, the less of its direction is known.
            self._tolerance = max(self._tolerance, _ROUNDING / length)
            self.full = self._rank + _SPARE == self.width or self._tolerance > _DOUBTFUL
            if self.full:
                return
            if self._rank == len(self._rows):
                self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
            self._rows[self._rank] = alone / length
            self._rank += 1

    def meets(self, rows: FloatArray) -> bool | None:
        """Whether some combination of the rows, but for 0, may lie in the space; None if they are
        too many to say."""
        if not len(rows):
            return False
        if len(rows) > _TOGETHER:
            return None
        _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
        kept = sizes > _OUTSIDE * sizes[0]
        tolerance = max(self._tolerance, _ROUNDING / (sizes[kept][-1] / sizes[0]))
        left = self._without(directions[kept], 0)
        return bool(np.linalg.svd(left, compute_uv=False)[-1] <= tolerance)

    def _without(self, rows: FloatArray, first: int) -> FloatArray:
        """What basis rows from ``first`` on leave of them, taken off twice against rounding."""
        basis = self._rows[first : self._rank]
        for _ in range(2):
            rows = rows - (rows @ basis.T) @ basis
        return rows


def separate(column: Column) -> bool:
    """Whether each row of each factor has a cell that no other row touches."""
    return all(_own_cells(factor) for factor in column.factors if factor.height > 1)


def _own_cells(factor: Factor) -> bool:
    _, where, touched = np.unique(factor.cells, return_inverse=True, return_counts=True)
    return len(np.unique(factor.rows[touched[where.ravel()] == 1])) == factor.height
