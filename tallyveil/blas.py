"""Linear algebra in one thread.

The threads of BLAS wait for the next product in a loop that keeps a core busy, which costs a
statement more than they save. A solve enters `one_thread`, as does a statement for all of its
solves, and a process that serves stays in it until it ends.

The libraries are looked up when this is imported, which takes some milliseconds, so that no
statement has to wait for it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import scipy.linalg  # noqa: F401  (brings a library of its own)
from threadpoolctl import ThreadpoolController

__all__ = ["one_thread"]

_LIBRARIES: Final = ThreadpoolController().select(user_api="blas").lib_controllers


class _Limit:
    """One thread while anyone is inside.

    The number of threads belongs to the process. So the first to enter sets it to 1, and the last
    to leave, perhaps in another thread, sets it to what the first found.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: list[int] = []

    def enter(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = [library.num_threads for library in _LIBRARIES]
                _set([1] * len(_LIBRARIES))
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                _set(self._before)


def _set(numbers: list[int]) -> None:
    for library, number in zip(_LIBRARIES, numbers, strict=True):
        # Otherwise threadpoolctl lets only the thread change the number that did so first.
        release = getattr(library, "clear_controlling_thread", None)
        if release is not None:
            release(force=True)
        library.set_num_threads(number)
        if release is not None:
            release(force=True)


_limit: Final = _Limit()


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, linear algebra runs in the thread that calls it, in the whole process."""
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()
