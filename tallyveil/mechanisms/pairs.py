"""What a release costs each pair of cells: the loss of one record replaced by another.

The pair (j, k) pays Σ_c rate_c Σ_i |C_ij − C_ik|; the cost is the largest pair's (MATH §2). It
is exact while the cells fall into few classes. Otherwise two upper bounds serve, both from the
triangle inequality |C_ij − C_ik| ≤ |C_ij − m_i| + |C_ik − m_i|, which holds for any centre m_i:
the pair's loss is at most B_j + B_k with B_j = Σ_c rate_c Σ_i |C_ij − m_i|, and so at most the
sum of the two largest B of different cells.

- m_i = 0: the two largest add/remove losses. Tight for disjoint groups.
- m_i = midrange of row i: tight for one row, since then B_j ≤ (max − min)/2 for every cell.

Tensors do not spell out all axes. Cells of the cube that project to one entry of a tensor are
alike to every query in it and pay nothing for their pair, so the two largest entries of the
tensor bound all pairs. Where the axes of a product were too many to spell out, cells of one entry
may differ; each still pays at most its entry, so twice the largest entry bounds all pairs. For a
sum of tensors the bounds add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from tallyveil.mechanisms.cells import cell_losses, midrange_losses
from tallyveil.mechanisms.partition import Partition, distances, join, partition
from tallyveil.mechanisms.tensors import CELL_LIMIT, Tensor
from tallyveil.mechanisms.units import IntArray, loss_units
from tallyveil.mechanisms.weights import check_magnitude
from tallyveil.rewriter.workload import Column, Factor

__all__ = ["ClassLoss", "PairLoss"]


@dataclass(frozen=True, eq=False)
class ClassLoss:
    """``matrix[a, b]`` units for a pair of cells of classes a and b; exact."""

    classes: Partition
    matrix: IntArray

    @cached_property
    def highest(self) -> int:
        return int(self.matrix.max())


@dataclass(frozen=True, eq=False)
class PairLoss:
    """The loss of a release under replace-one; each form is computed when it is asked for."""

    columns: tuple[Column, ...]
    rates: tuple[Fraction, ...]
    closed: bool

    def __post_init__(self) -> None:
        for column in self.columns:
            check_magnitude(column)

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
    def exact(self) -> bool:
        return not self.columns or self.by_class is not None

    @cached_property
    def by_class(self) -> ClassLoss | None:
        """All pairs of classes, or None where there are too many to look at."""
        factors: list[Factor] = []
        parts: list[Partition] = []
        for column in self.columns:
            factor = column.multiplied_out(CELL_LIMIT)
            part = None if factor is None else partition(factor, self.closed)
            if factor is None or part is None:
                return None
            factors.append(factor)
            parts.append(part)
        joined = join(parts)
        if joined is None:
            return None
        classes, members = joined
        moves: list[IntArray] = []
        for factor, part, member in zip(factors, parts, members, strict=True):
            apart = distances(factor, part)
            if apart is None:
                return None
            moves.append(apart[np.ix_(member, member)])
        return ClassLoss(classes, loss_units(moves, self.rates))

    @cached_property
    def from_zero(self) -> Sequence[Tensor]:
        return cell_losses(self.columns, self.rates, merge=False)

    @cached_property
    def from_midrange(self) -> Sequence[Tensor]:
        return midrange_losses(self.columns, self.rates, self.closed)
