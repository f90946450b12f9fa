"""What a server does between statements: collect garbage, and give memory back to the system.

A collection looks at all objects and stops every thread meanwhile, a tenth of a second beside a
large statement. So those of all generations are taken out of Python's hands and made once heavy
statements have ended. Then the C library, which keeps what was freed for later, is asked to give
it back. First of all it imports what some statements need, and shell commands mostly do not.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

__all__ = ["Housekeeping", "beside_heavy", "short_pauses"]

DELAY: Final = 0.3
"""Seconds after the last heavy statement: another may follow at once."""

EVERY: Final = 60.0
"""Seconds after which it is done though there was no heavy statement, or they do not end; and from
one whole collection to the next, which takes as long as three statements."""

SWITCH: Final = 0.002
SWITCH_BESIDE_HEAVY: Final = 0.0001
"""Seconds a thread computes while another waits to go on. The shorter, the longer take statements
that all are short; beside a heavy one, each step of a short one waits so long."""

LATER: Final = ("scipy.optimize",)
"""Modules that are imported when they are first needed: a fifth of a second in a statement."""

_NEVER: Final = 1 << 30


@contextmanager
def short_pauses() -> Iterator[None]:
    """Inside, no thread of this process keeps the others waiting for long.

    What has been loaded so far stays to the end, and is not looked through for garbage again.
    Objects of the oldest generation are collected by `Housekeeping` alone.
    """
    thresholds, switch = gc.get_threshold(), sys.getswitchinterval()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*thresholds[:2], _NEVER)
    sys.setswitchinterval(SWITCH)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(switch)
        gc.unfreeze()  # else what it holds is still there when the interpreter ends


def beside_heavy(heavy: bool) -> None:
    """Whether a heavy statement is under way from now on."""
    sys.setswitchinterval(SWITCH_BESIDE_HEAVY if heavy else SWITCH)


class Housekeeping:
    """A thread that tidies up after heavy statements. ``busy`` says whether one is under way."""

    def __init__(self, busy: Callable[[], bool]) -> None:
        self._busy = busy
        self._due = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tallyveil-housekeeping")
        self._thread.daemon = True

    def start(self) -> None:
        self._thread.start()

    def due(self) -> None:
        """Something large was done, or let go of."""
        self._due.set()

    def close(self) -> None:
        self._closed.set()
        self._due.set()

    def _run(self) -> None:
        for module in LATER:
            importlib.import_module(module)
        next_collection = 0.0
        while not self._closed.is_set():
            self._due.wait(EVERY)
            self._due.clear()
            waited = 0.0
            while not self._closed.wait(DELAY) and self._under_way() and waited < EVERY:
                waited += DELAY
            if self._closed.is_set():
                return
            if time.monotonic() >= next_collection:
                gc.collect()
                next_collection = time.monotonic() + EVERY
            give_back()

    def _under_way(self) -> bool:
        """Whether a heavy statement is, or one has ended since this was asked last."""
        busy, ended = self._busy(), self._due.is_set()
        self._due.clear()
        return busy or ended


def give_back() -> None:
    """Memory that is free, to the system."""
    pa.default_memory_pool().release_unused()
    if _trim is not None:
        _trim(0)


def _found_trim() -> Callable[[int], int] | None:
    """The C library's, where it has one (glibc)."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return trim


_trim: Final = _found_trim()
