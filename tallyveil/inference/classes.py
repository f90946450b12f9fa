"""Cells that every row treats alike are one class: estimates need not tell them apart.

BLUE depends on x only through the sums over cells with equal columns of coefficients, so the size
of the work follows the number of distinct columns. Rows come as Kronecker products of small
integer tensors over groups of attributes. First the values of each attribute that no row tells
apart are merged, and then, on the product of what is left, the cells.

Where that product is too large, some rows are left out, those first that bring in most attributes
beside the query's. An estimate from a part of the history is unbiased too, and its variance is
what it says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

__all__ = ["Classes", "KroneckerRow", "classes_of"]

_IntArray = npt.NDArray[np.int64]

_CELLS: Final = 100_000
_ENTRIES: Final = 20_000_000


@dataclass(frozen=True, eq=False)
class KroneckerRow:
    """``scalar`` times the product of tensors over disjoint groups of attributes, and of ones
    over all others: ``factors`` has pairs (names of the axes, tensor of that many dimensions).
    """

    factors: Sequence[tuple[tuple[str, ...], _IntArray]]
    scalar: int = 1

    @property
    def axes(self) -> frozenset[str]:
        return frozenset(axis for axes, _ in self.factors for axis in axes)


@dataclass(frozen=True, eq=False)
class Classes:
    """Rows over classes of cells: ``matrix`` has those of the history that are ``used`` (their
    numbers, ascending), ``query`` the query's."""

    matrix: sparse.csr_matrix
    query: _IntArray
    used: _IntArray = field(repr=False)


def classes_of(
    history: Sequence[KroneckerRow], query: KroneckerRow, cells: int = _CELLS
) -> Classes:
    """The history's rows and the query over classes of at most ``cells`` products of values."""
    labels = _labels([*history, query])
    sizes = {axis: int(label.max()) + 1 for axis, label in labels.items()}
    axes, used = _chosen(history, query, sizes, cells)
    order = sorted(axes)
    rows = [_spread(history[n], order, labels, sizes) for n in used] + [
        _spread(query, order, labels, sizes)
    ]
    stacked = sparse.csr_matrix(np.array(rows))
    columns = stacked.tocsc()
    first = _first_of_each(columns)
    merged = columns[:, first].tocsr()
    last = merged[-1].toarray()[0]
    return Classes(merged[:-1], last.astype(np.int64), np.array(used, dtype=np.int64))


def _labels(rows: Sequence[KroneckerRow]) -> dict[str, _IntArray]:
    """For each axis, a number for each of its values, equal where no factor tells them apart."""
    slices: dict[str, list[_IntArray]] = {}
    for row in rows:
        for axes, tensor in row.factors:
            for place, axis in enumerate(axes):
                flat = np.moveaxis(tensor, place, 0).reshape(tensor.shape[place], -1)
                slices.setdefault(axis, []).append(flat)
    return {
        axis: np.unique(np.hstack(parts), axis=0, return_inverse=True)[1].ravel()
        for axis, parts in slices.items()
    }


def _chosen(
    history: Sequence[KroneckerRow], query: KroneckerRow, sizes: dict[str, int], cells: int
) -> tuple[frozenset[str], list[int]]:
    """The axes to write out, and the rows that mention no others."""
    axes = query.axes
    for number in sorted(range(len(history)), key=lambda n: len(history[n].axes - query.axes)):
        wider = axes | history[number].axes
        size = math.prod(sizes[axis] for axis in wider)
        if size <= cells and size * len(history) <= _ENTRIES:
            axes = wider
    return axes, [n for n, row in enumerate(history) if row.axes <= axes]


def _spread(
    row: KroneckerRow, order: list[str], labels: dict[str, _IntArray], sizes: dict[str, int]
) -> _IntArray:
    """The row over the product of the merged axes, in C order."""
    total = np.full((1,) * len(order), row.scalar, dtype=np.int64)
    for axes, tensor in row.factors:
        small = tensor
        for place, axis in enumerate(axes):
            _, firsts = np.unique(labels[axis], return_index=True)
            small = np.take(small, firsts, axis=place)
        ranked = sorted(range(len(axes)), key=lambda place: order.index(axes[place]))
        shape = [sizes[axis] if axis in axes else 1 for axis in order]
        total = total * np.transpose(small, ranked).reshape(shape)
    return np.broadcast_to(total, [sizes[axis] for axis in order]).ravel()


def _first_of_each(columns: sparse.csc_matrix) -> _IntArray:
    """The first column of each set of equal columns, without those that are all zero.

    At least one column is kept."""
    columns.sort_indices()
    seen: dict[bytes, int] = {}
    ends = columns.indptr
    for n in range(columns.shape[1]):
        entries = slice(ends[n], ends[n + 1])
        if ends[n] < ends[n + 1]:
            key = columns.indices[entries].tobytes() + columns.data[entries].tobytes()
            seen.setdefault(key, n)
    return np.array(list(seen.values()) or [0], dtype=np.int64)
