"""Between statements, collect garbage and return memory to the operating system.

A full collection visits all objects and stops every thread meanwhile. Python by itself would make
one within a statement, whoever's that is. So this module makes them instead, each before there is
much to visit: in steps while statements last, and once when heavy ones have ended. What each
leaves is set aside, as is what existed when the server began to listen: most of it lives long, such
as the history of each table. Collections visit it again only when twice as much is set aside as was
in use the last time, since some of it may have become garbage.

Then it asks the C library, which keeps freed memory for later, to return it. At its start the
thread imports modules that some statements need and most shell commands do not.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import math
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

LOOK: Final = 0.02
"""Seconds between two looks while statements last. One of many sums makes 300,000 objects in 0.3
seconds, to visit which would take 50 to 150 ms (`bench.fairness`)."""

EVERY: Final = 60.0
"""Seconds after which it runs even if there was no heavy statement, or heavy statements go on."""

STEP: Final = 3
"""The collections of the middle generation after which the oldest is collected while statements
last. Each leaves at most 7,000 objects more there, mostly fewer than 3,000. They cannot be counted:
whoever lists them holds tuples that other threads are about to fill, which then fail with a
SystemError."""

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
    """A thread that collects garbage beside statements that last and tidies up after heavy ones.
    ``busy()`` returns whether one of both is running."""

    def __init__(self, busy: Callable[[], bool]) -> None:
        self._busy = busy
        self._due = True
        self._woken = threading.Event()
        self._closed = threading.Event()
        self._aside, self._most_aside = 0, ASIDE
        self._thread = threading.Thread(target=self._run, name="tallyveil-housekeeping")
        self._thread.daemon = True

    def start(self) -> None:
        keep_freed()
        self._thread.start()

    def watch(self) -> None:
        """A statement has lasted for some time, and may make many objects."""
        self._woken.set()

    def due(self) -> None:
        """Request to tidy up: a heavy statement has ended, or much memory was freed."""
        self._due = True
        self._woken.set()

    def close(self) -> None:
        self._closed.set()
        self._woken.set()

    def _run(self) -> None:
        for module in LATER:
            importlib.import_module(module)
        gc.freeze()  # modules stay as long as what existed at the start
        while not self._closed.is_set():
            timely = self._woken.wait(EVERY)
            self._woken.clear()
            waited = idle = 0.0
            while idle < DELAY and waited < EVERY and not self._closed.wait(LOOK):
                idle = 0.0 if self._active() else idle + LOOK
                waited += LOOK
                if gc.get_count()[2] >= STEP:
                    self._collect()
            if self._closed.is_set():
                return
            if self._due or not timely or waited >= EVERY:
                self._due = False
                if gc.get_count()[2]:
                    self._collect()
                give_back()

    def _collect(self) -> None:
        if self._aside >= self._most_aside:
            self._aside = gc.get_freeze_count()  # the sum so far is of upper bounds
        every = self._aside >= self._most_aside
        if every:
            gc.unfreeze()
        new = gc.get_count()[2] * math.prod(gc.get_threshold()[:2])
        gc.collect()
        gc.freeze()
        self._aside = gc.get_freeze_count() if every else self._aside + new
        if every:
            self._most_aside = max(ASIDE, 2 * self._aside)

    def _active(self) -> bool:
        """Whether such a statement is running, or has begun or ended since the last call."""
        busy, woken = self._busy(), self._woken.is_set()
        self._woken.clear()
        return busy or woken


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
