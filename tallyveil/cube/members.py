"""In which cells each privacy unit has records, for units that may have several.

Units are numbered by nothing that names them, and each cell is listed once for a unit. About 4
bytes for each, and one for each unit. Like the counts, it is confidential and stays in its cube.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tallyveil.alike import changes
from tallyveil.arrays import CodeArray, IntArray
from tallyveil.workload.factor import Factor

__all__ = ["Members"]


class Members:
    """``cells`` are the numbers of the cells of unit 0, then of unit 1 and so on, ``lengths[u]`` of
    unit u. Where data grows, ``numbers[u]`` identifies it. Its repr is an address."""

    __slots__ = ("cells", "lengths", "numbers")

    def __init__(
        self, lengths: CodeArray, cells: CodeArray, numbers: IntArray | None = None
    ) -> None:
        self.lengths, self.cells, self.numbers = lengths, cells, numbers

    @classmethod
    def of_cells(cls, each: Sequence[IntArray]) -> Members:
        """From the units of the records in each cell. Any numbers identify them: they are put in
        order by these, and two units with one number are counted as one."""
        units = np.concatenate([np.zeros(0, dtype=np.int64), *each])
        found = cls._of(units, np.repeat(np.arange(len(each)), [len(own) for own in each]))
        return cls(found.lengths, found.cells)

    def moved(self, places: IntArray) -> Members:
        """Where cell t has become cell ``places[t]``, or none if that is −1."""
        units, cells = np.repeat(np.arange(len(self.lengths)), self.lengths), places[self.cells]
        found = self._of(units[cells >= 0], cells[cells >= 0])
        return Members(found.lengths, found.cells)

    @classmethod
    def _of(cls, units: IntArray, cells: IntArray) -> Members:
        """From pairs of a unit's number and a cell."""
        order, number = np.argsort(units), int(cells.max(initial=0)) + 1
        units = units[order]
        first = changes(units)
        # A sort that need not be stable and one of nearly sorted numbers take less than lexsort.
        pairs = np.cumsum(first) * number + cells[order]
        pairs.sort()
        cells = (pairs % number).astype(np.uint32)
        starts = np.flatnonzero(first)
        different = first | changes(cells)
        lengths = np.add.reduceat(different, starts) if len(starts) else starts
        return cls(_small(lengths), cells[different], units[first])

    def joined(self, units: IntArray, cells: IntArray) -> Members:
        """With further pairs of a unit's number and a cell."""
        own = np.zeros(0, dtype=np.int64) if self.numbers is None else self.numbers
        return Members._of(
            np.concatenate([np.repeat(own, self.lengths), units]),
            np.concatenate([self.cells.astype(np.int64), cells]),
        )

    @property
    def nbytes(self) -> int:
        numbers = 0 if self.numbers is None else self.numbers.nbytes
        return self.lengths.nbytes + self.cells.nbytes + numbers

    def count(self, groups: Factor, places: IntArray) -> list[int]:
        """The number of units with a record in each group: in a cell on which its row is not 0, by
        the place of each cell of the table on the factor's axes."""
        order = np.argsort(groups.cells, kind="stable")
        sizes = np.bincount(groups.cells, minlength=groups.size)
        ends, own = np.cumsum(sizes), places[self.cells]
        # A cell of a unit is in as many groups, whose entries are one after the other in ``order``.
        number = sizes[own]
        units = np.repeat(np.repeat(np.arange(len(self.lengths)), self.lengths), number)
        last = np.repeat(ends[own] - np.cumsum(number), number)
        rows = groups.rows[order[last + np.arange(len(units))]]
        pairs = np.sort(units * groups.height + rows)
        rows = pairs[changes(pairs)] % groups.height
        found: list[int] = np.bincount(rows, minlength=groups.height).tolist()
        return found


def _small(array: IntArray) -> CodeArray:
    largest = int(array.max(initial=0))
    return array.astype(next(t for t in (np.uint8, np.uint32) if largest <= np.iinfo(t).max))
