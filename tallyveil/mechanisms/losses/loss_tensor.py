"""Losses per cell as small tensors over the attributes that matter.

A tensor's axes are attribute names in alphabetical order, so that all tensors over the same
attributes have the same layout. A cell of the cube has the value of the tensor's entry it projects
to, or at most that where the tensor is not exact.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tallyveil import deadline
from tallyveil.alike import coded, group_equal
from tallyveil.arrays import IntArray
from tallyveil.cache import cached_property
from tallyveil.mechanisms.units import CEILING

__all__ = ["CELL_LIMIT", "Tensor", "align", "independent", "join_axes", "place"]

# Products with more cells than this are not multiplied out: 32 MB, and 15 ms a pass.
CELL_LIMIT = 4_000_000

_COMPARED = 1 << 16  # the largest number of entries of a tensor whose coordinates are compared


@dataclass(frozen=True, eq=False)
class Tensor:
    """Units of loss, or steps, over ``axes``; ``outside`` is what a record outside the cube pays.

    ``exact``: each cell of the cube pays exactly the entry it projects to.
    ``alike``: no query in it distinguishes cells that project to one entry.
    """

    axes: tuple[str, ...]
    values: IntArray
    outside: int = 0
    exact: bool = True
    alike: bool = True

    @property
    def sizes(self) -> dict[str, int]:
        return dict(zip(self.axes, self.values.shape, strict=True))

    @cached_property
    def highest(self) -> int:
        return max(int(self.values.max()), self.outside)

    @cached_property
    def kinds(self) -> tuple[IntArray, ...]:
        """For each axis, the kind of each coordinate, from 0. Coordinates of one kind have the same
        entries. In a large tensor of several axes each coordinate is its own kind."""
        if len(self.axes) == 1:
            return (coded(self.values)[0],)
        if self.values.size > _COMPARED:
            return tuple(np.arange(size) for size in self.values.shape)
        found = []
        for n, size in enumerate(self.values.shape):
            deadline.check()
            entries = np.moveaxis(self.values, n, 0).ravel()
            starts = np.arange(size + 1) * (len(entries) // size)
            found.append(coded(group_equal([], (starts, [entries])))[0])
        return tuple(found)

    @cached_property
    def merged(self) -> Tensor:
        """The tensor without the axes along which its values are constant."""
        axes, values = self.axes, self.values
        for n in reversed(range(len(axes))):
            first = values.take([0], axis=n)
            if (values == first).all():
                axes, values = axes[:n] + axes[n + 1 :], first.squeeze(n)
        return self if axes == self.axes else replace(self, axes=axes, values=values)

    @cached_property
    def two_highest(self) -> int:
        """At least the sum of the values of any two cells that a query in it distinguishes.

        It is the sum of the two largest entries, including ``outside``; if cells of one entry may
        differ, twice the largest.
        """
        if not self.alike:
            return 2 * self.highest
        flat = self.values.ravel()
        first = int(flat.argmax())
        others = (flat[:first], flat[first + 1 :])
        second = max(self.outside, *(int(part.max(initial=0)) for part in others))
        return int(flat[first]) + second

    def spread(self, kinds: Mapping[str, IntArray]) -> Tensor:
        """Return the tensor over all coordinates, from one over kinds of coordinates."""
        values = self.values
        for n, name in enumerate(self.axes):
            if len(kinds[name]) > values.shape[n]:
                deadline.check()
                values = values.take(kinds[name], axis=n)
        return self if values is self.values else replace(self, values=values)

    def folded(self, kept: Collection[str]) -> Tensor:
        """The maximum over the axes that are not ``kept``, as the entry of units that may have been
        in any cell of these, or outside."""
        others = tuple(n for n, name in enumerate(self.axes) if name not in kept)
        axes = tuple(name for name in self.axes if name in kept)
        values = np.maximum(self.values.max(axis=others), self.outside) if others else self.values
        return replace(self, axes=axes, values=np.asarray(values), alike=self.alike and not others)

    def plus(self, other: Tensor) -> Tensor:
        """Return the sum, over the union of the axes, cut off at `CEILING`."""
        axes = join_axes(self.axes, other.axes)
        total = align(self.values, self.axes, axes) + align(other.values, other.axes, axes)
        if self.highest + other.highest > CEILING:
            total = np.minimum(total, CEILING)
        outside = min(CEILING, self.outside + other.outside)
        exact, alike = self.exact and other.exact, self.alike and other.alike
        return Tensor(axes, total, outside, exact, alike)


def join_axes(*axes: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set().union(*axes)))


def align(values: IntArray, axes: Sequence[str], target: Sequence[str]) -> IntArray:
    """Return a view with one dimension per name in ``target`` (ascending), of size 1 where
    ``axes`` lack it."""
    names = list(axes)
    ascending = np.transpose(values, sorted(range(len(names)), key=names.__getitem__))
    size = dict(zip(sorted(names), ascending.shape, strict=True))
    return ascending.reshape([size.get(name, 1) for name in target])


def place(
    groups: Sequence[Sequence[str]], axes: Sequence[str], sizes: Mapping[str, int]
) -> list[int]:
    """Return which groups to multiply out with a tensor over ``axes``, within `CELL_LIMIT`.

    These are all groups that share an axis, if the product is small enough. Otherwise each group is
    tried, the one with most axes in common first, and added if the product stays small enough.
    """

    def fits(chosen: Iterable[int]) -> bool:
        union = set(axes).union(*(groups[g] for g in chosen))
        return math.prod(sizes[name] for name in union) <= CELL_LIMIT

    def common(g: int) -> int:
        return len(set(groups[g]) & set(axes))

    touching = [g for g in range(len(groups)) if common(g) or not (axes or groups[g])]
    if fits(touching):
        return touching
    chosen: list[int] = []
    for g in sorted(touching, key=common, reverse=True):
        if set(groups[g]) >= set(axes) or fits([*chosen, g]):
            chosen.append(g)
            if set(groups[g]) >= set(axes):
                return [g]
    return chosen


def independent(groups: Sequence[Sequence[str]]) -> bool:
    """Whether no two groups share an axis: then the sum of their maxima is the maximum."""
    return len(join_axes(*groups)) == sum(len(group) for group in groups)
