"""An index from a row's key to the columns that contain the row."""

from __future__ import annotations

import bisect
import contextlib
import copy
import itertools
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tallyveil import deadline
from tallyveil.arrays import IntArray
from tallyveil.locks import Rank, ranked_lock

__all__ = ["RowIndex"]

_FEW: Final = 4  # keys, or columns
_MANY: Final = 4_096
_LOOKS: Final = 16  # searches of columns that wait, after which it takes less time to settle them
_HALF: Final = 8  # bytes

_Numbers: TypeAlias = tuple[int, ...]
_Halves: TypeAlias = npt.NDArray[np.uint64]
"""The first halves of keys, and the second halves (2×n)."""


class RowIndex:
    """Column numbers by row key. The columns it starts with are in arrays, sorted by the first
    halves of the keys; later ones are in a dictionary. Threads may share it, but only one may add.

    Columns of many rows wait until `settle` puts them into the dictionary, since that takes a while
    and whoever adds them holds a lock. `find` searches those that wait one by one, and settles them
    itself if nobody has for long, as where another process sold them.
    """

    def __init__(self, numbers: IntArray | None = None, halves: _Halves | None = None) -> None:
        """Start empty, or with what `written` returned."""
        self._numbers = np.zeros(0, dtype=np.int64) if numbers is None else numbers
        self._halves = _halves(b"") if halves is None else halves
        self._sorted = memoryview(self._halves[0])
        # The keys that the arrays were last found to lack: a statement looks the same up again.
        self._absent: tuple[bytes, ...] | None = None
        # Later keys. Those in the same columns share a set, which a key names by an integer: the
        # collector of garbage does not visit a dictionary that holds no other objects.
        self._set_of: dict[bytes, int] = {}
        self._sets: dict[int, _Numbers] = {0: ()}
        self._keys_in = dict[int, int]()
        self._next_set = 0
        self._waiting: list[tuple[int, Sequence[bytes]]] = []
        self._looks = 0
        self._settling = ranked_lock(Rank.LEAF)

    def add(self, number: int, keys: Sequence[bytes]) -> None:
        """Add the keys of column ``number``. Numbers must ascend."""
        if len(keys) <= _MANY and not self._waiting:
            with self._settling:
                self._index(number, keys)
        else:
            self._waiting.append((number, keys))

    def settle(self) -> None:
        """Put the columns that wait into the dictionary."""
        while self._waiting:
            with self._settling:
                if self._waiting:  # no other thread has settled it meanwhile
                    self._index(*self._waiting[0])
                    del self._waiting[0]
        self._looks = 0

    def _index(self, number: int, keys: Sequence[bytes]) -> None:
        extended = dict[int, int]()
        for some in deadline.portions(keys):
            once = dict.fromkeys(some)
            before = [*map(self._set_of.get, once, itertools.repeat(0))]
            sizes = Counter(before) if len(before) > 1 else dict.fromkeys(before, 1)
            for known, size in sizes.items():
                if known not in extended:
                    extended[known] = self._extended(known, number)
                self._keys_in[extended[known]] += size
            self._set_of.update(zip(once, map(extended.__getitem__, before), strict=True))
            sizes.pop(0, None)
            for known, size in sizes.items():
                self._keys_in[known] -= size
                if not self._keys_in[known]:
                    del self._keys_in[known], self._sets[known]

    def _extended(self, known: int, number: int) -> int:
        """A set with one number more, or the same set if it has that number."""
        numbers = self._sets[known]
        if numbers[-1:] == (number,):
            return known
        self._next_set += 1
        self._sets[self._next_set], self._keys_in[self._next_set] = (*numbers, number), 0
        return self._next_set

    def _later(self, keys: Iterable[bytes]) -> list[_Numbers]:
        while True:
            with contextlib.suppress(KeyError):  # `add` has just moved a key to another set
                return [self._sets[self._set_of.get(key, 0)] for key in keys]

    def find(self, keys: Sequence[bytes]) -> list[_Numbers] | None:
        """The columns that contain each key's row, in ascending order; None if no key has any."""
        if self._waiting:
            self._looks += 1  # about: other threads look too
            if len(self._waiting) > _FEW or self._looks > _LOOKS:
                self.settle()
        waiting = tuple(self._waiting)  # before the rest is read: some may be settled meanwhile
        found = self._settled(keys)
        for number, own in waiting:
            if own == keys:
                which = [True] * len(keys)
            else:
                held = deadline.distinct(own) if len(keys) > _FEW else own
                which = [key in held for key in keys]
            if any(which):
                found = [
                    (*numbers, number) if has and number not in numbers else numbers
                    for numbers, has in zip(found or [()] * len(keys), which, strict=True)
                ]
        return found

    def _settled(self, keys: Sequence[bytes]) -> list[_Numbers] | None:
        """As `find`, without the columns that wait."""
        none = all(map(self._set_of.keys().isdisjoint, deadline.portions(keys)))
        found = None if none else self._later(keys)
        if not len(self._numbers) or keys is self._absent or not self._may_start_with(keys):
            return found
        wanted = _halves(b"".join(keys))
        start = self._halves[0].searchsorted(wanted[0])
        if not (self._halves[0].take(start, mode="clip") == wanted[0]).any():
            if isinstance(keys, tuple) and len(keys) <= _MANY:
                self._absent = keys
            return found
        count = self._halves[0].searchsorted(wanted[0], side="right") - start
        rows = np.repeat(np.arange(len(keys)), count)
        at = np.arange(len(rows)) + np.repeat(start - (np.cumsum(count) - count), count)
        same = self._halves[1, at] == wanted[1, rows]
        first: list[_Numbers] = [()] * len(keys)
        numbers = self._numbers[at[same]].tolist()
        for row, number in zip(rows[same].tolist(), numbers, strict=True):
            first[row] += (number,)
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
        """A copy, which takes little time, to be written."""
        self.settle()
        result = copy.copy(self)
        result._set_of, result._sets = self._set_of.copy(), self._sets.copy()
        result._keys_in, result._waiting = self._keys_in.copy(), []
        return result

    def written(self) -> tuple[IntArray, _Halves]:
        """A column number and the halves of a key for each row, in the order of the first halves:
        another index can start with them."""
        later = self._later(self._set_of)
        numbers = [self._numbers, np.array([*itertools.chain(*later)], np.int64)]
        keys = b"".join(key * len(own) for key, own in zip(self._set_of, later, strict=True))
        halves = np.concatenate([self._halves, _halves(keys)], axis=1)
        order = np.argsort(halves[0], kind="stable")
        return np.concatenate(numbers)[order], halves.take(order, axis=1)


def _halves(keys: bytes) -> _Halves:
    """The first halves of the concatenated keys, and the second halves."""
    return np.ascontiguousarray(np.frombuffer(keys, np.uint64).reshape(-1, 2).T)
