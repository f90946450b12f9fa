"""The public range 0..n that each count of a workload is known to lie in, and where it is from.

It depends on public facts alone: what the custodian vouches for in the policy, and the number of
records where that is public. An n that an analyst writes into dp.mechanism takes precedence. It
need not hold: true counts outside the range count as its nearer end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tallyveil.mechanisms.matrix.privacy_level import MAX_RANGE
from tallyveil.policy import Table
from tallyveil.rewriter import Workload
from tallyveil.workload.workload import Column, Factor

__all__ = ["PublicRange", "Ranges"]


@dataclass(frozen=True)
class PublicRange:
    """0..``n``; ``origin`` says where n is from, as the end of a sentence."""

    n: int
    origin: str


@dataclass(frozen=True, eq=False)
class Ranges:
    """For the tables of one policy; ``totals`` are their numbers of records where public."""

    tables: Mapping[str, Table]
    totals: Mapping[str, int]

    def of(self, workload: Workload) -> PublicRange | None:
        """The least range that holds every row of a workload of plain counts; None if there is none
        for which a mechanism is offered.
        """
        found = []
        declared = self.tables[workload.table].count_range
        if declared is not None and _within_groups(workload, declared.by):
            found.append(PublicRange(declared.at_most, "the policy's count_range"))
        total = self.totals.get(workload.table, 0)
        if 1 <= total <= MAX_RANGE:
            found.append(PublicRange(total, "the public number of records"))
        return min(found, key=lambda found: found.n, default=None)


def _within_groups(workload: Workload, by: tuple[str, ...]) -> bool:
    """Whether each row counts records of only one cell of every attribute in ``by``."""
    return all(_fixes(column, axis) for column in workload.columns for axis in by)


def _fixes(column: Column, axis: str) -> bool:
    return any(axis in factor.axes and _one_cell(factor, axis) for factor in column.factors)


def _one_cell(factor: Factor, axis: str) -> bool:
    at = np.unravel_index(factor.cells, factor.shape)[factor.axes.index(axis)]
    same_row = np.diff(factor.rows) == 0
    return not bool((same_row & (np.diff(at) != 0)).any())
