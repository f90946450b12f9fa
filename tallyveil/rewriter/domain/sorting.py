"""Matrix entries in the order of their rows and cells, and other numbers in a stable order."""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np
from scipy import sparse

from tallyveil import deadline
from tallyveil.rewriter.domain.integers import PORTION, IntArray, portions

__all__ = ["in_order", "order_of"]

# How many numbers are sorted by counting them, and how many of these at a time.
_MANY: Final = 1 << 16
_SORTED: Final = 1 << 20
_WORD: Final = np.iinfo(np.int32).max


def in_order(
    height: int, size: int, rows: IntArray, cells: IntArray, coefficients: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """The entries other than 0, sorted by (row, cell); each of ``height`` rows has ``size`` cells.

    Sorted by laying them out where that takes little room, since DuckDB gives them in any order.
    """
    several = bool(rows.any())
    places = rows * size + cells if several else cells
    deadline.check()
    ascending = _ascending(places)
    if not ascending and height * size <= 2 * len(places):
        laid_out = np.zeros(height * size, dtype=np.int64)
        for some, own in zip(portions(places), portions(coefficients), strict=True):
            laid_out[some] = own
        places = np.flatnonzero(laid_out)
        deadline.check()
        if len(places) == np.count_nonzero(coefficients):
            if len(places) < len(laid_out):
                laid_out = laid_out[places]
            deadline.check()
            return (*(np.divmod(places, size) if several else (0 * places, places)), laid_out)
    if not coefficients.all():
        keep = np.flatnonzero(coefficients)
        rows, cells, coefficients = (
            of.take(keep) for of in deadline.stoppable((rows, cells, coefficients), 1)
        )
    deadline.check()
    if ascending or not len(coefficients):
        return rows, cells, coefficients
    alike = bool((coefficients == coefficients[0]).all())
    deadline.check()
    if (cells[1:] < cells[:-1]).any():
        order = order_of(cells, size)
        deadline.check()
        rows, cells = rows[order], cells[order]
        coefficients = coefficients if alike else coefficients[order]
    deadline.check()
    if alike:
        cells = _stably(cells, rows, height)
    else:
        order = order_of(rows, height)
        deadline.check()
        cells, coefficients = cells[order], coefficients[order]
    deadline.check()
    return np.repeat(np.arange(height), np.bincount(rows, minlength=height)), cells, coefficients


def _ascending(values: IntArray) -> bool:
    return all(
        (some[1:] > some[:-1]).all() and (some[-1:] < values[stop : stop + 1]).all()
        for stop, some in zip(itertools.count(PORTION, PORTION), portions(values), strict=False)
    )


def order_of(numbers: IntArray, size: int) -> IntArray:
    """The stable order of numbers less than ``size``."""
    return _stably(np.arange(len(numbers)), numbers, size)


def _stably(values: IntArray, numbers: IntArray, size: int) -> IntArray:
    """``values`` in the stable order of ``numbers``, which are less than ``size``: of many by
    counting them, in 32 bits."""
    deadline.check()
    if (numbers[1:] >= numbers[:-1]).all():
        return values
    if len(numbers) < _MANY or max(size, len(numbers), int(values.max())) > _WORD:
        return values[np.argsort(numbers, kind="stable")]
    if len(numbers) <= size <= 2 * len(numbers):
        laid_out = np.full(size, -1, dtype=np.int64)
        for some, own in zip(portions(numbers), portions(values), strict=True):
            laid_out[some] = own
        found = laid_out[laid_out >= 0]
        if len(found) == len(values):
            return found
    return _counted(values, numbers, size)


def _counted(values: IntArray, numbers: IntArray, size: int) -> IntArray:
    """As `_stably`, portion by portion: each puts its values after those of the ones before."""
    each = np.bincount(numbers, minlength=size)
    following = np.cumsum(each) - each
    result = np.empty(len(values), dtype=np.int64)
    for start in range(0, len(numbers), _SORTED):
        deadline.check()
        own = values[start : start + _SORTED].astype(np.int32)
        places = numbers[start : start + _SORTED].astype(np.int32)
        whole = np.array([0, len(own)], dtype=np.int32)
        ordered = sparse.csr_array((own, places, whole), (1, size)).tocsc()
        deadline.check()
        here = np.diff(ordered.indptr)
        moved = np.repeat(following - ordered.indptr[:-1], here)
        deadline.check()
        result[moved + np.arange(len(own))] = ordered.data
        following += here
    return result
