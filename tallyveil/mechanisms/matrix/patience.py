"""How long somebody waits for a program's solution.

A solver cannot be interrupted, but it lets other threads run. So it runs in a thread of its own,
and whoever waits looks up now and then: to be cancelled, or to give up. A thread that nobody waits
for any more ends with the solver's own time limit. Few programs are solved at a time, so that
those who ask for many take no more than a share of the machine.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, TypeVar

__all__ = ["allowed", "aside", "look_up", "patience"]

T = TypeVar("T")

# Between two looks.
_PAUSE: Final = 0.02
_slots: Final = threading.BoundedSemaphore(max(1, (os.cpu_count() or 1) // 2))


@dataclass(frozen=True)
class _Patience:
    look: Callable[[], None]
    deadline: float


def _nothing() -> None:
    pass


_ENDLESS: Final = _Patience(_nothing, math.inf)
_patience: Final[ContextVar[_Patience]] = ContextVar("patience", default=_ENDLESS)


@contextmanager
def patience(look: Callable[[], None], seconds: float) -> Iterator[None]:
    """Inside, this thread waits for programs no longer than so many seconds, and calls ``look``
    meanwhile, which raises to stop. Within another one it replaces that.
    """
    token = _patience.set(_Patience(look, time.monotonic() + seconds))
    try:
        yield
    finally:
        _patience.reset(token)


def look_up() -> None:
    """Raises what the one who waits raises to stop."""
    _patience.get().look()


def allowed(seconds: float) -> float:
    """So many seconds, or what is left of this thread's patience, if that is less."""
    return min(seconds, _patience.get().deadline - time.monotonic())


def aside(work: Callable[[], T]) -> T:
    """``work()``, in a thread of its own when its turn comes.

    Raises what it raises, or what the one who waits raises to stop.
    """
    while not _slots.acquire(timeout=_PAUSE):
        look_up()
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001  # raised below, where somebody waits for it
            result.set_exception(error)
        finally:
            _slots.release()

    try:
        threading.Thread(target=run, name="tallyveil-solver", daemon=True).start()
    except RuntimeError:
        _slots.release()
        raise
    while not wait([result], timeout=_PAUSE).done:
        look_up()
    return result.result()
