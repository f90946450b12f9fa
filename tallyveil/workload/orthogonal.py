"""Columns that are orthogonal to each other, as contrasts between the groups of a lattice are."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from scipy import sparse

from tallyveil.workload.workload import Column, Factor

__all__ = ["are_orthogonal"]

_MOST: Final = 100  # columns, each of which is compared with each

_Pair: TypeAlias = tuple[Factor | None, Factor | None]


def are_orthogonal(columns: Sequence[Column]) -> bool:
    """Whether the rows of each column are orthogonal to those of all others, as their factors show:
    r·s is the product of the dot products along each axis, of which one is 0 for all rows."""
    if len(columns) > _MOST:
        return False
    known: dict[_Pair, bool] = {}
    return all(_are_apart(a, b, known) for a, b in itertools.combinations(columns, 2))


def _are_apart(a: Column, b: Column, known: dict[_Pair, bool]) -> bool:
    mine, others = ({factor.axes: factor for factor in one.factors} for one in (a, b))
    every = {*mine, *others}
    if len({*itertools.chain(*every)}) < sum(map(len, every)):
        return False  # an attribute is in different factors
    for axes in every:
        pair = mine.get(axes), others.get(axes)
        if pair not in known:
            known[pair] = _dot_to_zero(*pair)
        if known[pair]:
            return True
    return False


def _dot_to_zero(a: Factor | None, b: Factor | None) -> bool:
    """Whether all rows of two factors over the same axes are orthogonal; None is a row of ones."""
    if a is None or b is None:
        one = a or b
        return one is not None and not _rows(one).sum(axis=1).any()
    return not (_rows(a) @ _rows(b).T).data.any()


def _rows(factor: Factor) -> sparse.csr_matrix:
    entries = factor.coefficients.astype(np.int64), (factor.rows, factor.cells)
    return sparse.csr_matrix(entries, shape=(factor.height, factor.size))
