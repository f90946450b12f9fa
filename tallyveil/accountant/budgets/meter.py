"""What a table has spent: the composition of releases, one meter per neighbouring relation.

Meters are immutable. ``after(loss)`` is the meter after a release is charged: a dry run reads it, a
charge replaces the meter by it. A meter counts in one measure, ε or ρ; both add up.

A charge depends only on the public query, so refusing what would exceed the budget is a valid
filter for adaptively chosen queries: in ε by Rogers, Roth, Ullman & Vadhan 2016, "Privacy Odometers
and Filters: Pay-as-you-Go Composition"; in ρ by Feldman & Zrnic 2021, "Individual Privacy
Accounting via a Rényi Filter", at each order a with the bound ρa, and by Whitehouse, Ramdas, Rogers
& Wu 2023, "Fully-Adaptive Composition in Differential Privacy". What was spent so far is an
odometer in this sense: for each fixed amount B, all that was answered before ``spent`` exceeded B
is B-private.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from tallyveil.mechanisms.adjacency import Adjacency
from tallyveil.mechanisms.losses.cell_classes import join
from tallyveil.mechanisms.losses.cell_loss import CellLoss
from tallyveil.mechanisms.losses.loss_tensor import Tensor, independent, place
from tallyveil.mechanisms.losses.pair_loss import ClassLoss, PairLoss
from tallyveil.mechanisms.losses.privacy_loss import Loss
from tallyveil.mechanisms.measure import Measure
from tallyveil.mechanisms.units import CEILING

__all__ = ["CellMeter", "Meter", "PairMeter", "Tally", "meter_for"]


@dataclass(frozen=True)
class Tally:
    """An immutable sum of tensors, multiplied out as far as their axes overlap and memory allows.

    Groups without a common axis stay separate. That loses nothing: their cells combine freely, so
    the maximum of the sum is the sum of the maxima. Where the union of overlapping axes exceeds
    `CELL_LIMIT`, groups stay separate too, and the sum of the maxima is an upper bound.
    """

    groups: tuple[Tensor, ...] = ()

    def after(self, tensors: Iterable[Tensor]) -> Tally:
        """A new tally with ``tensors`` added."""
        groups = self.groups
        for tensor in tensors:
            sizes = {n: k for t in (*groups, tensor) for n, k in t.sizes.items()}
            chosen = place([g.axes for g in groups], tensor.axes, sizes)
            total = tensor
            for g in chosen:
                total = groups[g].plus(total)
            groups = (*(group for g, group in enumerate(groups) if g not in chosen), total)
        return Tally(groups)

    @property
    def highest(self) -> int:
        """max_j B_j, or the sum of the groups' maxima as an upper bound."""
        return sum(group.highest for group in self.groups)

    @property
    def two_highest(self) -> int:
        """At least B_j + B_k for any two cells j, k that a query distinguishes.

        A tensor costs a pair of cells nothing if none of its queries distinguishes them, and
        otherwise at most its own bound, so bounds of tensors add up.
        """
        return sum(group.two_highest for group in self.groups)

    @property
    def exact(self) -> bool:
        """Whether `highest` is the loss of some cell, and not only a bound."""
        return all(g.exact for g in self.groups) and independent([g.axes for g in self.groups])


@dataclass(frozen=True)
class CellMeter:
    """Under add/remove: the largest loss of a cell."""

    measure: Measure
    tally: Tally = field(default_factory=Tally)
    before: int = 0
    reached: bool = True
    """Whether some unit has lost what all may have lost ``before``."""
    apart: int = 0
    """The sum of the releases' own bounds."""

    @property
    def spent(self) -> int:
        """At least the largest loss of a unit, in 10⁻¹² ε or ρ; equal to it if ``exact``."""
        return self.before + min(self.tally.highest, self.apart)

    @property
    def exact(self) -> bool:
        return self.tally.exact and self.reached

    def folded(self, stable: Collection[str] = ()) -> CellMeter:
        """The meter once units may be in any cells with their values of the ``stable`` attributes:
        what any such unit could have lost, all of them may have lost."""
        folded = [group.folded(stable) for group in self.tally.groups]
        whole = sum(int(group.values) for group in folded if not group.axes)
        kept = Tally(tuple(group for group in folded if group.axes))
        if not kept.groups:
            whole = min(whole, self.apart)
        return CellMeter(self.measure, kept, self.before + whole, self.exact, kept.highest)

    def after(self, loss: Loss) -> CellMeter:
        """The meter after a loss. Raises TypeError for one of the other relation or measure."""
        if not isinstance(loss, CellLoss):
            raise TypeError("a loss per pair of cells on a meter for add/remove")
        _check(self.measure, loss)
        tally = self.tally.after(loss.tensors)
        return replace(self, tally=tally, apart=self.apart + loss.bound)


@dataclass(frozen=True)
class PairMeter:
    """Under replace: the largest loss of a pair of cells.

    Releases that distinguish few classes of cells are composed exactly, pair by pair, in
    ``classes``. Releases that would exceed the limit of classes are composed in the two
    tallies, whose two highest entries bound every pair (proved in `mechanisms.losses.pair_loss`),
    as does the sum of the bounds of each of them ``apart``. A pair's loss is the sum of both parts,
    so the maximum is at most

        max classes + min(two highest from zero, two highest from the midrange, apart).
    """

    measure: Measure
    classes: ClassLoss | None = None
    from_zero: Tally = field(default_factory=Tally)
    from_midrange: Tally = field(default_factory=Tally)
    before: int = 0
    reached: bool = True
    apart: int = 0

    @property
    def spent(self) -> int:
        """As of `CellMeter`."""
        exact = self.classes.highest if self.classes is not None else 0
        together = min(self.from_zero.two_highest, self.from_midrange.two_highest)
        return self.before + exact + min(together, self.apart)

    @property
    def exact(self) -> bool:
        return not self.from_zero.groups and self.reached

    def folded(self, stable: Collection[str] = ()) -> PairMeter:
        """As of `CellMeter`, as if no attribute were stable: for all pairs, also of cells that no
        query distinguishes any more."""
        return PairMeter(self.measure, before=self.spent, reached=self.exact)

    def after(self, loss: Loss) -> PairMeter:
        """As of `CellMeter`."""
        if not isinstance(loss, PairLoss):
            raise TypeError("a loss per cell on a meter for replace")
        _check(self.measure, loss)
        if not loss.columns:
            return self
        classes = _compose(self.classes, loss.by_class)
        if classes is not None:
            return replace(self, classes=classes)
        return replace(
            self,
            from_zero=self.from_zero.after(loss.from_zero),
            from_midrange=self.from_midrange.after(loss.from_midrange),
            apart=self.apart + loss.bound,
        )


Meter: TypeAlias = CellMeter | PairMeter


def meter_for(relation: Adjacency, measure: Measure) -> Meter:
    """An empty meter. Losses already include the factor for ``max_rows``."""
    return CellMeter(measure) if relation.neighbours == "add_remove" else PairMeter(measure)


def _check(measure: Measure, loss: Loss) -> None:
    if loss.measure != measure:
        raise TypeError(f"a loss in {loss.measure} on a meter for {measure}")


def _compose(first: ClassLoss | None, second: ClassLoss | None) -> ClassLoss | None:
    """The sum over the common refinement of the classes; None if that has too many."""
    if first is None or second is None:
        return second
    joined = join([first.classes, second.classes])
    if joined is None:
        return None
    classes, (a, b) = joined
    matrix = first.matrix[np.ix_(a, a)] + second.matrix[np.ix_(b, b)]
    return ClassLoss(classes, np.minimum(matrix, CEILING))
