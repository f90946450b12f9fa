"""The cube x: how many records each cell holds, and Wx, sealed."""

from __future__ import annotations

from typing import Final, NoReturn

import numpy as np

from tallyveil.boundary import TrueAnswer
from tallyveil.cube.marginals import IntArray, Marginal, MarginalCache, marginal
from tallyveil.policy import Domain
from tallyveil.rewriter.workload import Column, Workload

__all__ = ["MAX_RECORDS", "Cube", "exact_product"]

MAX_RECORDS: Final = 2**31 - 1
_LIMB = 31


class _Counts:
    """Codes per axis and counts of the cells in use. Its repr is an address."""

    __slots__ = ("codes", "counts", "marginals")

    def __init__(self, codes: tuple[IntArray, ...], counts: IntArray) -> None:
        self.codes = codes
        self.counts = counts
        self.marginals = MarginalCache()


class Cube:
    """The counts of one protected table, behind one question: `answer`.

    They are kept sparsely, so the size of the domain does not matter, only the number of cells
    in use. A cube has no face that shows a count, and is neither copied nor pickled.
    """

    __slots__ = ("_counts", "domain")

    def __init__(self, domain: Domain, codes: tuple[IntArray, ...], counts: IntArray) -> None:
        """The t-th cell in use is ``codes[a][t]`` on axis a and holds ``counts[t]`` records."""
        if len(codes) != len(domain.attributes):
            raise ValueError("every axis needs its codes")
        self.domain = domain
        self._counts = _Counts(codes, counts)

    def __repr__(self) -> str:
        axes = ", ".join(self.domain.names)
        return f"Cube({self.domain.table}: {axes}; {self.domain.size:,} cells)"

    def __copy__(self) -> NoReturn:
        raise TypeError("a Cube is confidential and cannot be copied")

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise TypeError("a Cube is confidential and cannot be copied")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Cube is confidential and cannot be pickled")

    def answer(self, workload: Workload) -> TrueAnswer:
        """Wx, exactly: integers, in units of each column's multiplier.

        values[c][i] = Σ_t coefficients[t] · x_axes[cells[t]] over the entries t of row i, where
        x_axes is the marginal of x over the column's axes.

        Raises ValueError if the workload was made for another domain.
        """
        if workload.table != self.domain.table:
            raise ValueError(f"the workload asks {workload.table}, not {self.domain.table}")
        for column in workload.columns:
            self._check(column)
        return TrueAnswer(workload.key, [self._column(column) for column in workload.columns])

    def _check(self, column: Column) -> None:
        shape = tuple(a.size for a in self.domain.project(column.axes))
        in_order = tuple(n for n in self.domain.names if n in column.axes) == column.axes
        if shape != column.shape or not in_order:
            raise ValueError("the workload was made for another domain")
        if column.size >= 2**63:
            raise ValueError("the column mentions more cells than an index can name")

    def _column(self, column: Column) -> list[int]:
        held = self._counts.marginals.get(column.axes, lambda: self._marginal(column))
        return exact_product(column, held.at(column.cells))

    def _marginal(self, column: Column) -> Marginal:
        names = self.domain.names
        codes = tuple(self._counts.codes[names.index(axis)] for axis in column.axes)
        return marginal(codes, column.shape, self._counts.counts, column.size)


def exact_product(column: Column, x: IntArray) -> list[int]:
    """Σ_t coefficients[t] · x[t] by row, exactly, for x ≥ 0 whose row sums are at most MAX_RECORDS.

    A row's sum is at most max|coefficient| · MAX_RECORDS in absolute value. Below 2^31 that fits
    int64; larger coefficients are split into hi · 2^31 + lo with |hi| ≤ 2^32 and 0 ≤ lo < 2^31,
    each of which fits. The choice depends on the public coefficients only, never on x.
    """
    c = column.coefficients
    if not len(c):
        return [0] * column.height
    if max(-int(c.min()), int(c.max())) < 2**_LIMB:
        return _row_sums(column, c * x)
    high = _row_sums(column, (c >> _LIMB) * x)
    low = _row_sums(column, (c & (2**_LIMB - 1)) * x)
    return [(h << _LIMB) + w for h, w in zip(high, low, strict=True)]


def _row_sums(column: Column, products: IntArray) -> list[int]:
    sums = np.zeros(column.height, dtype=np.int64)
    present, starts = np.unique(column.rows, return_index=True)
    sums[present] = np.add.reduceat(products, starts)
    values: list[int] = sums.tolist()
    return values
