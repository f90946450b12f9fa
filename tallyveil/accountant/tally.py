"""Losses of cells, summed up over a history of releases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tallyveil.mechanisms.losses.tensors import Tensor, independent, place

__all__ = ["Tally"]


@dataclass(frozen=True)
class Tally:
    """An immutable sum of tensors, multiplied out as far as their axes overlap and memory allows.

    Groups without a common axis stay apart and lose nothing by it: their cells combine freely, so
    the maximum of the sum is the sum of the maxima. Where the union of overlapping axes exceeds
    `CELL_LIMIT` groups stay apart too, and the sum of the maxima is an upper bound.
    """

    groups: tuple[Tensor, ...] = ()

    def after(self, tensors: Iterable[Tensor]) -> Tally:
        """The tally with ``tensors`` added; this one stays as it is."""
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
        """At least B_j + B_k for any two cells j, k that a query tells apart.

        Two cells that no query of a tensor tells apart pay nothing for their pair through it, and
        any others at most its own bound, so bounds of tensors add up.
        """
        return sum(group.two_highest for group in self.groups)

    @property
    def exact(self) -> bool:
        """Whether `highest` is the largest cell's loss rather than a bound on it."""
        return all(g.exact for g in self.groups) and independent([g.axes for g in self.groups])
