"""Sets of cells any two of which are nested or disjoint: their span by their atoms.

A row is a multiple of a set's indicator. The atom of a set has its cells that are in no set
inside it. A row w lies in the span exactly if it is 0 outside all sets and constant on each atom.
With w(i) its value on the atom of set i, or on the atom around it if that of i is empty,

    w = Σ_i (w(i) − w(parent of i)) / a_i · (row i),   a_i the coefficient of row i,

since on a cell the sum over the sets around it telescopes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TypeAlias, TypeVar

import numpy as np

from tallyveil import deadline
from tallyveil.alike import run_starts
from tallyveil.arrays import FloatArray, IntArray
from tallyveil.invariants.combination import ExactCombination, ratio
from tallyveil.workload.workload import Factor

__all__ = ["Laminar", "Weighed"]

Weighed: TypeAlias = tuple[IntArray, FloatArray]
"""Numbers of rows, and the weight of each."""
_Values = TypeVar("_Values", IntArray, FloatArray)

_AT_ONCE = 1_024  # rows between two checks of the deadline
_WORK = 50_000_000
_LARGEST = 2**62


class Laminar:
    """The sets of a factor's rows. ``owner`` is the set whose atom holds each cell, −1 for none,
    ``parent`` the least set around each set, −1 for none, and ``sizes`` are those of the atoms."""

    def __init__(self, factor: Factor, owner: IntArray, parent: IntArray) -> None:
        self.owner, self.parent = owner, parent
        height = factor.height
        self.sizes = np.bincount(owner[owner >= 0], minlength=height)
        starts = np.searchsorted(factor.rows, np.arange(height))
        empty = factor.entries == 0
        first = factor.coefficients[np.where(empty, 0, starts)] if len(factor.rows) else empty
        self._coefficients = np.where(empty, 1, first)
        self._nested = bool((parent >= 0).any())
        self._around = self._nearest(np.argsort(-factor.entries, kind="stable"))

    @classmethod
    def of(cls, factor: Factor) -> Laminar | None:
        """The sets of a factor's rows, or None if these are not nested or disjoint sets."""
        same_row = np.diff(factor.rows) == 0
        if (same_row & (np.diff(factor.coefficients) != 0)).any():
            return None
        owner = np.full(factor.size, -1, dtype=np.int64)
        parent = np.full(factor.height, -1, dtype=np.int64)
        if len(np.unique(factor.cells)) == len(factor.cells):
            owner[factor.cells] = factor.rows
            return cls(factor, owner, parent)
        sizes, top, height = factor.entries, owner.copy(), max(1, factor.height)
        for rows, cells in _by_size(factor):
            deadline.check()
            tops = top[cells]
            inside = tops >= 0
            pairs, counts = np.unique(tops[inside] * height + rows[inside], return_counts=True)
            sets, around = np.divmod(pairs, height)
            if (counts != sizes[sets]).any():
                return None
            parent[sets] = around
            owner[cells[~inside]] = rows[~inside]
            top[cells] = rows
        return cls(factor, owner, parent)

    def _nearest(self, outermost_first: IntArray) -> IntArray:
        """Each set itself if its atom is not empty, otherwise the nearest such set around it."""
        around = np.arange(len(self.parent))
        for row in outermost_first.tolist() if self._nested else ():
            if not self.sizes[row]:
                above = self.parent[row]
                around[row] = around[above] if above >= 0 else -1
        return around

    @property
    def rank(self) -> int:
        return int(np.count_nonzero(self.sizes))

    def atoms(self, values: Sequence[int]) -> tuple[Factor, list[int]]:
        """The indicators of the atoms that are not empty, over one axis of all cells, and their
        values, from those of the rows."""
        level = [ratio(v, a) for v, a in zip(values, self._coefficients.tolist(), strict=True)]
        counts = list(level)
        for row, above in enumerate(self.parent.tolist()):
            if above >= 0:
                counts[above] -= level[row]
        filled = np.flatnonzero(self.sizes)
        number = np.cumsum(self.sizes > 0) - 1
        cells = np.flatnonzero(self.owner >= 0)
        rows, ones = number[self.owner[cells]], np.ones_like(cells)
        factor = Factor.of_entries(("",), (len(self.owner),), len(filled), rows, cells, ones)
        return factor, [int(counts[row]) for row in filled.tolist()]

    def combinations(self, asked: Factor) -> list[ExactCombination | None]:
        """For each row of a factor over the same cells its combination; None if there is none, or
        finding it would take too much work."""
        found: list[ExactCombination | None] = [None] * asked.height
        if asked.largest >= _LARGEST or (self._nested and asked.height * len(self.parent) > _WORK):
            return found
        outside = np.zeros(asked.height, dtype=bool)
        outside[asked.rows[self.owner[asked.cells] < 0]] = True
        rows, sets, lengths, starts, values = self._on_atoms(asked)
        uneven = values != np.repeat(values[starts], lengths)
        outside[np.repeat(rows, lengths)[uneven]] = True
        outside[rows[lengths != self.sizes[sets]]] = True
        values = values[starts]
        ends = np.searchsorted(rows, np.arange(asked.height + 1))
        for number, row in enumerate(np.flatnonzero(~outside).tolist()):
            if number % _AT_ONCE == 0:
                deadline.check()
            own = slice(ends[row], ends[row + 1])
            found[row] = self._combined(sets[own], values[own])
        return found

    def centres(self, asked: Factor) -> list[Weighed]:
        """For each row the λ for which λC is the middle between the row's least and greatest
        coefficient on each atom, so that |w − λC| is at most half of its range there."""
        rows, sets, lengths, starts, values = self._on_atoms(asked)
        if not len(starts):
            return [(rows, np.zeros(0))] * asked.height
        rest = np.where(lengths < self.sizes[sets], 0, values[starts])
        low = np.minimum(np.minimum.reduceat(values, starts), rest)
        twice = low + np.maximum(np.maximum.reduceat(values, starts), rest)
        ends = np.searchsorted(rows, np.arange(asked.height + 1))
        found = []
        for start, end in itertools.pairwise(ends.tolist()):
            deadline.check()
            found.append(self.weighed(sets[start:end], twice[start:end] / 2))
        return found

    def _on_atoms(self, asked: Factor) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
        """The pairs of a row and an atom with entries in common, row by row: the row, the atom's
        set, the number of entries and the place of the first; and all entries' coefficients."""
        sets = self.owner[asked.cells]
        kept = np.flatnonzero(sets >= 0)
        order = kept[np.lexsort((sets[kept], asked.rows[kept]))]
        rows, sets = asked.rows[order], sets[order]
        starts = run_starts(rows, sets)
        lengths = np.diff(np.append(starts, len(rows)))
        return rows[starts], sets[starts], lengths, starts, asked.coefficients[order]

    def by_atom(self, asked: Factor) -> Iterator[tuple[int, IntArray, FloatArray]]:
        """For each atom on which some row is not 0: its set, these rows, and their coefficients on
        the atom's cells. All cells on which every row is 0 are represented by one."""
        sets = self.owner[asked.cells]
        order = np.lexsort((asked.rows, sets))
        order = order[np.searchsorted(sets[order], 0) :]
        for own in np.split(order, run_starts(sets[order])[1:]):
            if len(own):
                rows, row = np.unique(asked.rows[own], return_inverse=True)
                cells, cell = np.unique(asked.cells[own], return_inverse=True)
                atom = int(sets[own[0]])
                matrix = np.zeros((len(rows), len(cells) + bool(len(cells) < self.sizes[atom])))
                matrix[row.ravel(), cell.ravel()] = asked.coefficients[own]
                yield atom, rows, matrix

    def weighed(self, sets: IntArray, values: FloatArray) -> Weighed:
        """The λ for which λC is about ``values`` on the atoms of ``sets``, and 0 elsewhere."""
        sets, values = self._differences(sets, values)
        return sets, values / self._coefficients[sets]

    def _combined(self, sets: IntArray, values: IntArray) -> ExactCombination:
        """The combination of a row that is ``values`` on the atoms of ``sets``, and 0 elsewhere."""
        sets, values = self._differences(sets, values)
        pairs = zip(values.tolist(), self._coefficients[sets].tolist(), strict=True)
        return ExactCombination(tuple(sets.tolist()), tuple(ratio(v, a) for v, a in pairs))

    def _differences(self, sets: IntArray, values: _Values) -> tuple[IntArray, _Values]:
        """The differences of each set's value and that of the set around it."""
        if not self._nested:
            return sets, values
        level = np.zeros(len(self.parent) + 1, dtype=values.dtype)  # the last is 0: of no set
        level[sets] = values
        whole = level[self._around]
        above = np.where(self.parent >= 0, whole[self.parent], 0)
        sets = np.flatnonzero(whole != above)
        return sets, (whole - above)[sets]


def _by_size(factor: Factor) -> Iterator[tuple[IntArray, IntArray]]:
    """The rows and cells of a factor's entries, smaller sets first: together for all sets of one
    size if these are disjoint, otherwise one by one."""
    sizes = factor.entries[factor.rows]
    order = np.argsort(sizes, kind="stable")
    for own in np.split(order, run_starts(sizes[order])[1:]):
        rows, cells = factor.rows[own], factor.cells[own]
        ends = run_starts(rows)[1:]
        if len(np.unique(cells)) == len(cells):
            ends = ends[:0]
        yield from zip(np.split(rows, ends), np.split(cells, ends), strict=True)
