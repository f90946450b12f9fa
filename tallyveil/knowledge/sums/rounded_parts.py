"""Round disjoint rows to integers that add up to their exact sums.

The rows are first moved onto the sums (`consistent_values`), then rounded by their prefix sums,
z_i = ⌊S_i + ½⌋ − ⌊S_{i−1} + ½⌋. So each row, and each run of consecutive rows, is off by less than
1, and the last prefix sum is the exact one. Of one exact sum, the prefix sums that lie half-way are
all rounded up or all down, so that the first of them becomes even. Then noise −e instead of e gives
the opposite errors, and symmetric noise causes no bias.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from tallyveil.alike import run_starts
from tallyveil.arrays import BoolArray, FloatArray, IntArray
from tallyveil.inference.estimates.consistent_values import projected

__all__ = ["nest", "rounded_in_parts"]

_DIGITS = 6  # of values, so that values that differ only by rounding errors are rounded alike


def rounded_in_parts(
    matrix: sparse.csr_matrix,
    values: FloatArray,
    variances: FloatArray,
    counts: BoolArray | None = None,
) -> list[int] | None:
    """An integer for each row of ``matrix`` (k×n), near its value, and at least 0 for ``counts``.
    Rows of variance 0 are exact and keep their values.

    None if values are too large, or unless the other rows are disjoint, and so are the exact rows,
    each of which is a sum of others or has no cell in common with them.
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
    if counts is not None:
        np.maximum(result, 0, out=result, where=counts)
    parts = parts[np.argsort(sum_of[parts], kind="stable")]
    if len(parts):
        moved = _moved(sum_of[parts], parts, values, variances, counts)
        if moved is None:
            return None
        result[parts] = _rounded(moved, sum_of[parts])
    every = [int(value) for value in result.tolist()]
    return every if _agree(every, parts, sum_of) else None


def nest(parts: sparse.csr_matrix, wholes: sparse.csr_matrix) -> bool:
    """Whether the ``parts`` (k×n) are disjoint sets of cells, and so are the ``wholes`` (m×n), and
    each part is contained in one of these or has no cell in common with any. Then all relations
    between them are those of wholes that are unions of parts."""
    if (parts.data != 1).any() or (wholes.data != 1).any():
        return False
    part, whole = (_owners(rows, np.ones(rows.shape[0], dtype=bool)) for rows in (parts, wholes))
    if part is None or whole is None:
        return False
    cells = np.flatnonzero(part >= 0)
    contained = np.full(parts.shape[0], -1, dtype=np.int64)
    contained[part[cells]] = whole[cells]
    return bool((contained[part[cells]] == whole[cells]).all())


def _agree(values: list[int], parts: IntArray, sum_of: IntArray) -> bool:
    """Whether the values add up. They may not if they have more digits than a double."""
    totals: dict[int, int] = {}
    for part, whole in zip(parts.tolist(), sum_of[parts].tolist(), strict=True):
        totals[whole] = totals.get(whole, 0) + values[part]
    return all(values[whole] == total for whole, total in totals.items())


def _owners(matrix: sparse.csr_matrix, chosen: BoolArray) -> IntArray | None:
    """The chosen row that contains each cell, −1 for none; None if two contain the same cell."""
    sizes = np.diff(matrix.indptr)
    rows = np.repeat(np.arange(matrix.shape[0]), sizes)
    own = chosen[rows]
    cells = matrix.indices[own]
    owner = np.full(matrix.shape[1], -1, dtype=np.int64)
    owner[cells] = rows[own]
    return owner if np.count_nonzero(owner >= 0) == len(cells) else None


def _moved(
    sums: IntArray,
    parts: IntArray,
    values: FloatArray,
    variances: FloatArray,
    counts: BoolArray | None,
) -> FloatArray | None:
    """The parts' values, in the order of their ``sums``, moved onto these: in proportion to the
    variances, or by `projected` if a count would be negative."""
    starts = run_starts(sums)
    lengths = np.diff(np.append(starts, len(sums)))
    own, spread, totals = values[parts], variances[parts], values[sums[starts]]
    off = totals - np.add.reduceat(own, starts)
    shares = spread / np.repeat(np.add.reduceat(spread, starts), lengths)
    moved: FloatArray = own + shares * np.repeat(off, lengths)
    if counts is None or not (moved[counts[parts]] < 0).any():
        return moved
    relations = sparse.csr_matrix(
        (np.ones(len(parts)), np.arange(len(parts)), np.append(starts, len(parts))),
        shape=(len(starts), len(parts)),
    )
    return projected(relations, totals, own, spread, counts[parts])


def _rounded(values: FloatArray, sums: IntArray) -> FloatArray:
    """Round values that are ordered by the ``sums`` they belong to."""
    starts = run_starts(sums)
    lengths = np.diff(np.append(starts, len(sums)))
    # Prefix sums of the fractions only: prefix sums of the counts would lose digits.
    whole = np.floor(values)
    prefix = np.cumsum(values - whole)
    before = np.repeat(prefix[starts] - (values - whole)[starts], lengths)
    reached = np.round(prefix - before, _DIGITS)
    steps = np.floor(reached + 0.5) - _rounded_down(reached, whole, starts, lengths)
    first = np.zeros(len(steps), dtype=bool)
    first[starts] = True
    result: FloatArray = whole + steps - np.where(first, 0.0, np.roll(steps, 1))
    return result


def _rounded_down(
    reached: FloatArray, whole: FloatArray, starts: IntArray, lengths: IntArray
) -> BoolArray:
    """Which prefix sums lie half-way and are rounded down: for each exact sum all, or none."""
    half: BoolArray = reached % 1 == 0.5
    if not half.any():
        return half
    odd = np.cumsum(whole % 2)
    before = np.repeat(odd[starts] - whole[starts] % 2, lengths)
    even = (np.floor(reached) + odd - before) % 2 == 0
    part = np.repeat(np.arange(len(starts)), lengths)
    parts, first = np.unique(part[half], return_index=True)
    down = np.zeros(len(starts), dtype=bool)
    down[parts] = even[half][first]
    half &= down[part]
    return half
