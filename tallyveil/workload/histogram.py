"""A histogram: disjoint rows of counts, each a value in a group, of which a statistic is asked."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, Literal, TypeAlias

import numpy as np

from tallyveil.arrays import IntArray
from tallyveil.cache import cached_property
from tallyveil.errors import FeatureNotSupported, StatementTooComplex
from tallyveil.workload.factor import Factor
from tallyveil.workload.workload import Column

__all__ = ["Histogram", "Kind"]

Kind: TypeAlias = Literal["values", "units", "mode"]

_MOST_CELLS: Final = 4_000_000


@dataclass(frozen=True, eq=False)
class Histogram:
    """The rows of ``column``, in ``height`` groups: ``rows`` are their numbers, by group and in the
    order of their values, and ``groups`` has the group of each.

    ``q`` if the q-quantile of each group is asked; otherwise by ``kind`` the number of distinct
    values, the mode, or the number of privacy units with a record, where each row is a group.
    Raises ValueError unless each row is listed once, each group has one, and q is between 0 and 1.
    """

    column: Column
    rows: IntArray
    groups: IntArray
    height: int
    q: Fraction | None = None
    kind: Kind = "values"

    def __post_init__(self) -> None:
        if self.q is not None and not 0 < self.q < 1:
            raise ValueError("the rank of a quantile is between 0 and 1")
        if sorted(self.rows.tolist()) != list(range(self.column.height)):
            raise ValueError("each row is listed once")
        every = np.unique(self.groups).tolist() == list(range(self.height))
        if len(self.groups) != len(self.rows) or not every or (np.diff(self.groups) < 0).any():
            raise ValueError("each group has a row, and groups are in order")
        alone = self.kind == "values" or self.q is None
        if not alone or (self.units and self.column.height != self.height):
            raise ValueError("each row is a group of units, and a quantile is of values")

    @property
    def units(self) -> bool:
        return self.kind == "units"

    @property
    def picks(self) -> bool:
        """Whether one of the values is asked, not a number."""
        return self.q is not None or self.kind == "mode"

    @classmethod
    def of_units(cls, column: Column) -> Histogram:
        """Of the units with a record in each row of a column of counts, however often it counts.

        Raises StatementTooComplex if there are too many cells to tell.
        """
        _multiplied_out(column)
        ones = [replace(f, coefficients=np.ones_like(f.coefficients)) for f in column.factors]
        rows, groups = np.arange(column.height, dtype=np.int64), tuple(ones)
        own = Column(groups, selected=column.selected)
        return cls(own, rows, rows, column.height, kind="units")

    @cached_property
    def counts(self) -> Column:
        """The number of records of each group.

        Raises FeatureNotSupported if a record counts in several rows or more than once, and
        StatementTooComplex if there are too many cells to tell.
        """
        whole = _multiplied_out(self.column)
        if self.column.multiplier != 1 or whole.largest > 1 or not whole.disjoint:
            raise FeatureNotSupported(
                "a distinct count or quantile takes one value of each record, and here a record"
                " counts in several groups or several times",
                hint="Join tables by a key, and ask about each branch of a UNION by itself.",
            )
        group = np.empty(len(self.rows), dtype=np.int64)
        group[self.rows] = self.groups
        entries = group[whole.rows], whole.cells, whole.coefficients
        return Column((Factor.of_entries(whole.axes, whole.shape, self.height, *entries),))

    @cached_property
    def starts(self) -> IntArray:
        """Where each group begins in ``rows``, and where the last ends."""
        return np.searchsorted(self.groups, np.arange(self.height + 1)).astype(np.int64)

    @cached_property
    def keys(self) -> tuple[bytes, ...]:
        """A digest of each group: of what is asked about which cells, however it was written."""
        names, order = self.column.row_keys, self.rows.tolist()
        asked = str(self.q) if self.kind == "values" else self.kind
        head, found = asked.encode() + b"\0", []
        for start, end in zip(self.starts[:-1], self.starts[1:], strict=True):
            own = [names[row] for row in order[start:end]]
            body = b"".join(own if self.picks else sorted(own))
            found.append(hashlib.blake2b(head + body, digest_size=16).digest())
        return tuple(found)

    def take(self, chosen: IntArray) -> Histogram:
        """The histogram of these groups, ascending, alone."""
        if len(chosen) == self.height:
            return self
        inside = np.isin(self.groups, chosen)
        kept = np.sort(self.rows[inside])
        return replace(
            self,
            column=self.column.take(kept),
            rows=np.searchsorted(kept, self.rows[inside]).astype(np.int64),
            groups=np.searchsorted(chosen, self.groups[inside]).astype(np.int64),
            height=len(chosen),
        )


def _multiplied_out(column: Column) -> Factor:
    whole = column.multiplied_out(_MOST_CELLS)
    if whole is None:
        raise StatementTooComplex(
            "the values of this aggregate combine too many cells",
            hint="Ask about fewer attributes at once, or group by fewer.",
        )
    return whole
