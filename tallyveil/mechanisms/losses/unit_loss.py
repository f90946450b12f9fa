"""What it costs to count units, each once in every group in which it has a record.

The number of group i is #{u : Σ_l C_i,j(u,l) > 0} over the cells j(u,l) of the records of unit u.
One unit, added or removed, moves it by at most 1, and by none where it has no record in the group;
one that is replaced moves it by at most 1, and by none where all its cells stay, or stay in the
group. A move by 1 costs c, which is 1/s in ε and 1/2s² in ρ. Let the unit have r records in the
cells j_l, or under replace before in j_l and then in k_l (one that is missing has a cell of its
own, outside). Then it loses c times the number of groups that it moves, in ε and in ρ, which is

    at most  g                              if g groups are asked,
    at most  Σ_l Σ_i C_i,j_l                under add/remove,
    at most  Σ_l Σ_i |C_i,j_l − C_i,k_l|    under replace,

for C of zeros and ones: what moves group i moves some record into it or out of it.

A `Meter` adds up L(j), or L(j, k), over releases, and compares the largest sum with the budget.
That bounds what a unit loses if each release loses at most (1/r) Σ_l L(j_l) of it, or of
L(j_l, k_l): the average over its records is no more than the largest. Ordinary counts do so
(`Adjacency`), and either of these does:

    L(j) = r c Σ_i C_ij,    L(j, k) = r c Σ_i (C_ij + C_ik), and 0 for j = k
    L(j) = L(j, k) = g c    for all cells, also outside and for j = k.

The one with the lower maximum is charged: c for one group, and of g disjoint groups c min(r, g)
under add/remove and c min(2r, g) under replace. c for one group alone, and only in the cells of its
WHERE, would not do: a unit with one record there loses c, and its records c/r on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from tallyveil.mechanisms.adjacency import Adjacency
from tallyveil.mechanisms.losses.cell_loss import CellLoss, cell_losses
from tallyveil.mechanisms.losses.loss_tensor import Tensor
from tallyveil.mechanisms.losses.pair_loss import PairLoss
from tallyveil.mechanisms.losses.privacy_loss import Loss
from tallyveil.mechanisms.measure import Measure
from tallyveil.mechanisms.units import loss_units
from tallyveil.workload.workload import Column

__all__ = ["unit_loss"]


def unit_loss(groups: Column, cost: Fraction, relation: Adjacency, measure: Measure) -> Loss:
    """The loss by the numbers of units in ``groups``, rows of zeros and ones, where a move by 1
    costs ``cost``. It is exact only if the group is the whole table."""
    single = relation.neighbours == "add_remove"
    each = [
        replace(one, exact=False)
        for one in cell_losses([groups], [cost * relation.max_rows], measure, merge=single)
    ]
    whole = loss_units([np.array(groups.height, dtype=np.int64)], [cost])
    # Of two cells one entry pays for both, which holds for a pair within one cell as well.
    outside = int(whole) if single else 0
    every = Tensor((), whole, outside, exact=single and groups.height == 1 and not groups.axes)
    if single:
        flat = int(whole) < sum(one.highest for one in each)
        return CellLoss((every,) if flat else tuple(each), measure)
    flat = int(whole) < sum(one.two_highest for one in each)
    return _UnitPairs((groups,), (cost,), relation.closed, measure, [every] if flat else each)


@dataclass(frozen=True, eq=False)
class _UnitPairs(PairLoss):
    """Bounded by two cells' ``tensors`` only: no class of cells pays exactly what it says."""

    tensors: Sequence[Tensor]

    @property
    def by_class(self) -> None:
        return None

    @property
    def from_zero(self) -> Sequence[Tensor]:
        return self.tensors

    @property
    def from_midrange(self) -> Sequence[Tensor]:
        return self.tensors
