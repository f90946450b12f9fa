"""What a release costs each pair of cells: the loss of one record replaced by another.

The pair (j, k) pays Σ_c rate_c Σ_i |C_ij − C_ik|^p, p = 1 in ε and 2 in ρ; the cost is the
largest pair's (MATH §2). It is exact if the cells fall into few classes. Otherwise it is the lesser
of two upper bounds: a pair's loss is at most B_j + B_k, and so at most the sum of the two largest B
of different cells, with B_j = Σ_c rate_c Σ_i of

- p = 1, any centre m_i: |C_ij − m_i|, by the triangle inequality;
- p = 2, any centre m_i: 2 (C_ij − m_i)², since (u − v)² ≤ 2u² + 2v²;
- p = 2, if all coefficients of a row have one sign: C_ij², since then u v ≥ 0 and
  (u − v)² ≤ u² + v².

The centres are

- m_i = 0: the two largest add/remove losses, or twice that. Tight for disjoint groups.
- m_i = midrange of row i: tight for one row, since then every cell is at most half its range
  (max − min) away, and B_j + B_k at most (max − min)^p · rate.

Tensors do not have all axes. No query in a tensor distinguishes cells of the cube that project to
one entry, so their pair pays nothing, and the two largest entries of the tensor bound all pairs.
Where a product had too many cells to multiply out, cells of one entry may differ; each still pays
at most its entry, so twice the largest entry bounds all pairs. For a sum of tensors the bounds add
up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tallyveil.arrays import IntArray
from tallyveil.cache import cached_property
from tallyveil.mechanisms.losses.cell_classes import (
    CellClasses,
    ClassRows,
    distances,
    join,
    partition,
)
from tallyveil.mechanisms.losses.cell_loss import cell_losses, midrange_losses
from tallyveil.mechanisms.losses.cell_weights import check_magnitude
from tallyveil.mechanisms.losses.loss_tensor import CELL_LIMIT, Tensor
from tallyveil.mechanisms.measure import Measure, power
from tallyveil.mechanisms.units import loss_units
from tallyveil.workload.classes import over_classes
from tallyveil.workload.workload import Column

__all__ = ["ClassLoss", "GroupLoss", "PairLoss"]


@dataclass(frozen=True, eq=False)
class ClassLoss:
    """``matrix[a, b]`` units for a pair of cells of classes a and b; exact."""

    classes: CellClasses
    matrix: IntArray

    @cached_property
    def highest(self) -> int:
        return int(self.matrix.max())


@dataclass(frozen=True, eq=False)
class PairLoss:
    """The loss of a release under replace-one. Each form is computed on first use."""

    columns: tuple[Column, ...]
    rates: tuple[Fraction, ...]
    closed: bool
    measure: Measure

    def __post_init__(self) -> None:
        for column in self.columns:
            check_magnitude(column, power(self.measure))

    @property
    def cells(self) -> int:
        """About how many entries it and its columns may hold once computed, for caches."""
        return sum(min(column.size, CELL_LIMIT) + column.nbytes // 8 for column in self.columns)

    @property
    def bound(self) -> int:
        """At least the largest pair's loss, and equal to it when ``exact``."""
        if not self.columns:
            return 0
        if self.by_class is not None:
            return self.by_class.highest
        zero = sum(t.two_highest for t in self.from_zero)
        return min(zero, sum(t.two_highest for t in self.from_midrange))

    @property
    def average(self) -> float:
        """``bound``, in units, since there are too many pairs to average over."""
        return float(self.bound)

    @property
    def exact(self) -> bool:
        return not self.columns or self.by_class is not None

    @cached_property
    def by_class(self) -> ClassLoss | None:
        """The losses of all pairs of classes, or None if there are too many."""
        parts, rows = list[CellClasses](), list[ClassRows]()
        for column in self.columns:
            found = partition(column, self.closed)
            if found is None:
                return None
            parts.append(found[0])
            rows.append(found[1])
        joined = join(parts)
        if joined is None:
            return None
        classes, members = joined
        moves: list[IntArray] = []
        for part, own, member in zip(parts, rows, members, strict=True):
            matrix = distances(own, part.count, power(self.measure))
            if matrix is None:
                return None
            moves.append(matrix[np.ix_(member, member)])
        return ClassLoss(classes, loss_units(moves, self.rates))

    @cached_property
    def from_zero(self) -> Sequence[Tensor]:
        rates = [
            rate if self.measure == "epsilon" or _of_one_sign(column) else 2 * rate
            for column, rate in zip(self.columns, self.rates, strict=True)
        ]
        return self._by_kind(lambda columns: cell_losses(columns, rates, self.measure, merge=False))

    @cached_property
    def from_midrange(self) -> Sequence[Tensor]:
        return self._by_kind(
            lambda columns: midrange_losses(columns, self.rates, self.measure, self.closed)
        )

    def _by_kind(self, losses: Callable[[Sequence[Column]], Sequence[Tensor]]) -> Sequence[Tensor]:
        """Return the cells' losses. If all cells fit into one tensor, ``losses`` is computed once
        for all cells that no row distinguishes."""
        sizes = dict(size for c in self.columns for size in zip(c.axes, c.shape, strict=True))
        if math.prod(sizes.values()) > CELL_LIMIT:
            return losses(self.columns)
        kinds, columns = over_classes(self.columns)
        return [one.spread(kinds.labels) for one in losses(columns)]


@dataclass(frozen=True, eq=False)
class GroupLoss(PairLoss):
    """The loss of a release about disjoint groups, whose counts are the rows of the only column.

    A record that moves between groups, into one or out of one costs what the column does, as of
    any `PairLoss`. Every pair of cells of one group pays ``within``, also two that no release
    distinguishes. So a cell's B is the rate or half of ``within``, whichever is more.
    """

    within: Fraction

    @cached_property
    def by_class(self) -> ClassLoss | None:
        [column], [rate] = self.columns, self.rates
        found = partition(column, self.closed)
        joined = None if found is None else join([found[0]])
        if found is None or joined is None:
            return None
        (part, rows), (classes, (members,)) = found, joined
        moves = distances(rows, part.count, 1)  # of classes in one row each: never too much work
        if moves is None:
            return None
        losses, one = loss_units([moves], [rate]), np.ones(len(rows.classes), dtype=np.int64)
        losses[rows.classes, rows.classes] = loss_units([one], [self.within])
        return ClassLoss(classes, losses[np.ix_(members, members)])

    @cached_property
    def from_zero(self) -> Sequence[Tensor]:
        most = [max(self.rates[0], self.within / 2)]
        return self._by_kind(lambda columns: cell_losses(columns, most, self.measure, merge=False))

    @property
    def from_midrange(self) -> Sequence[Tensor]:
        return self.from_zero


def _of_one_sign(column: Column) -> bool:
    """Whether no row has coefficients of both signs. It checks each factor, which suffices."""
    return all((f.coefficients > 0).all() or (f.coefficients < 0).all() for f in column.factors)
