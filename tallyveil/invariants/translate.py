"""A translate w − λC of a row w, as which the row may be charged where Cx is public.

For two tables that agree on C, w − λC differs by as much as w. So noise on w may be charged as
noise on w − λC for any λ; nothing that is released changes. The charge is computed in integers from
the recorded λ and the published rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import sparse

from tallyveil.arrays import IntArray
from tallyveil.cache import kept_with
from tallyveil.workload.classes import spread
from tallyveil.workload.workload import Column, Factor

__all__ = ["Translate", "translated"]

_LIMIT: Final = 1_000_000  # cells, or entries
_LARGEST: Final = 2.0**62


@dataclass(frozen=True, eq=False)
class Translate:
    """The λ of one column's rows: row ``rows[t]`` has λ = ``numerators[t] / denominator`` at the
    published row ``declared[t]``, numbered over all published columns, one after the other."""

    rows: IntArray
    declared: IntArray
    numerators: IntArray
    denominator: int

    def __post_init__(self) -> None:
        if not len(self.rows) == len(self.declared) == len(self.numerators):
            raise ValueError("rows, declared rows and numerators go together")
        if not 0 < self.denominator < 2**31:
            raise ValueError("the denominator is positive, and below 2^31")


def translated(asked: Column, translate: Translate, published: Sequence[Column]) -> Column | None:
    """``denominator`` · (w − λC) for each asked row w, in integers; None if that has too many
    cells, or coefficients beyond 64 bits.

    Raises ValueError if λ refers to rows that do not exist.
    """
    return _translated(translate, asked, tuple(published))


@kept_with  # it is quoted before it is charged
def _translated(
    translate: Translate, asked: Column, published: tuple[Column, ...]
) -> Column | None:
    starts = np.cumsum([0, *(column.height for column in published)])
    known = (translate.rows >= 0) & (translate.rows < asked.height)
    if not (known & (translate.declared >= 0) & (translate.declared < starts[-1])).all():
        raise ValueError("a translate by rows that are not published")
    used = [
        (column, np.flatnonzero((start <= translate.declared) & (translate.declared < end)), start)
        for column, start, end in zip(published, starts[:-1], starts[1:], strict=True)
    ]
    used = [one for one in used if len(one[1])]
    sizes = {
        axis: size
        for column in (asked, *(one[0] for one in used))
        for axis, size in zip(column.axes, column.shape, strict=True)
    }
    axes, shape = tuple(sizes), tuple(sizes.values())
    whole = spread(asked, axes, shape, _LIMIT)
    largest = float(asked.largest) * translate.denominator
    for column, entries, _ in used:
        largest += column.largest * float(np.abs(translate.numerators[entries]).sum())
    if whole is None or largest >= _LARGEST:
        return None
    found = whole.sparse() * translate.denominator
    for column, entries, start in used:
        numbers, place = np.unique(translate.declared[entries] - start, return_inverse=True)
        own = spread(column.take(numbers.astype(np.int64)), axes, shape, _LIMIT)
        if own is None or int(own.entries[place].sum()) > _LIMIT:
            return None
        factors = translate.numerators[entries], (translate.rows[entries], place.ravel())
        found = found - sparse.csr_matrix(factors, (asked.height, own.height)) @ own.sparse()
    return Column((Factor.of_sparse(axes, shape, found),))
