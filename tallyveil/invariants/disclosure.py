"""What the declared counts disclose: all counts that follow from them.

It checks the declared rows and the cells that they distinguish: each cell by itself, exactly, and
together with x ≥ 0, by bounds that are propagated from row to row. These bounds are valid. They are
the narrowest if the rows are the margins of two attributes or nested or disjoint groups, whose
atoms are taken instead (docs/mathematics.md, "Exact rows"); otherwise narrower ones may exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil import deadline
from tallyveil.arrays import IntArray
from tallyveil.invariants.laminar import Laminar
from tallyveil.invariants.row_names import row_names
from tallyveil.invariants.span import Span
from tallyveil.policy.domain import Domain
from tallyveil.workload.classes import Classes
from tallyveil.workload.workload import Column, Factor

__all__ = ["DisclosedCount", "Disclosure", "disclosure"]

_CELLS: Final = 20_000  # the most cells that are checked one by one
_ROUNDS: Final = 30
_RECORDS: Final = 2**31 - 1  # the most records of a table
_LARGEST: Final = 2**62


@dataclass(frozen=True)
class DisclosedCount:
    """A count that is known, of ``cells`` cells of the domain. ``bounded`` if it follows only
    because counts are at least 0."""

    name: str
    value: int
    cells: int
    bounded: bool = False


@dataclass(frozen=True)
class Disclosure:
    """All ``counts`` that were found; ``whole`` is True if every cell was checked."""

    rank: int
    cells: int
    counts: tuple[DisclosedCount, ...]
    whole: bool

    def small(self, least: int) -> list[DisclosedCount]:
        """The counts of few records, but at least one."""
        return [one for one in self.counts if 0 < one.value < least]

    @property
    def unprotected(self) -> int:
        """The number of non-empty cells of the domain that are known individually."""
        return sum(one.cells == 1 and one.value > 0 for one in self.counts)


def disclosure(span: Span, values: Sequence[int], domain: Domain) -> Disclosure:
    """What follows from ``values``, one of each declared row."""
    found: dict[bytes, DisclosedCount] = {}
    starts = np.cumsum([0, *(column.height for column in span.columns)]).tolist()
    for column, start in zip(span.columns, starts, strict=False):
        names, sizes = row_names(column, domain), _sizes(column, domain)
        for row, key in enumerate(column.row_keys):
            if sizes[row]:
                found.setdefault(key, DisclosedCount(names[row], values[start + row], sizes[row]))
    classes = span.classes()
    whole = classes.size <= _CELLS
    if whole:
        whole = _cells(span, values, domain, classes, found)
    return Disclosure(span.rank, domain.size, tuple(found.values()), whole)


def _sizes(column: Column, domain: Domain) -> list[int]:
    """The number of cells of the domain that each row counts; 0 for a row that is no count."""
    across = domain.size // column.size
    total = np.full(column.height, across, dtype=object)
    for factor, rows in zip(column.factors, column.factor_rows(column.numbers), strict=True):
        plain = np.ones(factor.height, dtype=bool)
        plain[factor.rows[factor.coefficients != 1]] = False
        total = total * np.where(plain, factor.entries, 0)[rows]
    return [int(number) for number in total]


def _cells(
    span: Span,
    values: Sequence[int],
    domain: Domain,
    classes: Classes,
    found: dict[bytes, DisclosedCount],
) -> bool:
    """Add the cells that are known, and return whether all could be checked."""
    column = _one_by_one(classes)
    names, sizes = row_names(column, domain), _sizes(column, domain)
    known = span.combinations(column)
    rows, sums = span.over(classes), span.basis_values(values)
    nested = None if rows is None else Laminar.of(rows)
    if nested is not None:
        rows, sums = nested.atoms(sums)
    bounds = None if rows is None else _bounds(rows, sums)
    for cell, (key, one) in enumerate(zip(column.row_keys, known, strict=True)):
        if one is not None:
            found.setdefault(key, DisclosedCount(names[cell], one.of(values), sizes[cell]))
        elif bounds is not None and bounds[0][cell] == bounds[1][cell]:
            value = int(bounds[0][cell])
            found.setdefault(key, DisclosedCount(names[cell], value, sizes[cell], bounded=True))
    return bounds is not None


def _one_by_one(classes: Classes) -> Column:
    """A row for each joint class, the first attribute's the most significant."""
    factors = []
    for axis, labels in classes.labels.items():
        order = np.argsort(labels, kind="stable").astype(np.int64)
        rows, ones = labels[order], np.ones(len(order), dtype=np.int64)
        height = len(classes.firsts[axis])
        factors.append(Factor((axis,), (len(labels),), height, rows, order, ones))
    return Column(tuple(factors))


def _bounds(rows: Factor, values: Sequence[int]) -> tuple[IntArray, IntArray] | None:
    """Bounds of each cell's count from Cx = c and x ≥ 0; None if numbers are too large."""
    if max(1, rows.largest) * _RECORDS * max(1, rows.size) >= _LARGEST:
        return None
    known = np.array(values, dtype=np.int64)
    low = np.zeros(rows.size, dtype=np.int64)
    high = np.full(rows.size, _RECORDS, dtype=np.int64)
    row, cell, a = rows.rows, rows.cells, rows.coefficients
    up = a > 0
    for _ in range(_ROUNDS):
        deadline.check()
        ends_of_terms = a * low[cell], a * high[cell]
        least, most = np.minimum(*ends_of_terms), np.maximum(*ends_of_terms)
        floors, ceilings = np.zeros_like(known), np.zeros_like(known)
        np.add.at(floors, row, least)
        np.add.at(ceilings, row, most)
        # The part of the row's value that is left for this cell.
        top, bottom = (known - floors)[row] + least, (known - ceilings)[row] + most
        size = np.abs(a)
        ends = np.where(up, top, -bottom) // size
        starts = -(np.where(up, -bottom, top) // size)
        new_low, new_high = low.copy(), high.copy()
        np.minimum.at(new_high, cell, ends)
        np.maximum.at(new_low, cell, starts)
        if (new_low == low).all() and (new_high == high).all():
            break
        low, high = new_low, new_high
    return low, high
