"""Whether rows that are products follow from a column that is a product: factor by factor.

Attributes that some factor of either column combines form a part; so do the factors without
attributes, which are constants. A product ⊗w_p ≠ 0 lies in
the row space of ⊗C_p exactly if every w_p lies in that of C_p, and then λ = ⊗λ_p.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tallyveil import deadline
from tallyveil.cache import kept_with
from tallyveil.invariants.combination import ExactCombination, Rational
from tallyveil.invariants.laminar import Laminar
from tallyveil.invariants.modular import Modular
from tallyveil.workload.classes import all_known, spread
from tallyveil.workload.workload import Column, Factor

__all__ = ["ProductSpace", "row_space"]

_AT_ONCE = 4_096  # rows between two checks of the deadline
_LIMIT = 2_000_000  # cells or entries of a part that is multiplied out


def row_space(rows: Factor) -> Laminar | Modular:
    """The row space of one factor: as nested sets if possible, otherwise by elimination."""
    return Laminar.of(rows) or Modular(rows)


@dataclass(frozen=True, eq=False)
class _Part:
    """Declared rows over some axes. Row i adds ``numbers[i]`` to the number of the whole row."""

    space: Laminar | Modular
    numbers: tuple[int, ...]


class ProductSpace:
    """The row space of a declared column. ``sizes`` has each attribute's number of values."""

    def __init__(self, column: Column, sizes: Mapping[str, int]) -> None:
        self._column = column
        self._sizes = sizes

    def rank(self) -> int | None:
        """The rank, or None if finding it would take too much work."""
        parts = (self._part(axes) for axes in self._tied(()))
        ranks = all_known(None if part is None else part.space.rank for part in parts)
        return None if ranks is None else math.prod(ranks)

    def combinations(self, asked: Column) -> list[ExactCombination | None] | None:
        """For each row of the column its combination of the declared rows, or None; a single None
        if finding them would take too much work."""
        rows = asked.factor_rows(asked.numbers)
        found: list[list[ExactCombination | None]] = []
        for axes in self._tied(asked.factors):
            deadline.check()
            inside = _inside(asked, axes)
            part, own = self._part(axes), self._spread([asked.factors[n] for n in inside], axes)
            if part is None or own is None:
                return None
            each = [one and one.renumbered(part.numbers) for one in part.space.combinations(own)]
            if not any(each):
                return [None] * asked.height
            place = np.zeros(asked.height, dtype=np.int64)
            for n in inside:
                place = place * asked.factors[n].height + rows[n]
            found.append([each[n] for n in place.tolist()])
        if len(found) == 1:
            return found[0]
        result = []
        for row in range(asked.height):
            if row % _AT_ONCE == 0:
                deadline.check()
            result.append(_product([each[row] for each in found]))
        return result

    def _tied(self, factors: Sequence[Factor]) -> list[tuple[str, ...]]:
        """The attributes of each part."""
        whole = self._column.axes if self._column.selected is not None else ()
        sets = [set(f.axes) for f in (*self._column.factors, *factors)]
        parts: list[set[str]] = [] if all(sets) else [set()]
        for one in filter(None, [set(whole), *sets]):
            met = [part for part in parts if part & one]
            parts = [part for part in parts if not part & one] + [one.union(*met)]
        return [tuple(axis for axis in self._sizes if axis in part) for part in parts]

    @kept_with
    def _part(self, axes: tuple[str, ...]) -> _Part | None:
        column = self._column
        inside = _inside(column, axes) if column.selected is None else []
        if column.selected is not None and _has(axes, column.axes):
            rows = spread(column, axes, [self._sizes[axis] for axis in axes], _LIMIT)
            numbers = np.arange(column.height)
        else:
            rows = self._spread([column.factors[n] for n in inside], axes)
            heights = [factor.height for factor in column.factors]
            numbers = np.zeros(1, dtype=np.int64)
            for n in inside:
                stride = math.prod(heights[n + 1 :])
                numbers = (numbers[:, None] + stride * np.arange(heights[n])).ravel()
        return None if rows is None else _Part(row_space(rows), tuple(numbers.tolist()))

    def _spread(self, factors: Sequence[Factor], axes: tuple[str, ...]) -> Factor | None:
        return spread(Column(tuple(factors)), axes, [self._sizes[axis] for axis in axes], _LIMIT)


def _inside(column: Column, axes: tuple[str, ...]) -> list[int]:
    return [n for n, factor in enumerate(column.factors) if _has(axes, factor.axes)]


def _has(axes: tuple[str, ...], some: tuple[str, ...]) -> bool:
    """Whether the part of ``axes`` has a factor over ``some`` of them: constants are one part."""
    return set(some) <= set(axes) if some else not axes


def _product(parts: Sequence[ExactCombination | None]) -> ExactCombination | None:
    """λ = ⊗λ_p of the parts' combinations, whose row numbers add up."""
    known = all_known(parts)
    if known is None:
        return None
    places: list[int] = []
    factors: list[Rational] = []
    pairs = (zip(one.places, one.factors, strict=True) for one in known)
    for chosen in itertools.product(*pairs):
        places.append(sum(place for place, _ in chosen))
        factors.append(math.prod(factor for _, factor in chosen))
    return ExactCombination(tuple(places), tuple(factors))
