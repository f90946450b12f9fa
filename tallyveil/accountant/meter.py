"""What a table has spent: the composition of releases, one meter per neighbouring relation.

Meters are immutable. ``after(loss)`` is the meter once a release has been charged: dry-running is
looking at it, charging is keeping it. A charge depends on the query alone, never on an answer, so
refusing what would exceed the budget is a valid filter for adaptive queries (MATH §2).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tallyveil.accountant.tally import Tally
from tallyveil.mechanisms.cells import CellLoss
from tallyveil.mechanisms.loss import Loss
from tallyveil.mechanisms.pairs import ClassLoss, PairLoss
from tallyveil.mechanisms.partition import join
from tallyveil.mechanisms.relation import Relation
from tallyveil.mechanisms.units import CEILING

__all__ = ["CellMeter", "Meter", "PairMeter", "meter_for"]


class Meter(Protocol):
    @property
    def spent(self) -> int:
        """Units of 10⁻¹² ε: at least what the unit worst off has lost, equal if ``exact``."""
        ...

    @property
    def exact(self) -> bool: ...

    def after(self, loss: Loss) -> Meter:
        """Raises TypeError for a loss under the other relation."""
        ...


@dataclass(frozen=True)
class CellMeter:
    """Under add/remove: the loss of the cell worst off."""

    tally: Tally = field(default_factory=Tally)

    @property
    def spent(self) -> int:
        return self.tally.highest

    @property
    def exact(self) -> bool:
        return self.tally.exact

    def after(self, loss: Loss) -> CellMeter:
        if not isinstance(loss, CellLoss):
            raise TypeError("a loss per pair of cells on a meter for add/remove")
        return CellMeter(self.tally.after(loss.tensors))


@dataclass(frozen=True)
class PairMeter:
    """Under replace: the loss of the pair of cells worst off.

    Releases that tell few classes of cells apart are composed exactly, pair by pair, in
    ``classes``. Those that would take the classes beyond their limit are composed in the two
    tallies, whose two highest entries bound every pair (proved in `mechanisms.pairs`). A pair's
    loss is the sum of both parts, so the maximum is at most

        max classes + min(two highest from zero, two highest from the midrange).
    """

    classes: ClassLoss | None = None
    from_zero: Tally = field(default_factory=Tally)
    from_midrange: Tally = field(default_factory=Tally)

    @property
    def spent(self) -> int:
        exact = self.classes.highest if self.classes is not None else 0
        return exact + min(self.from_zero.two_highest, self.from_midrange.two_highest)

    @property
    def exact(self) -> bool:
        return not self.from_zero.groups

    def after(self, loss: Loss) -> PairMeter:
        if not isinstance(loss, PairLoss):
            raise TypeError("a loss per cell on a meter for replace")
        if not loss.columns:
            return self
        classes = _compose(self.classes, loss.by_class)
        if classes is not None:
            return PairMeter(classes, self.from_zero, self.from_midrange)
        return PairMeter(
            self.classes,
            self.from_zero.after(loss.from_zero),
            self.from_midrange.after(loss.from_midrange),
        )


def meter_for(relation: Relation) -> Meter:
    """An empty meter. Losses carry the factor ``max_rows`` already."""
    return CellMeter() if relation.neighbours == "add_remove" else PairMeter()


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
