"""Which grouping sets are released, and which are summed up from a finer one that is.

Every record counts once in each set, so releasing m sets at a given cost takes noise of m times
the scale. A set that is summed from a finer one takes no noise of its own, and its groups add up
that of theirs. With F rows of the finer set for each row of the coarser one, in the mean, and unit
variance at the whole cost, the mean variances are

    m²        of a set that is one of m released,
    m² · F    of one that is summed up.

The sets that are released are chosen to make the sum of these over all sets small: first those
that no other contains, then, one by one, whichever lowers the sum most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallyveil import deadline

__all__ = ["choose", "sums"]

IntArray = npt.NDArray[np.int64]
_Sets = Sequence[tuple[int, ...]]


def choose(sets: _Sets, heights: Sequence[int]) -> list[int]:
    """For each set, the number of the set it is read from: its own where it is released.

    ``heights`` are the sets' numbers of groups. Equal sets are read from the first of them.

    >>> choose([(0, 1), (0,), ()], [100, 50, 1])  # states and sexes, states, all
    [0, 0, 2]
    """
    distinct = [n for n, keys in enumerate(sets) if sets.index(keys) == n]
    released = [n for n in distinct if not any(set(sets[n]) < set(sets[o]) for o in distinct)]
    error = _error(distinct, released, sets, heights)
    while len(released) < len(distinct):
        candidates = [[*released, n] for n in distinct if n not in released]
        errors = [_error(distinct, c, sets, heights) for c in candidates]
        best = min(range(len(errors)), key=errors.__getitem__)
        if errors[best] >= error:
            break
        released, error = candidates[best], errors[best]
    return [_source(sets.index(keys), released, sets, heights) for keys in sets]


def _source(n: int, released: Sequence[int], sets: _Sets, heights: Sequence[int]) -> int:
    if n in released:
        return n
    return min((r for r in released if set(sets[n]) <= set(sets[r])), key=lambda r: (heights[r], r))


def _error(
    distinct: Sequence[int], released: Sequence[int], sets: _Sets, heights: Sequence[int]
) -> float:
    sources = [_source(n, released, sets, heights) for n in distinct]
    fans = [heights[s] / max(1, heights[n]) for n, s in zip(distinct, sources, strict=True)]
    return len(released) ** 2 * math.fsum(fans)


def sums(fine: pa.Table, coarse: pa.Table, names: Sequence[str]) -> IntArray | None:
    """The row of ``coarse`` that each row of ``fine`` belongs to, by the key columns ``names``.

    None where some row has no place; then the sets are better asked apart.
    """
    places = {key: row for row, key in enumerate(_rows(coarse, names))}
    found = [places.get(key) for key in _rows(fine, names)]
    if len(places) != coarse.num_rows and names:
        return None
    if any(place is None for place in found):
        return None
    return np.array(found, dtype=np.int64)


def _rows(table: pa.Table, names: Sequence[str]) -> list[tuple[Any, ...]]:
    if not names:
        return [()] * table.num_rows
    columns = []
    for name in names:
        deadline.check()
        columns.append(table.column(name).to_pylist())
    rows = deadline.stoppable(zip(*columns, strict=True))
    return [tuple("NaN" if v != v else v for v in row) for row in rows]
