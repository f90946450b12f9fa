"""Marginals of the counts, computed once and cached."""

from __future__ import annotations

from typing import Final

import numpy as np

from tallyveil.arrays import CodeArray, IntArray
from tallyveil.cache import Cache

__all__ = ["DENSE_CELLS", "Marginal", "flat_index", "marginal", "marginal_cache"]

DENSE_CELLS: Final = 2**22
_CACHE_BYTES: Final = 2**28
_CACHED: Final = 4096


class Marginal:
    """The number of records in every cell, or only in ``cells``, which are ascending and end with a
    cell that no workload can name. The first ``until`` cells of the counts are summed. Its repr is
    an address."""

    __slots__ = ("_cells", "_counts", "nbytes", "until")

    def __init__(self, counts: IntArray, until: int, cells: IntArray | None = None) -> None:
        self._counts, self._cells, self.until = counts, cells, until
        self.nbytes = counts.nbytes + (0 if cells is None else cells.nbytes)

    def grown(self, flat: IntArray, counts: IntArray) -> Marginal:
        """With further ``counts`` of the cells ``flat``."""
        cells, sums = _summed(flat, counts)
        every, until = self._counts.copy(), self.until + len(counts)
        if self._cells is None:
            every[cells] += sums
            return Marginal(every, until)
        places = np.searchsorted(self._cells, cells)
        new = self._cells[places] != cells
        every[places[~new]] += sums[~new]
        own = np.insert(self._cells, places[new], cells[new])
        return Marginal(np.insert(every, places[new], sums[new]), until, own)

    def at(self, cells: IntArray) -> IntArray:
        """The number of records in each of the given cells."""
        if self._cells is None:
            return self._counts[cells]
        place = np.searchsorted(self._cells, cells)
        return np.where(self._cells[place] == cells, self._counts[place], 0)

    def all(self, size: int) -> IntArray:
        """The number of records in each of all ``size`` cells."""
        return self._counts if self._cells is None else self.at(np.arange(size))


def flat_index(codes: tuple[CodeArray, ...], shape: tuple[int, ...]) -> IntArray:
    """The C-order index into ``shape`` of each cell in use; 0 without axes."""
    flat = np.zeros(1, dtype=np.int64)
    for code, length in zip(codes, shape, strict=True):
        flat = flat * length + code
    return flat


def marginal(flat: IntArray, size: int, counts: IntArray) -> Marginal:
    """Sum ``counts`` by their cells ``flat`` of ``size`` cells.

    Sums stay below 2^31 (`MAX_RECORDS`), so that doubles hold them exactly.
    """
    if size <= DENSE_CELLS:
        sums = np.bincount(flat, weights=counts, minlength=size).astype(np.int64)
        return Marginal(sums, len(counts))
    cells, sums = _summed(flat, counts)
    return Marginal(np.append(sums, 0), len(counts), np.append(cells, np.iinfo(np.int64).max))


def _summed(flat: IntArray, counts: IntArray) -> tuple[IntArray, IntArray]:
    cells, inverse = np.unique(flat, return_inverse=True)
    return cells, np.bincount(inverse, weights=counts, minlength=len(cells)).astype(np.int64)


def marginal_cache(room: int = _CACHE_BYTES) -> Cache[Marginal]:
    """A cache of marginals by their axes. Its content depends only on the questions, and so does
    the time of an answer. A marginal larger than the whole ``room`` is cached alone.
    """
    return Cache(_CACHED, room, lambda _, one: min(one.nbytes, room))
