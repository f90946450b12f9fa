"""Columns times a random matrix V, which is a product of a matrix for each attribute.

A column that is a Kronecker product is multiplied factor by factor, and a factor attribute by
attribute: what is alike for many values of the others is multiplied once.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tallyveil.inference.noise import FloatArray
from tallyveil.workload.workload import Column, Factor, IntArray

__all__ = ["Probes"]

_VALUES: Final = 2048  # of an attribute with more, some look alike through V
_ENTRIES: Final = 200_000  # of one factor
_DISTINCT: Final = 10_000  # of these, along an attribute, that differ from each other
_DENSE: Final = 20_000  # values of a row that is written out

# Nobody who writes SQL may know it, or rows could be made to look dependent.
_SEED: Final = secrets.randbits(128)


class Probes:
    """V has ``columns`` columns, of which the first ones can be had alone; what has more than
    ``height`` rows is not multiplied."""

    def __init__(self, columns: int, height: int) -> None:
        self._columns = columns
        self._height = height
        self._parts: dict[tuple[str, int], FloatArray] = {}

    def rows(self, column: Column, keys: frozenset[str], width: int) -> FloatArray | None:
        """Rows that span those of the column at any one value of each of ``keys``, times ``width``
        columns of V, each of length 1; None if there are too many."""
        rows = np.ones((1, width))
        for factor in column.factors:
            if set(factor.axes) <= keys:
                continue
            own = self._products(factor, keys, width)
            if own is None or len(rows) * len(own) > self._height:
                return None
            rows = (rows[:, None, :] * own).reshape(-1, width)
        lengths = np.sqrt((rows**2).sum(axis=1))
        filled = lengths > 0
        result: FloatArray = rows[filled] / lengths[filled, None]
        return result

    def _products(self, factor: Factor, keys: frozenset[str], width: int) -> FloatArray | None:
        if len(factor.rows) > _ENTRIES:
            return None
        index = np.unravel_index(factor.cells, factor.shape)
        parts = list(zip(factor.axes, factor.shape, index, strict=True))
        inner = [at for axis, _, at in parts if axis in keys]
        outer = [part for part in parts if part[0] not in keys]
        dense = math.prod(min(size, _VALUES) for size in factor.shape) <= _DENSE
        if dense and factor.height == 1 and not inner and len(outer) <= 2:
            return self._of_one_row(factor, width)
        places = [factor.rows, *inner, *(at for _, _, at in outer)]
        # Each entry is its coefficient times one of the products, that of the axes already done.
        products, number = np.ones((1, width)), np.zeros(len(factor.rows), dtype=np.int64)
        coefficients = factor.coefficients
        for axis, size, _ in reversed(outer):
            at = places.pop() % _VALUES
            group, first = _grouped(places)
            sort, gather, used = _sorts(group, len(first), at, number, coefficients)
            if len(used) > _DISTINCT:
                return None
            products = gather @ (self._part(axis, size)[at[used], :width] * products[number[used]])
            places, number = [place[first] for place in places], sort
            coefficients = np.ones(len(first), dtype=np.int64)
        # What is alike at many values of the keys spans no more.
        return products if len(products) <= self._height else None

    def _of_one_row(self, factor: Factor, width: int) -> FloatArray:
        """Of one row over one or two axes, written out."""
        index = np.unravel_index(factor.cells, factor.shape)
        parts = [
            self._part(axis, size)[:, :width]
            for axis, size in zip(factor.axes, factor.shape, strict=True)
        ]
        shape = tuple(map(len, parts))
        places = np.ravel_multi_index([at % _VALUES for at in index], shape)
        weights = factor.coefficients.astype(np.float64)
        dense = np.bincount(places, weights, math.prod(shape)).reshape(-1, shape[-1])
        products: FloatArray = dense @ parts[-1]
        if len(parts) == 1:
            return products
        row: FloatArray = np.einsum("ij,ij->j", parts[0], products)
        return row[None]

    def _part(self, axis: str, size: int) -> FloatArray:
        """The attribute's part of V. Each of its columns adds up to 1 over the values, so that of
        an attribute that a column does not mention nothing has to be known."""
        found = self._parts.get((axis, size))
        if found is None:
            random = np.random.default_rng([_SEED, *axis.encode()])
            found = random.standard_normal((min(size, _VALUES), self._columns))
            repeats: IntArray = np.bincount(np.arange(size) % _VALUES)
            found += (1 - repeats @ found) / size
            self._parts[axis, size] = found
        return found


def _grouped(places: Sequence[IntArray]) -> tuple[IntArray, IntArray]:
    """The group of each entry, those that agree in all places; and the first entry of each."""
    group = np.zeros(len(places[0]), dtype=np.int64)
    first = group[:1]
    for place in places:
        mixed = group * (int(place.max(initial=0)) + 1) + place
        _, first, group = np.unique(mixed, return_index=True, return_inverse=True)
        group = group.ravel()
    return group, first


def _sorts(
    group: IntArray, groups: int, at: IntArray, number: IntArray, coefficients: IntArray
) -> tuple[IntArray, sparse.csr_matrix, IntArray]:
    """The sort of each group, those with the same entries; a matrix that adds the entries
    ``used``, of one group of each sort."""
    marks = _marks()
    sums = np.zeros(groups, dtype=np.uint64)
    terms = marks[at] * marks[_VALUES + number] * coefficients.view(np.uint64)
    np.add.at(sums, group, terms)
    _, one, sort = np.unique(sums, return_index=True, return_inverse=True)
    sort = sort.ravel()
    used = np.flatnonzero(one[sort[group]] == group)
    gather = sparse.csr_matrix(
        (coefficients[used].astype(np.float64), (sort[group[used]], np.arange(len(used)))),
        shape=(len(one), len(used)),
    )
    return sort, gather, used


@cache
def _marks() -> npt.NDArray[np.uint64]:
    """Odd, so that no product of them is 0."""
    random = np.random.default_rng(_SEED)
    return random.integers(0, 2**64, _VALUES + _ENTRIES, dtype=np.uint64) | np.uint64(1)
