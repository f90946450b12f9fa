"""How far a record moves a column's rows, cell by cell, over as few axes as possible.

The weight of cell j is Σ_i |C_ij|^p, with the power p = 1 for losses in ε and 2 for losses in ρ.
For a product of factors |C_ij|^p = ∏_f |F_f[i_f, j_f]|^p, so the weight is the product of the
factors' weights, w_j = ∏_f w_f(j_f), and its maximum the product of the maxima. Where the axes
have too many cells to multiply out, the weights are projected: an axis is left out, and each entry
is the maximum over it, so that no cell pays more than its entry.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil import deadline
from tallyveil.cache import kept_with
from tallyveil.errors import StatementTooComplex
from tallyveil.mechanisms.losses.loss_tensor import CELL_LIMIT, Tensor
from tallyveil.workload.workload import Column, Factor

__all__ = ["CellWeights", "can_account", "check_magnitude", "from_midrange", "from_zero"]


@dataclass(frozen=True, eq=False)
class CellWeights:
    """The product of ``parts``, of which no two have an axis in common; ``outside`` is the weight
    of a record outside the cube.

    ``exact``: each cell of the cube has exactly the weight of the entry it projects to.
    ``alike``: no row distinguishes cells that project to one entry.
    """

    parts: tuple[Tensor, ...]
    outside: int = 0
    exact: bool = True
    alike: bool = True

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(axis for part in self.parts for axis in part.axes)

    @property
    def sizes(self) -> dict[str, int]:
        return {a: n for p in self.parts for a, n in zip(p.axes, p.values.shape, strict=True)}

    @property
    def highest(self) -> int:
        return max(self.outside, math.prod(part.highest for part in self.parts))


def can_account(column: Column, power: int) -> bool:
    """Whether its coefficients are so small that no sum of their powers overflows 64 bits, which
    could understate a cost.

    Every sum in this module is at most four times Σ_i max_j |C_ij|^p, a sum over rows, however many
    cells a row has. For a product of factors this is ∏_f Σ_i max_j |F_f[i, j]|^p.
    """
    sums = [f.magnitudes[power - 1] for f in column.factors]
    return math.prod(sums) < 2.0**60 and all(total < 2.0**60 for total in sums)


def check_magnitude(column: Column, power: int) -> None:
    """Raise StatementTooComplex unless `can_account`."""
    deadline.check()
    if not can_account(column, power):
        raise StatementTooComplex(
            "the coefficients of this aggregate are too large to compute a privacy cost",
            hint="Sum up smaller values, or ask for fewer groups at a time.",
        )


def from_zero(column: Column, power: int, *, merge: bool) -> CellWeights:
    """Return Σ_i |C_ij|^p for every cell j.

    With ``merge``, axes that make no difference to the weight are left out. That is right for
    add/remove, where each cell pays for itself. Rows may still distinguish the merged cells.

    If only some rows of a product are selected, their weights are computed if they can be
    multiplied out; else the weights of all rows of the product serve as a bound.
    """
    joint = None if column.selected is None else column.multiplied_out(CELL_LIMIT)
    exact = column.selected is None or joint is not None
    parts = [_factor_weights(f, power) for f in (column.factors if joint is None else (joint,))]
    if merge:
        parts = [part.merged for part in parts]
    kept = _fitting(parts)
    whole = all(kept)
    bounds = math.prod(p.highest for p, keep in zip(parts, kept, strict=True) if not keep)
    found = [part for part, keep in zip(parts, kept, strict=True) if keep]
    if bounds != 1:
        found.append(Tensor((), np.array(bounds, dtype=np.int64)))
    return CellWeights(tuple(found), 0, exact and whole, whole and not merge)


def from_midrange(column: Column, power: int, closed: bool) -> CellWeights:
    """Return Σ_i |2 C_ij − s_i|^p for every cell j, s_i = least + greatest coefficient of row i.

    All cells count for least and greatest: a coefficient is 0 where a row does not touch a cell
    and, unless ``closed``, for a record outside the cube.

    If the product cannot be multiplied out, one bound serves all cells: |2 C_ij − s_i| is at
    most row i's range, and that at most ∏_f max_j |F_f[i_f, j]|, or twice that if coefficients
    may be negative. Summed over all rows i of the product, the p-th powers of this are
    ∏_f Σ_i max_j |F_f[i, j]|^p.
    """
    joint = column.multiplied_out(CELL_LIMIT)
    if joint is not None:
        return _twice_from_midrange(joint, power, closed)
    ranges = 1 if all((f.coefficients > 0).all() for f in column.factors) else 2**power
    for factor in column.factors:
        ranges *= int((factor.largest_by_row**power).sum())
    bound = Tensor((), np.array(ranges, dtype=np.int64))
    return CellWeights((bound,), ranges, exact=False, alike=False)


def _factor_weights(factor: Factor, power: int) -> Tensor:
    """Return the factor's weights. They are cached for small factors, since columns share the
    factors of an attribute's conditions."""
    return (_cached_weights if factor.size <= _SMALL else _compute_weights)(factor, power)


def _compute_weights(factor: Factor, power: int) -> Tensor:
    deadline.check()
    if factor.largest <= 1:
        weights = np.bincount(factor.cells, minlength=factor.size)
    else:
        weights = np.zeros(factor.size, dtype=np.int64)
        for start in range(0, len(factor.cells), _PORTION):
            deadline.check()
            part = slice(start, start + _PORTION)
            np.add.at(weights, factor.cells[part], np.abs(factor.coefficients[part]) ** power)
    return Tensor(factor.axes, weights.reshape(factor.shape))


_cached_weights = kept_with(_compute_weights)
_SMALL: Final = 1 << 14
_PORTION: Final = 1 << 18
"""Entries between two checks of the deadline."""


def _fitting(parts: Sequence[Tensor]) -> list[bool]:
    """Return which factors to multiply out within `CELL_LIMIT`, the smallest first.

    A single factor is kept whatever its size, since its weights are computed already.
    """
    kept, cells = [False] * len(parts), 1
    for n in sorted(range(len(parts)), key=lambda n: parts[n].values.size):
        size = parts[n].values.size
        if cells * size <= CELL_LIMIT or len(parts) == 1:
            kept[n], cells = True, cells * size
    return kept


def _twice_from_midrange(factor: Factor, power: int, closed: bool) -> CellWeights:
    full = (factor.entries == factor.size) & closed
    least = np.where(full, np.iinfo(np.int64).max, 0)
    greatest = np.where(full, np.iinfo(np.int64).min, 0)
    if len(factor.starts):
        present = factor.rows[factor.starts]
        for ends, end in ((least, np.minimum), (greatest, np.maximum)):
            deadline.check()
            own = end.reduceat(factor.coefficients, factor.starts)
            ends[present] = end(ends[present], own)
    s = least + greatest
    away = np.abs(s) ** power
    untouched = int(away.sum())
    weights = np.full(factor.size, untouched, dtype=np.int64)
    for start in range(0, len(factor.rows), _PORTION):
        deadline.check()
        rows, cells, coefficients = (
            of[start : start + _PORTION] for of in (factor.rows, factor.cells, factor.coefficients)
        )
        np.add.at(weights, cells, np.abs(2 * coefficients - s[rows]) ** power - away[rows])
    part = Tensor(factor.axes, weights.reshape(factor.shape))
    return CellWeights((part,), 0 if closed else untouched)
