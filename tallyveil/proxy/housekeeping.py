"""Between statements, collect garbage and return memory to the operating system.

A full collection visits all objects and stops every thread meanwhile. Python by itself would make
one within a statement, whoever's that is. So this module makes them instead, each before there is
much to visit: in steps while heavy statements run, and once when they have ended. What each leaves
is set aside, as is what existed when the server began to listen: most of it lives long, such as the
history of each table. Collections visit it again only when twice as much is set aside as was in use
the last time, since some of it may have become garbage.

Then it asks the C library, which keeps freed memory for later, to return it. At its start the
thread imports modules that some statements need and most shell commands do not.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from tallyveil.blas import one_thread

__all__ = ["Housekeeping", "beside_long", "short_pauses"]

DELAY: Final = 0.3
"""Seconds to wait after the last heavy statement, since another may follow at once."""

EVERY: Final = 60.0
"""Seconds after which it runs even if there was no heavy statement, or heavy statements go on."""

STEP: Final = 4
GROWN: Final = 20_000
"""The collections of the middle generation, each after 7,000 new objects, after which the oldest is
measured while heavy statements run; and the new objects there after which they are collected. Where
there are fewer, statements leave little behind."""

ASIDE: Final = 1_000_000
"""The objects set aside before any are visited again; the next time it is twice the objects that
were in use then. A million take half a second."""

SWITCH: Final = 0.002
SWITCH_BESIDE_LONG: Final = 0.0001
"""Seconds that a thread computes while another waits to run. A shorter interval slows down
statements that are all short; a longer one delays each step of a short statement beside a long
one."""

LATER: Final = ("scipy.optimize",)
"""Modules that would otherwise be imported within a statement, in a fifth of a second."""

KEPT: Final = {-1: 16 << 20, -2: 1 << 20, -3: 8 << 20}
"""Bytes by parameter of glibc's mallopt: M_TRIM_THRESHOLD, M_TOP_PAD and M_MMAP_THRESHOLD. By
default it returns arrays of 128 KiB at once. Statements allocate several of them one after the
other, and to get each page anew takes longer than to compute on it."""

_NEVER: Final = 1 << 30


@contextmanager
def short_pauses() -> Iterator[None]:
    """Inside, no thread of this process keeps the others waiting for long.

    Collections ignore the objects that exist already, since they stay until the end.
    Only `Housekeeping` collects objects of the oldest generation. Linear algebra runs in the
    statement's own thread.
    """
    thresholds, switch = gc.get_threshold(), sys.getswitchinterval()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*thresholds[:2], _NEVER)
    sys.setswitchinterval(SWITCH)
    try:
        with one_thread():
            yield
    finally:
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(switch)
        gc.unfreeze()  # otherwise these objects would still exist when the interpreter ends


def beside_long(long: bool) -> None:
    """Set how long a thread may compute, by whether a long statement runs from now on."""
    sys.setswitchinterval(SWITCH_BESIDE_LONG if long else SWITCH)


class Housekeeping:
    """A thread that tidies up after heavy statements. ``busy()`` returns whether one is running."""

    def __init__(self, busy: Callable[[], bool]) -> None:
        self._busy = busy
        self._due = threading.Event()
        self._closed = threading.Event()
        self._aside, self._most_aside = 0, ASIDE
        self._thread = threading.Thread(target=self._run, name="tallyveil-housekeeping")
        self._thread.daemon = True

    def start(self) -> None:
        keep_freed()
        self._thread.start()

    def due(self) -> None:
        """Request a run: a heavy statement has ended, or much memory was freed."""
        self._due.set()

    def close(self) -> None:
        self._closed.set()
        self._due.set()

    def _run(self) -> None:
        for module in LATER:
            importlib.import_module(module)
        gc.freeze()  # modules stay as long as what existed at the start
        while not self._closed.is_set():
            self._due.wait(EVERY)
            self._due.clear()
            waited = 0.0
            while not self._closed.wait(DELAY) and self._active() and waited < EVERY:
                waited += DELAY
                if gc.get_count()[2] >= STEP and _old() >= GROWN:
                    self._collect()
            if self._closed.is_set():
                return
            if gc.get_count()[2]:
                self._collect()
            give_back()

    def _collect(self) -> None:
        if self._aside >= self._most_aside:
            self._aside = gc.get_freeze_count()  # some were freed with the last reference to them
        every = self._aside >= self._most_aside
        if every:
            gc.unfreeze()
        gc.collect()
        left = _old()
        gc.freeze()
        self._aside = left if every else self._aside + left
        if every:
            self._most_aside = max(ASIDE, 2 * left)

    def _active(self) -> bool:
        """Whether a heavy statement is running, or has ended since the last call."""
        busy, ended = self._busy(), self._due.is_set()
        self._due.clear()
        return busy or ended


def _old() -> int:
    """The number of objects in the oldest generation, without those set aside."""
    return len(gc.get_objects(generation=2))


def give_back() -> None:
    """Return free memory to the operating system."""
    pa.default_memory_pool().release_unused()
    if _trim is not None:
        _trim(0)


def keep_freed() -> None:
    """Have the C library keep what is freed (`KEPT`) until `give_back`."""
    if _mallopt is not None:
        for parameter, number in KEPT.items():
            _mallopt(parameter, number)


def _found(name: str) -> Callable[..., int] | None:
    """A function of the C library, or None if it has none of this name (only glibc does)."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
    return function


_trim: Final = _found("malloc_trim")
_mallopt: Final = _found("mallopt")
