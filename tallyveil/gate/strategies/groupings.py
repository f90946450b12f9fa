"""Buys other groupings, or contrasts between groups, for several groupings asked together.

Those are the groups of a CUBE or a ROLLUP, and sets of marginals. The groupings are a lattice if on
each set of attributes that they share their groups are blocks of equal sizes, each of which divides
the next larger (`inference/designs/lattice`). With Laplace noise a union of plain groupings is
bought, with Gaussian noise a column of orthogonal contrasts for each level of the lattice: the rows
r of level ℓ are Kronecker products of integer contrasts between the blocks of each axis, multiplied
so that all have nearly one length, and P_ℓ = Σ rᵀr/‖r‖². With σ² = ‖r‖²/λ_ℓ and independent noise
the precision is Σ λ_ℓ P_ℓ, and each row q asked follows with the weights q·r/‖r‖².
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from tallyveil.arrays import FloatArray, IntArray
from tallyveil.gate.strategies.other_rows import Asked, OtherRows
from tallyveil.inference.designs.lattice import Design, Lattice, Sizes
from tallyveil.mechanisms import Measure
from tallyveil.workload.workload import Column, Factor

__all__ = ["groupings"]

_LEVELS: Final = {"epsilon": 256, "rho": 1024}
_CELLS: Final = 100_000  # of a union of groupings
_BLOCKS: Final = 2_048  # of one axis
_ROWS: Final = 3_000
_SHORT, _LONG = 16, 1024  # lengths of contrasts to choose from,
_POWER: Final = 2.0**59  # the largest sum of squares of what is bought
_BALANCED: Final = 1 + 5e-5  # times the least error is near enough to it


def groupings(asked: Asked) -> OtherRows | None:
    """None if the rows are no lattice, or nothing gains."""
    columns = asked.columns
    heights = [column.height for column in columns]
    if heights.count(1) > 1 or not 1 < sum(heights) <= _ROWS or len(columns) < 2:
        return None  # no groupings, or the same one twice
    axes = _axes(columns)
    if not axes:  # no lattice, or one without a choice
        return None
    sizes = [*zip(*(axis.sizes for axis in axes), strict=True)]
    chains = tuple(axis.chain for axis in axes)
    levels = math.prod(map(len, chains))
    if len({*sizes}) < len(sizes) or levels > _LEVELS[asked.measure]:
        return None
    wide = asked.measure == "epsilon" and math.prod(chain[-1] for chain in chains) > _CELLS
    if wide or max(map(max, chains)) > _BLOCKS:
        return None
    weights = tuple(float(asked.weights(column).mean()) for column in columns)
    lattice = Lattice(chains, tuple(sizes), weights)
    contrasts, targets = asked.measure == "rho", None
    if asked.objective == "auto":
        most = len(sizes) / 2 if contrasts else 2.0 * len(sizes) ** 2
        targets = (most / asked.margin,) * len(sizes)
    design = _design(chains, lattice.asked, weights, asked.measure, asked.objective, targets)
    direct = lattice.directly(asked.measure, asked.bought)
    if not asked.gains(design.variances, direct, lattice.times):
        return None
    bound = lattice.bound(asked.measure) / float(lattice.times @ np.array(design.variances))
    if contrasts:
        return _contrasts(axes, design, columns, sizes)._replace(bound=bound)
    return _union(axes, design, lattice)._replace(bound=bound)


@lru_cache(256)
def _design(
    chains: tuple[Sizes, ...], asked: tuple[Sizes, ...], weights: tuple[float, ...],
    measure: Measure, objective: str, targets: tuple[float, ...] | None,
) -> Design:  # fmt: skip
    lattice = Lattice(chains, asked, weights)
    if measure == "rho":
        return lattice.contrasts(objective, targets)
    return lattice.union(measure, objective, targets)


@dataclass(frozen=True, eq=False)
class _Axis:
    """Attributes that are grouped together. ``chain`` has the sizes of blocks, in finest blocks,
    ``sizes`` that of each column asked, and ``labels`` the block of each cell by size, −1 for cells
    that no row touches. ``names`` and ``shape`` are empty for attributes nobody mentions."""

    names: tuple[str, ...]
    shape: tuple[int, ...]
    labels: dict[int, IntArray]
    sizes: tuple[int, ...]

    @property
    def chain(self) -> Sizes:
        return tuple(sorted(self.labels))

    def factor(self, size: int) -> Factor | None:
        """A row for each block of the size; None for the one that has all cells."""
        labels = self.labels[size]
        if size == self.chain[-1] and (labels == 0).all():
            return None
        cells = np.flatnonzero(labels >= 0)
        cells = cells[np.argsort(labels[cells], kind="stable")]
        rows, ones = labels[cells], np.ones(len(cells), dtype=np.int64)
        return Factor(self.names, self.shape, int(rows[-1]) + 1, rows, cells, ones)

    def contrasts(self, size: int, longest: int) -> _Contrasts:
        """The contrasts between blocks of this size within those of the next larger; of the largest
        size its one block."""
        if size == self.chain[-1]:
            return _Contrasts(self.factor(size), float(size), np.array([size**-2.0]))
        after = self.chain[self.chain.index(size) + 1]
        rows, own_shares = _haar(after // size, longest)
        labels, cells = self.labels[size], np.flatnonzero(self.labels[size] >= 0)
        _, first = np.unique(labels[cells], return_index=True)
        parents = self.labels[after][cells[first]]
        blocks = np.argsort(parents, kind="stable").reshape(-1, after // size)
        whole = np.zeros((len(blocks) * len(rows), blocks.size), dtype=np.int64)
        for parent, own in enumerate(blocks):
            whole[parent * len(rows) : (parent + 1) * len(rows), own] = rows
        spread = whole[:, labels[cells]]
        at, place = np.nonzero(spread)
        entries = at.astype(np.int64), cells[place].astype(np.int64), spread[at, place]
        shares = np.empty(blocks.size)
        shares[blocks] = own_shares / size**2
        square = size * (1 - size / after) / float(own_shares.max())
        return _Contrasts(Factor(self.names, self.shape, len(spread), *entries), square, shares)


class _Contrasts(NamedTuple):
    """The rows r of one axis and level; None for one that has all cells. ``square`` is about ‖r‖²
    in finest blocks, and ``shares`` are Σ r_j²/‖r‖⁴ of any cell j of each block."""

    factor: Factor | None
    square: float
    shares: FloatArray


def _axes(columns: Sequence[Column]) -> list[_Axis] | None:
    """The axes of the lattice; None if the columns are none."""
    if any(column.selected is not None or column.multiplier != 1 for column in columns):
        return None
    shapes: dict[tuple[str, ...], tuple[int, ...]] = {}
    for column in columns:
        for factor in column.factors:
            if not factor.disjoint or (factor.coefficients != 1).any():
                return None
            if len(factor.starts) < factor.height:
                return None  # a row without cells
            shapes[factor.axes] = factor.shape
    if len({*itertools.chain(*shapes)}) < sum(map(len, shapes)):
        return None  # an attribute is grouped with different others
    axes = []
    for names, shape in shapes.items():
        each = [_labels(column, names, shape) for column in columns]
        axis = _axis(names, shape, each)
        if axis is None:
            return None
        axes.append(axis)
    return axes


def _labels(column: Column, names: tuple[str, ...], shape: tuple[int, ...]) -> IntArray:
    """The block of each cell, numbered by the blocks' first cells."""
    for factor in column.factors:
        if factor.axes == names:
            found = np.full(factor.size, -1, dtype=np.int64)
            found[factor.cells] = factor.rows
            _, first, places = np.unique(found, return_index=True, return_inverse=True)
            rank = np.argsort(np.argsort(np.where(found[first] < 0, -1, first)))
            return rank[places.ravel()].astype(np.int64) - int((found < 0).any())
    return np.zeros(math.prod(shape), dtype=np.int64)


def _axis(names: tuple[str, ...], shape: tuple[int, ...], each: Sequence[IntArray]) -> _Axis | None:
    every = {own.tobytes(): own for own in each}
    blocks = {int(own.max()) + 1: own for own in every.values()}
    finest = max(blocks)
    touched = blocks[finest] >= 0
    if len(blocks) < len(every) or any(((own >= 0) != touched).any() for own in each):
        return None  # two partitions of as many blocks, or of other cells
    blocks.setdefault(1, np.where(touched, 0, -1))
    counts = sorted(blocks, reverse=True)
    _, first = np.unique(blocks[finest], return_index=True)
    cells = first[-finest:]
    for fine, coarse in itertools.pairwise(counts):
        pairs = np.unique(blocks[fine][touched] * finest + blocks[coarse][touched])
        sizes = np.bincount(blocks[coarse][cells])
        if len(pairs) > fine or (sizes != finest // coarse).any() or finest % coarse:
            return None  # not nested, or of different sizes
        if fine % coarse:
            return None
    labels = {finest // number: own for number, own in blocks.items()}
    return _Axis(names, shape, labels, tuple(finest // (int(own.max()) + 1) for own in each))


def _union(axes: Sequence[_Axis], design: Design, lattice: Lattice) -> OtherRows:
    """A column for each grouping, of variance 1/w."""
    made, columns = [{size: axis.factor(size) for size in axis.chain} for axis in axes], []
    for sizes in design.precisions:
        factors = (own[size] for own, size in zip(made, sizes, strict=True))
        columns.append(Column(tuple(one for one in factors if one is not None)))

    def errors(variances: Sequence[float]) -> list[FloatArray]:
        each = dict(zip(design.precisions, variances, strict=True))
        own = lattice.by_union([1 / each[size] if size in each else 0.0 for size in lattice.levels])
        return [np.full(int(n), one) for n, one in zip(lattice.heights, own, strict=True)]

    like = tuple(1 / math.sqrt(w) for w in design.precisions.values())
    return OtherRows(tuple(columns), like, errors=errors)


def _contrasts(
    axes: Sequence[_Axis], design: Design, asked: Sequence[Column], groups: Sequence[Sizes]
) -> OtherRows:
    """A column for each level, of variance ‖r‖²/λ."""
    blocks = [{size: axis.chain[-1] // size for size in axis.chain} for axis in axes]
    bought = [[*map(operator.getitem, blocks, sizes)] for sizes in design.precisions]
    # Σ max r_j² over the rows of a level, ∏ n ℓ²/2 at most for n blocks, is to be accounted for.
    powers = [(math.prod(own), max(1, sum(n > 1 for n in own))) for own in bought]
    longest = min(_LONG, *(int((_POWER / n) ** (0.5 / k) * math.sqrt(2)) for n, k in powers))
    made = [{size: axis.contrasts(size, longest) for size in axis.chain} for axis in axes]
    columns, like = [], []
    for sizes, precision in design.precisions.items():
        each = [own[size] for own, size in zip(made, sizes, strict=True)]
        columns.append(Column(tuple(one.factor for one in each if one.factor is not None)))
        like.append(math.sqrt(math.prod(one.square for one in each) / precision))
    place = {axis.names: n for n, axis in enumerate(axes)}

    def share(column: Column, group: Sizes, level: Sizes) -> FloatArray:
        """Σ (q·r)²/‖r‖⁴ of the rows q of a column, over the rows r of a level."""
        found = np.ones(1)
        for factor in column.factors:
            n = place[factor.axes]
            blocks = axes[n].labels[level[n]][factor.cells[factor.starts]]
            rows: FloatArray = group[n] ** 2 * made[n][level[n]].shares[blocks]
            found = (found[:, None] * rows).ravel()
        return found

    def errors(variances: Sequence[float]) -> list[FloatArray]:
        found = [np.zeros(column.height) for column in asked]
        for level, variance in zip(design.precisions, variances, strict=True):
            for own, column, group in zip(found, asked, groups, strict=True):
                if all(map(operator.le, group, level)):  # others are orthogonal to the level
                    own += variance * share(column, group, level)
        return found

    return OtherRows(tuple(columns), tuple(like), errors=errors, orthogonal=True)


@lru_cache(maxsize=256)
def _haar(number: int, longest: int) -> tuple[IntArray, FloatArray]:
    """Orthogonal contrasts r of so many values j that are nearly equally long, and Σ r_j²/‖r‖⁴:
    first half against second half, and so on in each half. Their length is ``longest`` at most, or
    that of the longest of them without a multiplier."""
    rows = list[IntArray]()

    def split(low: int, high: int) -> None:
        if high - low < 2:
            return
        middle = (low + high + 1) // 2
        row, common = np.zeros(number, dtype=np.int64), math.gcd(middle - low, high - middle)
        row[low:middle], row[middle:high] = (high - middle) // common, -(middle - low) // common
        rows.append(row)
        split(low, middle)
        split(middle, high)

    split(0, number)
    every = np.array(rows)
    squares = (every**2).sum(axis=1).astype(np.float64)
    kinds, kind = np.unique(squares, return_inverse=True)
    loads = np.zeros((len(kinds), number))
    np.add.at(loads, kind, every**2)
    loads, place = np.unique(loads, axis=1, return_inverse=True)
    least = math.ceil(math.sqrt(kinds[-1]))
    lengths = np.arange(max(_SHORT, least), max(_SHORT, longest, least) + 1)
    times = np.maximum(1, np.rint(lengths[:, None] / np.sqrt(kinds)))
    # The highest cost of a value and its largest variance, less than which no lengths make both.
    each = [(times[:, [n]] ** 2, own, kinds[n] ** 2) for n, own in enumerate(loads)]
    # Added up one by one, so that all processors choose alike.
    cost = np.add.reduce([t * own for t, own, _ in each]).max(axis=1) / (1 - 1 / number)
    shares = np.add.reduce([own / square / t for t, own, square in each])
    variance = shares.max(axis=1) / (1 - 1 / number)
    near = np.flatnonzero(cost * variance < _BALANCED)
    best = int(near[0] if len(near) else np.argmin(cost * variance))
    return times[best, kind].astype(np.int64)[:, None] * every, shares[best][place.ravel()]
