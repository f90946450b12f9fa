"""An index from a row's key to the columns that contain the row."""

from __future__ import annotations

import bisect
import copy
import itertools
import sys
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tallyveil import deadline
from tallyveil.arrays import IntArray

__all__ = ["RowIndex"]

_FEW: Final = 4  # keys
_MANY: Final = 4_096
_HALF: Final = 8  # bytes

_Numbers: TypeAlias = tuple[int, ...]
_Halves: TypeAlias = npt.NDArray[np.uint64]
"""The first halves of keys, and the second halves (2×n)."""


class RowIndex:
    """Column numbers by row key. The columns it starts with are in arrays, sorted by the first
    halves of the keys; later ones are in a dictionary. Threads may share it, but only one may add.
    """

    def __init__(self, numbers: IntArray | None = None, halves: _Halves | None = None) -> None:
        """Start empty, or with what `written` returned."""
        self._numbers = np.zeros(0, dtype=np.int64) if numbers is None else numbers
        self._halves = _halves(b"") if halves is None else halves
        self._sorted = memoryview(self._halves[0])
        # The keys that the arrays were last found to lack: a statement looks the same up again.
        self._absent: tuple[bytes, ...] | None = None
        self._others: dict[bytes, _Numbers] = {}

    def add(self, number: int, keys: Sequence[bytes]) -> None:
        """Add the keys of column ``number``. Numbers must ascend."""
        here = (number,)  # keys without other columns share one object
        for some in deadline.portions(keys):
            if self._others.keys().isdisjoint(some):
                self._others.update(dict.fromkeys(some, here))
                continue
            for key in some:
                before = self._others.get(key)
                if before is None:
                    self._others[key] = here
                elif before[-1] != number:
                    self._others[key] = before + here

    def find(self, keys: Sequence[bytes]) -> list[_Numbers] | None:
        """The columns that contain each key's row, in ascending order; None if no key has any."""
        others = self._others
        none = all(map(others.keys().isdisjoint, deadline.portions(keys)))
        found = None if none else [others.get(key, ()) for key in keys]
        if not len(self._numbers) or keys is self._absent or not self._may_start_with(keys):
            return found
        wanted = _halves(b"".join(keys))
        start = self._halves[0].searchsorted(wanted[0])
        if not (self._halves[0].take(start, mode="clip") == wanted[0]).any():
            if isinstance(keys, tuple) and len(keys) <= _MANY:
                self._absent = keys
            return found
        count = self._halves[0].searchsorted(wanted[0], side="right") - start
        places = np.repeat(np.arange(len(keys)), count)
        at = np.arange(len(places)) + np.repeat(start - (np.cumsum(count) - count), count)
        same = self._halves[1, at] == wanted[1, places]
        first: list[_Numbers] = [()] * len(keys)
        numbers = self._numbers[at[same]].tolist()
        for place, number in zip(places[same].tolist(), numbers, strict=True):
            first[place] += (number,)
        return first if found is None else [a + b for a, b in zip(first, found, strict=True)]

    def _may_start_with(self, keys: Sequence[bytes]) -> bool:
        """False only if none of the keys is among those it started with. A few are searched for
        one by one, which takes less time than to search for them together."""
        if len(keys) > _FEW:
            return True
        for key in keys:
            half = int.from_bytes(key[:_HALF], sys.byteorder)
            place = bisect.bisect_left(self._sorted, half)
            if place < len(self._sorted) and self._sorted[place] == half:
                return True
        return False

    def copy(self) -> RowIndex:
        """A copy, which takes little time."""
        result = copy.copy(self)
        result._others = self._others.copy()
        return result

    def written(self) -> tuple[IntArray, _Halves]:
        """A column number and the halves of a key for each row, in the order of the first halves:
        another index can start with them."""
        numbers = [self._numbers, np.array([*itertools.chain(*self._others.values())], np.int64)]
        keys = b"".join(key * len(own) for key, own in self._others.items())
        halves = np.concatenate([self._halves, _halves(keys)], axis=1)
        order = np.argsort(halves[0], kind="stable")
        return np.concatenate(numbers)[order], halves.take(order, axis=1)


def _halves(keys: bytes) -> _Halves:
    """The first halves of the concatenated keys, and the second halves."""
    return np.ascontiguousarray(np.frombuffer(keys, np.uint64).reshape(-1, 2).T)
