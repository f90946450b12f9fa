"""What a release costs each cell: the loss of one record more or less (BAYES Theorem 5.5).

A column whose lattice steps cost rate_c each makes a record in cell j pay Σ_i |C_ij| · rate_c;
a workload's columns add up. The statement's cost is the largest cell's (MATH §2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tallyveil.errors import StatementTooComplex
from tallyveil.mechanisms.tensors import CELL_LIMIT, Tensor, align, independent, join_axes, place
from tallyveil.mechanisms.units import IntArray, loss_units
from tallyveil.rewriter.workload import Column

__all__ = ["CellLoss", "cell_losses", "check_magnitude", "midrange_losses"]


@dataclass(frozen=True)
class CellLoss:
    """Units each cell pays, as the sum of ``tensors``.

    ``bound``, the sum of their maxima, is at least the largest cell's loss, and equal to it when
    ``exact``. An empty sum is a release that depends on no record.
    """

    tensors: tuple[Tensor, ...]

    @property
    def bound(self) -> int:
        return sum(t.highest for t in self.tensors)

    @property
    def exact(self) -> bool:
        return independent([t.axes for t in self.tensors])


def cell_losses(columns: Sequence[Column], rates: Sequence[Fraction]) -> tuple[Tensor, ...]:
    """The cells' losses; columns are summed exactly and rounded up once per tensor.

    One tensor over all mentioned axes if that is small enough, else one per group of columns.
    """
    for column in columns:
        check_magnitude(column)
    weights = [column.cell_weights.reshape(column.shape) for column in columns]
    return _tensors(columns, weights, [0] * len(columns), rates)


def midrange_losses(
    columns: Sequence[Column], rates: Sequence[Fraction], closed: bool
) -> tuple[Tensor, ...]:
    """Σ_i |C_ij − m_i| · rate, m_i half way between row i's least and greatest coefficient.

    Every cell counts for the range, so also 0 where a row leaves a cell untouched or, unless
    ``closed``, for a record outside the cube.
    """
    doubled = [_twice_from_midrange(column, closed) for column in columns]
    halves = [rate / 2 for rate in rates]
    weights = [weight for weight, _ in doubled]
    return _tensors(columns, weights, [outside for _, outside in doubled], halves)


def check_magnitude(column: Column) -> None:
    """Refuse coefficients whose sums could leave 64 bits and so understate a cost."""
    if not np.abs(column.coefficients.astype(np.float64)).sum() < 2.0**60:
        raise StatementTooComplex(
            "the coefficients of this aggregate are too large to account for",
            hint="Divide the summed expression by a constant.",
        )


def _tensors(
    columns: Sequence[Column],
    weights: Sequence[IntArray],
    outsides: Sequence[int],
    rates: Sequence[Fraction],
) -> tuple[Tensor, ...]:
    return tuple(_sum(columns, weights, outsides, rates, group) for group in _groups(columns))


def _groups(columns: Sequence[Column]) -> list[list[int]]:
    """The columns to sum into one tensor: all of them, unless their axes are too many."""
    sizes = {name: size for c in columns for name, size in zip(c.axes, c.shape, strict=True)}
    if math.prod(sizes.values()) <= CELL_LIMIT:
        return [list(range(len(columns)))] if columns else []
    groups: list[list[int]] = []
    for c, column in enumerate(columns):
        axes = [join_axes(*(columns[m].axes for m in group)) for group in groups]
        chosen = place(axes, column.axes, sizes)
        members = [m for g in chosen for m in groups[g]]
        groups = [group for g, group in enumerate(groups) if g not in chosen]
        groups.append([*members, c])
    return groups


def _sum(
    columns: Sequence[Column],
    weights: Sequence[IntArray],
    outsides: Sequence[int],
    rates: Sequence[Fraction],
    members: Sequence[int],
) -> Tensor:
    axes = join_axes(*(columns[m].axes for m in members))
    chosen = [rates[m] for m in members]
    values = loss_units([align(weights[m], columns[m].axes, axes) for m in members], chosen)
    beyond = [np.array(outsides[m], dtype=np.int64) for m in members]
    return Tensor(axes, values, int(loss_units(beyond, chosen)))


def _twice_from_midrange(column: Column, closed: bool) -> tuple[IntArray, int]:
    """(Σ_i |2 C_ij − s_i| per cell, Σ_i |s_i| outside), s_i = least + greatest of row i."""
    touched = np.bincount(column.rows, minlength=column.height)
    full = (touched == column.size) & closed
    least = np.where(full, np.iinfo(np.int64).max, 0)
    greatest = np.where(full, np.iinfo(np.int64).min, 0)
    np.minimum.at(least, column.rows, column.coefficients)
    np.maximum.at(greatest, column.rows, column.coefficients)
    s = least + greatest
    untouched = int(np.abs(s).sum())
    weights = np.full(column.size, untouched, dtype=np.int64)
    moved = np.abs(2 * column.coefficients - s[column.rows]) - np.abs(s[column.rows])
    np.add.at(weights, column.cells, moved)
    return weights.reshape(column.shape), 0 if closed else untouched
