"""What is computed once and kept: in a bounded cache, with an object, or as its property."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import datetime, time
from decimal import Decimal
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from tallyveil.locks import Rank, ranked_lock

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:  # noqa: N801  # as in functools
        """As `functools.cached_property` from Python 3.12 on. Two threads may compute the same
        value; neither waits for the other.

        In 3.11 one lock covers a property of all objects of a class while it is computed. A
        statement that waits for its turn there would keep all others from theirs.
        """

        def __init__(self, function):
            self._function = function
            self.__doc__ = function.__doc__

        def __set_name__(self, owner, name):
            self._name = name

        def __get__(self, thing, owner=None):
            if thing is None:
                return self
            value = thing.__dict__[self._name] = self._function(thing)
            return value


__all__ = ["OBJECT", "Cache", "Recent", "cached_property", "exact_key", "kept_with", "key_bytes"]

OBJECT = 4096
"""What one object that the garbage collector visits weighs in a cache, in bytes. It takes less
memory, but a visit to 100,000 of them stops all threads for some hundredths of a second."""

T = TypeVar("T")
Thing = TypeVar("Thing")
P = ParamSpec("P")

# Values of these types can be equal in Python though they print differently: 0.0 and -0.0, 1 and
# 1.00, the same moment in two time zones. And a NaN equals nothing.
_WRITTEN: tuple[type, ...] = (float, Decimal, datetime, time)


def exact_key(values: Iterable[Any]) -> Hashable:
    """A key that is equal only for the same values of the same types in the same order."""
    return tuple(
        (
            type(value).__name__,
            exact_key(value)
            if isinstance(value, list | tuple)
            else repr(value)
            if isinstance(value, _WRITTEN)
            else value,
        )
        for value in values
    )


def key_bytes(key: Hashable) -> int:
    """The bytes of the values in a key, such as texts and parameters. Tuples count nothing."""
    if isinstance(key, tuple):
        return sum(map(key_bytes, key))
    return sys.getsizeof(key)


def kept_with(function: Callable[Concatenate[Thing, P], T]) -> Callable[Concatenate[Thing, P], T]:
    """Cache the function's results for as long as its first argument lives, by its other arguments.

    Threads may share it. Two threads may compute the same result; neither waits for the other.
    """
    results: WeakKeyDictionary[Thing, dict[Hashable, T]] = WeakKeyDictionary()

    @wraps(function)
    def cached(thing: Thing, /, *rest: P.args, **options: P.kwargs) -> T:
        own, key = results.setdefault(thing, {}), (*rest, *options.items())
        if key not in own:
            own[key] = function(thing, *rest, **options)
        return own[key]

    return cached


class Cache(Generic[T]):
    """A cache of public values that drops the least recently used first. Threads may share it.

    It keeps at most ``size`` entries and ``room`` bytes; ``weigh`` returns the bytes of one entry.
    An entry of more than an eighth of ``room``, but not more than ``room``, is kept beside these,
    and only the last such entry. So even a large value that is made for a Describe is still there
    for the Execute.
    """

    def __init__(self, size: int, room: int, weigh: Callable[[Hashable, T], int]) -> None:
        self._size = size
        self._room = room
        self._weigh = weigh
        self._entries: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._held = 0
        self._large: tuple[Hashable, T] | None = None
        self._lock = ranked_lock(Rank.LEAF)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The cached value, or ``make()``, which is then cached."""
        value = self.find(key)
        if value is None:
            value = make()
            self.put(key, value)
        return value

    def find(self, key: Hashable) -> T | None:
        """The cached value, or None."""
        with self._lock:
            if self._large is not None and self._large[0] == key:
                return self._large[1]
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def find_all(self, keys: Sequence[Hashable]) -> list[T | None]:
        """`find` for many keys under one lock. Does not find a large entry kept beside the rest."""
        with self._lock:
            found = [self._entries.get(key) for key in keys]
            for key, entry in zip(keys, found, strict=True):
                if entry is not None:
                    self._entries.move_to_end(key)
        return [None if entry is None else entry[0] for entry in found]

    def put(self, key: Hashable, value: T) -> None:
        """Cache ``value``, replacing any value of this key."""
        weight = self._weigh(key, value)
        with self._lock:
            if key in self._entries:
                self._held -= self._entries.pop(key)[1]
            if self._large is not None and self._large[0] == key:
                self._large = None
            if weight > self._room // 8:
                if weight <= self._room:
                    self._large = (key, value)
                return
            self._entries[key] = (value, weight)
            self._held += weight
            while len(self._entries) > self._size or self._held > self._room:
                _, (_, freed) = self._entries.popitem(last=False)
                self._held -= freed

    def held(self) -> tuple[Hashable, ...]:
        """The cached keys, least recently used first, without a large entry kept beside them."""
        with self._lock:
            return tuple(self._entries)


class Recent(Generic[Thing, T]):
    """The latest ``size`` results for each object, by key, for as long as the object lives."""

    def __init__(self, size: int) -> None:
        self._kept: WeakKeyDictionary[Thing, Cache[T]] = WeakKeyDictionary()
        self._size = size

    def get(self, thing: Thing, key: Hashable, make: Callable[[], T]) -> T:
        """The kept result, or ``make()``, which is then kept."""
        empty: Cache[T] = Cache(self._size, 8 * self._size, lambda *_: 1)
        return self._kept.setdefault(thing, empty).get(key, make)
