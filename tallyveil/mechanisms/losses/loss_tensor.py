"""Losses per cell as small tensors over the attributes that matter.

A tensor's axes are attribute names in alphabetical order, so that all tensors over the same
attributes have the same layout. A cell of the cube has the value of the tensor's entry it projects
to, or at most that where the tensor is not exact.

An axis is as long as there are kinds of coordinates: those that no loss told apart share an entry.
So of days that nobody has asked for yet, however many are ahead, there is one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from tallyveil import deadline
from tallyveil.alike import coded, group_equal
from tallyveil.arrays import IntArray
from tallyveil.cache import cached_property
from tallyveil.mechanisms.units import CEILING

__all__ = ["CELL_LIMIT", "Tensor", "align", "independent", "join_axes", "place"]

# Products with more cells than this are not multiplied out: 32 MB, and 15 ms a pass.
CELL_LIMIT = 4_000_000

_HALF = 31  # bits: sums of halves of entries fit in 64, of up to 2^31 cells
_COMPARED = 1 << 16  # the largest number of entries of a tensor whose coordinates are compared


@dataclass(frozen=True, eq=False)
class Tensor:
    """Units of loss, or steps, over ``axes``; ``outside`` is what a record outside the cube pays.
    ``codes`` are the kinds of the coordinates, of each axis on which some share an entry.

    ``exact``: each cell of the cube pays exactly the entry it projects to.
    ``alike``: no query in it distinguishes cells that project to one entry.
    """

    axes: tuple[str, ...]
    values: IntArray
    outside: int = 0
    exact: bool = True
    alike: bool = True
    codes: Mapping[str, IntArray] = field(default_factory=dict)

    @property
    def sizes(self) -> dict[str, int]:
        """The number of coordinates of each axis."""
        own = zip(self.axes, self.values.shape, strict=True)
        return {name: len(self.codes.get(name, range(kinds))) for name, kinds in own}

    @property
    def whole(self) -> Tensor:
        """The tensor with an entry for each coordinate."""
        values = self.values
        for n, name in enumerate(self.axes):
            if name in self.codes:
                deadline.check()
                values = values.take(self.codes[name], axis=n)
        return replace(self, values=values, codes={})

    @property
    def mean(self) -> float:
        """The mean of the entries of all cells, rounded once."""
        halves = [self.values >> _HALF, self.values & ((1 << _HALF) - 1)]
        for n, name in reversed([*enumerate(self.axes)]):
            own = self.codes.get(name)
            times = np.bincount(np.arange(self.values.shape[n]) if own is None else own)
            halves = [np.tensordot(half, times, (n, 0)) for half in halves]
        high, low = map(int, halves)
        return ((high << _HALF) + low) / math.prod(self.sizes.values())

    @cached_property
    def highest(self) -> int:
        return max(int(self.values.max()), self.outside)

    @cached_property
    def kinds(self) -> tuple[IntArray, ...]:
        """For each axis, the kind of each entry along it, from 0. Those of one kind are the same
        there. In a large tensor of several axes each is its own kind."""
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
        place = dict(zip(self.axes, np.unravel_index(first, self.values.shape), strict=True))
        if any(int((own == place[name]).sum()) > 1 for name, own in self.codes.items()):
            return int(flat[first]) + self.highest
        others = (flat[:first], flat[first + 1 :])
        second = max(self.outside, *(int(part.max(initial=0)) for part in others))
        return int(flat[first]) + second

    def spread(self, kinds: Mapping[str, IntArray]) -> Tensor:
        """Return the tensor over all coordinates, from one over kinds of coordinates."""
        sizes = self.sizes
        codes = {
            name: self.codes[name][kinds[name]] if name in self.codes else kinds[name]
            for name in self.axes
            if name in self.codes or len(kinds[name]) > sizes[name]
        }
        return replace(self, codes=codes)

    def folded(self, kept: Collection[str]) -> Tensor:
        """The maximum over the axes that are not ``kept``, as the entry of units that may have been
        in any cell of these, or outside."""
        others = tuple(n for n, name in enumerate(self.axes) if name not in kept)
        axes = tuple(name for name in self.axes if name in kept)
        values = np.maximum(self.values.max(axis=others), self.outside) if others else self.values
        codes = {name: own for name, own in self.codes.items() if name in axes}
        alike = self.alike and not others
        return replace(self, axes=axes, values=np.asarray(values), alike=alike, codes=codes)

    def plus(self, other: Tensor) -> Tensor:
        """Return the sum, over the union of the axes, cut off at `CEILING`."""
        axes, codes = join_axes(self.axes, other.axes), {**self.codes, **other.codes}
        mine, theirs = self.values, other.values
        for name in set(self.axes) & set(other.axes):
            pair = self.codes.get(name), other.codes.get(name)
            joined, own, new = _joined(*pair, theirs.shape[other.axes.index(name)])
            if own is not None:
                mine = mine.take(own, axis=self.axes.index(name))
            if new is not None:
                theirs = theirs.take(new, axis=other.axes.index(name))
            codes.pop(name, None)
            if joined is not None:
                codes[name] = joined
        total = align(mine, self.axes, axes) + align(theirs, other.axes, axes)
        if self.highest + other.highest > CEILING:
            total = np.minimum(total, CEILING)
        outside = min(CEILING, self.outside + other.outside)
        exact, alike = self.exact and other.exact, self.alike and other.alike
        return Tensor(axes, total, outside, exact, alike, codes)


_Codes: TypeAlias = IntArray | None


def _joined(one: _Codes, other: _Codes, kinds: int) -> tuple[_Codes, _Codes, _Codes]:
    """The kinds of coordinates that neither tells apart, of which the ``other`` has so many, and
    the entry of each kind in both. None has a kind for each coordinate, or an entry for each kind.
    """
    if one is other:
        return one, None, None
    if one is None or other is None:
        return None, one, other
    codes, distinct = coded(one * kinds + other)
    if len(distinct) == len(codes):
        return None, one, other
    return codes, distinct // kinds, distinct % kinds


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
