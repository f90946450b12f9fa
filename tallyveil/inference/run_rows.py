"""Integer rows over many cells, one appended at a time, and products with them.

A row is kept by its entries or, if that is shorter, by the differences of neighbouring entries: a
range of cells has two of those, however long it is. With U h = (Σ_{i≥j} h_i)_j and C u =
(Σ_{i≤j} u_i)_j, both in O(cells), a row with differences d has the product d · U h, and a
combination of such rows is C applied to that of their differences.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tallyveil.inference.noise import FloatArray

__all__ = ["RunRows"]

_EXACT: Final = 2.0**52  # integers below it have differences that are exact
_WRITTEN_OUT: Final = 256


class RunRows:
    """B, of shape (rows, cells)."""

    def __init__(self, cells: int) -> None:
        self.cells = cells
        self.size = 0
        self._starts = np.zeros(17, dtype=np.int64)
        self._columns = np.zeros(64, dtype=np.int64)
        self._entries = np.zeros(64)
        self._runs = False
        self._cached: sparse.csr_matrix | None = None

    def append(self, row: FloatArray) -> None:
        columns, entries = np.flatnonzero(row), row
        if np.abs(row).max(initial=0.0) < _EXACT:
            differences = np.diff(row, prepend=0.0)
            changes = np.flatnonzero(differences)
            if len(changes) < len(columns):
                columns, entries, self._runs = changes + self.cells, differences, True
        start = int(self._starts[self.size])
        end = start + len(columns)
        self._starts = _roomy(self._starts, self.size + 2)
        self._columns, self._entries = _roomy(self._columns, end), _roomy(self._entries, end)
        self._columns[start:end] = columns
        self._entries[start:end] = entries[columns % self.cells]
        self.size += 1
        self._starts[self.size] = end
        self._cached = None

    def times(self, x: FloatArray) -> FloatArray:
        """B x."""
        sums = np.cumsum(x[::-1])[::-1] if self._runs else np.zeros(self.cells)
        result: FloatArray = self._stored @ np.concatenate([x, sums])
        return result

    def combined(self, values: FloatArray) -> FloatArray:
        """``values`` · B."""
        both: FloatArray = values @ self._stored
        if not self._runs:
            return both[: self.cells]
        return both[: self.cells] + _summed(both[self.cells :])

    def written_out(self) -> sparse.csr_matrix:
        """B by its entries."""
        stored = self._stored
        parts = [sparse.csr_matrix((0, self.cells))]
        for start in range(0, self.size, _WRITTEN_OUT):
            part = stored[start : start + _WRITTEN_OUT].toarray()
            rows = part[:, : self.cells] + np.cumsum(part[:, self.cells :], axis=1)
            parts.append(sparse.csr_matrix(rows))
        return sparse.vstack(parts, format="csr")

    @property
    def _stored(self) -> sparse.csr_matrix:
        """Entries in the first ``cells`` columns, differences in as many after them."""
        if self._cached is None:
            end = self._starts[self.size]
            self._cached = sparse.csr_matrix(
                (self._entries[:end], self._columns[:end], self._starts[: self.size + 1]),
                shape=(self.size, 2 * self.cells),
            )
        return self._cached


def _summed(u: FloatArray) -> FloatArray:
    """C u, with the rounding error of each step, which is known exactly (Knuth's TwoSum), added
    to the sums that it went into."""
    sums = np.cumsum(u)
    before = np.concatenate([[0.0], sums[:-1]])
    added = sums - before
    errors = (before - (sums - added)) + (u - added)
    result: FloatArray = sums + np.cumsum(errors)
    return result


def _roomy(array: npt.NDArray, size: int) -> npt.NDArray:  # type: ignore[type-arg]
    """The array, or a copy twice as long as needed."""
    if size <= len(array):
        return array
    grown = np.zeros(2 * size, dtype=array.dtype)
    grown[: len(array)] = array
    return grown
