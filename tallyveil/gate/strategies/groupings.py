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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from tallyveil.arrays import IntArray
from tallyveil.gate.strategies.other_rows import Asked, OtherRows
from tallyveil.inference.designs.lattice import Design, Lattice, Sizes
from tallyveil.mechanisms import Measure
from tallyveil.workload.workload import Column, Factor

__all__ = ["groupings"]

_LEVELS: Final = {"epsilon": 256, "rho": 1024}
_CELLS: Final = 100_000  # of a union of groupings
_BLOCKS: Final = 2_048  # of one axis
_ROWS: Final = 3_000
_SHORT, _LONG = 16, 256  # lengths of contrasts to choose from
_BALANCED: Final = 1e-3  # lengths² that differ by less are one


def groupings(asked: Asked) -> OtherRows | None:
    """None if the rows are no lattice, or nothing gains."""
    columns = asked.columns
    if len(columns) < 2 or sum(column.height for column in columns) > _ROWS:
        return None
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
    found = (_contrasts if contrasts else _union)(axes, design)
    total = float(lattice.times @ np.array(design.variances))
    return OtherRows(*found, lattice.bound(asked.measure) / total)


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

    def contrasts(self, size: int) -> tuple[Factor | None, float]:
        """The contrasts between blocks of this size within those of the next larger, and the square
        of their length in finest blocks; of the largest size its one block."""
        if size == self.chain[-1]:
            return self.factor(size), float(size)
        after = self.chain[self.chain.index(size) + 1]
        rows, square = _haar(after // size)
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
        return Factor(self.names, self.shape, len(spread), *entries), square * size


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


_Bought = tuple[tuple[Column, ...], tuple[float, ...]]


def _union(axes: Sequence[_Axis], design: Design) -> _Bought:
    """A column for each grouping, of variance 1/w."""
    columns = []
    for sizes in design.precisions:
        factors = (axis.factor(size) for axis, size in zip(axes, sizes, strict=True))
        columns.append(Column(tuple(one for one in factors if one is not None)))
    return tuple(columns), tuple(1 / math.sqrt(w) for w in design.precisions.values())


def _contrasts(axes: Sequence[_Axis], design: Design) -> _Bought:
    """A column for each level, of variance ‖r‖²/λ."""
    columns, like = [], []
    for sizes, precision in design.precisions.items():
        each = [axis.contrasts(size) for axis, size in zip(axes, sizes, strict=True)]
        columns.append(Column(tuple(factor for factor, _ in each if factor is not None)))
        like.append(math.sqrt(math.prod(square for _, square in each) / precision))
    return tuple(columns), tuple(like)


@lru_cache(maxsize=256)
def _haar(number: int) -> tuple[IntArray, float]:
    """Orthogonal contrasts of so many values that are nearly equally long, and their length²:
    first half against second half, and so on in each half."""
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
    squares = np.array([float(row @ row) for row in rows])

    def times(length: int) -> IntArray:
        found: IntArray = np.maximum(1, np.rint(length / np.sqrt(squares))).astype(np.int64)
        return found

    def error(length: int) -> float:
        return float(np.abs(times(length) ** 2 * squares / length**2 - 1).max())

    lengths = [length for length in range(_SHORT, _LONG) if error(length) < _BALANCED]
    length = lengths[0] if lengths else min(range(_SHORT, _LONG), key=lambda one: (error(one), one))
    return times(length)[:, None] * np.array(rows), float(length**2)
