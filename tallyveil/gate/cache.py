"""A bounded cache."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from tallyveil.locks import Rank, ranked_lock

__all__ = ["Cache"]

T = TypeVar("T")


class Cache(Generic[T]):
    """A cache of public things, least recently used out first. Threads may share it.

    It keeps at most ``size`` entries and ``room`` bytes, as ``weigh`` counts those; what takes
    more than an eighth of the room by itself is not kept.
    """

    def __init__(self, size: int, room: int, weigh: Callable[[Hashable, T], int]) -> None:
        self._size = size
        self._room = room
        self._weigh = weigh
        self._entries: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._held = 0
        self._lock = ranked_lock(Rank.LEAF)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        value = self.find(key)
        if value is None:
            value = make()
            self.put(key, value)
        return value

    def find(self, key: Hashable) -> T | None:
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: Hashable, value: T) -> None:
        """Keep ``value``, in the place of what is there."""
        weight = self._weigh(key, value)
        with self._lock:
            if key in self._entries:
                self._held -= self._entries.pop(key)[1]
            if weight > self._room // 8:
                return
            self._entries[key] = (value, weight)
            self._held += weight
            while len(self._entries) > self._size or self._held > self._room:
                _, (_, freed) = self._entries.popitem(last=False)
                self._held -= freed

    def held(self) -> tuple[Hashable, ...]:
        with self._lock:
            return tuple(self._entries)
