"""Marginals of the counts, computed once and kept while they are of use."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tallyveil.locks import Rank, ranked_lock

__all__ = ["DENSE_CELLS", "IntArray", "Marginal", "MarginalCache", "flat_index", "marginal"]

IntArray: TypeAlias = npt.NDArray[np.int64]

DENSE_CELLS: Final = 2**22
_CACHE_BYTES = 2**28


class Marginal(Protocol):
    @property
    def nbytes(self) -> int: ...

    def at(self, cells: IntArray) -> IntArray:
        """The number of records in each of the given cells."""
        ...

    def all(self, size: int) -> IntArray:
        """The number of records in each of ``size`` cells, which are all."""
        ...


class _Dense:
    __slots__ = ("_counts", "nbytes")

    def __init__(self, counts: IntArray) -> None:
        self._counts = counts
        self.nbytes = counts.nbytes

    def at(self, cells: IntArray) -> IntArray:
        return self._counts[cells]

    def all(self, size: int) -> IntArray:
        return self._counts


class _Sparse:
    """Sorted cells that hold records, closed by a cell no workload can name."""

    __slots__ = ("_cells", "_counts", "nbytes")

    def __init__(self, cells: IntArray, counts: IntArray) -> None:
        self._cells = np.append(cells, np.iinfo(np.int64).max)
        self._counts = np.append(counts, 0)
        self.nbytes = self._cells.nbytes + self._counts.nbytes

    def at(self, cells: IntArray) -> IntArray:
        place = np.searchsorted(self._cells, cells)
        return np.where(self._cells[place] == cells, self._counts[place], 0)

    def all(self, size: int) -> IntArray:
        return self.at(np.arange(size))


def flat_index(codes: tuple[IntArray, ...], shape: tuple[int, ...]) -> IntArray:
    """The C-order index into ``shape`` of each cell in use; 0 without axes."""
    flat = np.zeros(1, dtype=np.int64)
    for code, length in zip(codes, shape, strict=True):
        flat = flat * length + code
    return flat


def marginal(codes: tuple[IntArray, ...], shape: tuple[int, ...], counts: IntArray) -> Marginal:
    """Sum ``counts`` over all axes but those given, by C-order index into ``shape``.

    Sums stay below 2^31 (`MAX_RECORDS`), so that doubles hold them exactly.
    """
    flat = np.broadcast_to(flat_index(codes, shape), counts.shape)
    size = math.prod(shape)
    if size <= DENSE_CELLS:
        return _Dense(np.bincount(flat, weights=counts, minlength=size).astype(np.int64))
    cells, inverse = np.unique(flat, return_inverse=True)
    sums = np.bincount(inverse, weights=counts, minlength=len(cells))
    return _Sparse(cells, sums.astype(np.int64))


class MarginalCache:
    """The most recently used marginals, up to a number of bytes. Safe between threads.

    What is kept depends on the questions only, hence so does the time an answer takes.
    """

    __slots__ = ("_bytes", "_held", "_limit", "_lock")

    def __init__(self, limit: int = _CACHE_BYTES) -> None:
        self._held: OrderedDict[tuple[str, ...], Marginal] = OrderedDict()
        self._lock = ranked_lock(Rank.LEAF)
        self._bytes = 0
        self._limit = limit

    def holds(self, axes: tuple[str, ...]) -> bool:
        return axes in self._held

    def get(self, axes: tuple[str, ...], compute: Callable[[], Marginal]) -> Marginal:
        with self._lock:
            held = self._held.get(axes)
            if held is not None:
                self._held.move_to_end(axes)
                return held
        made = compute()  # outside the lock: two threads may both compute, neither waits
        with self._lock:
            if axes not in self._held:
                self._held[axes] = made
                self._bytes += made.nbytes
            while self._bytes > self._limit and len(self._held) > 1:
                _, dropped = self._held.popitem(last=False)
                self._bytes -= dropped.nbytes
        return made
