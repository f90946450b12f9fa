"""Disjoint rows rounded to integers that add up to exact sums of theirs.

What the rows of a sum miss it by is shared out by their variances (the projection onto the sum).
Then they are rounded by their prefix sums, z_i = ⌊S_i + ½⌋ − ⌊S_{i−1} + ½⌋, so that each is less
than 1 off, and so is every stretch of them; the last prefix sum is the exact one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tallyveil.inference.noise import FloatArray
from tallyveil.workload.workload import IntArray

__all__ = ["rounded_in_parts"]

_DIGITS = 6  # of values, so that what differs by rounding errors is rounded alike


def rounded_in_parts(
    matrix: sparse.csr_matrix, values: FloatArray, variances: FloatArray
) -> list[int] | None:
    """An integer for each row of ``matrix`` (k×n), near its value; those of variance 0 are exact
    and stay. None unless the others are disjoint, and so are the exact ones, each of which is a sum
    of others or has no cell in common with them.
    """
    exact = variances == 0
    if not exact.any() or (matrix.data != 1).any():
        return None
    part, whole = _owners(matrix, ~exact), _owners(matrix, exact)
    if part is None or whole is None:
        return None
    shared = np.flatnonzero((part >= 0) & (whole >= 0))
    sum_of = np.full(matrix.shape[0], -1, dtype=np.int64)
    sum_of[part[shared]] = whole[shared]
    sizes = np.diff(matrix.indptr)
    met = np.bincount(part[shared], minlength=len(sizes))
    covered = np.bincount(whole[shared], minlength=len(sizes))
    parts = np.flatnonzero(met)
    if (
        (sum_of[part[shared]] != whole[shared]).any()
        or (met[parts] != sizes[parts]).any()
        or ((covered > 0) & (covered != sizes)).any()
    ):
        return None
    result = np.rint(np.round(values, _DIGITS))
    parts = parts[np.argsort(sum_of[parts], kind="stable")]
    if len(parts):
        result[parts] = _rounded(values, variances, parts, sum_of[parts])
    return [int(value) for value in result.tolist()]


def _owners(matrix: sparse.csr_matrix, chosen: npt.NDArray[np.bool_]) -> IntArray | None:
    """Which of the chosen rows has each cell, −1 for none; None if two have one."""
    sizes = np.diff(matrix.indptr)
    rows = np.repeat(np.arange(matrix.shape[0]), sizes)
    own = chosen[rows]
    cells = matrix.indices[own]
    owner = np.full(matrix.shape[1], -1, dtype=np.int64)
    owner[cells] = rows[own]
    return owner if np.count_nonzero(owner >= 0) == len(cells) else None


def _rounded(
    values: FloatArray, variances: FloatArray, parts: IntArray, sums: IntArray
) -> FloatArray:
    """Of ``parts``, which are in the order of the ``sums`` that they belong to."""
    starts = np.flatnonzero(np.diff(sums, prepend=-1))
    lengths = np.diff(np.append(starts, len(sums)))
    totals = values[sums[starts]]
    off = totals - np.add.reduceat(values[parts], starts)
    shares = variances[parts] / np.repeat(np.add.reduceat(variances[parts], starts), lengths)
    moved = values[parts] + shares * np.repeat(off, lengths)
    # Prefix sums of fractions alone: those of counts would lose digits.
    whole = np.floor(moved)
    prefix = np.cumsum(moved - whole)
    before = np.repeat(prefix[starts] - (moved - whole)[starts], lengths)
    steps = np.floor(np.round(prefix - before, _DIGITS) + 0.5)
    first = np.zeros(len(steps), dtype=bool)
    first[starts] = True
    result: FloatArray = whole + steps - np.where(first, 0.0, np.roll(steps, 1))
    return result
