"""In which cells each privacy unit has records, for units that may have several.

Units are numbered by nothing that names them, and each cell is listed once for a unit. About 4
bytes for each, and one for each unit. Like the counts, it is confidential and stays in its cube.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tallyveil.arrays import BoolArray, CodeArray, IntArray
from tallyveil.workload.factor import Factor

__all__ = ["Members"]


class Members:
    """``cells`` are the numbers of the cells of unit 0, then of unit 1 and so on, ``lengths[u]`` of
    unit u. Its repr is an address."""

    __slots__ = ("cells", "lengths")

    def __init__(self, lengths: CodeArray, cells: CodeArray) -> None:
        self.lengths, self.cells = lengths, cells

    @classmethod
    def of_cells(cls, each: Sequence[IntArray]) -> Members:
        """From the units of the records in each cell. Any numbers identify them: they are put in
        order by these, and two units with one number are counted as one."""
        units = np.concatenate([np.zeros(0, dtype=np.int64), *each])
        cells = np.repeat(np.arange(len(each), dtype=np.uint32), [len(own) for own in each])
        order = np.argsort(units, kind="stable")
        units, cells = units[order], cells[order]
        starts = np.flatnonzero(_changes(units))
        different = _changes(units) | _changes(cells)
        lengths = np.add.reduceat(different, starts) if len(starts) else starts
        return cls(_small(lengths), cells[different])

    @property
    def nbytes(self) -> int:
        return self.lengths.nbytes + self.cells.nbytes

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
        rows = pairs[_changes(pairs)] % groups.height
        found: list[int] = np.bincount(rows, minlength=groups.height).tolist()
        return found


def _changes(array: CodeArray) -> BoolArray:
    """Whether each entry differs from the one before it."""
    found = np.ones(len(array), dtype=np.bool_)
    found[1:] = array[1:] != array[:-1]
    return found


def _small(array: IntArray) -> CodeArray:
    largest = int(array.max(initial=0))
    return array.astype(next(t for t in (np.uint8, np.uint32) if largest <= np.iinfo(t).max))
