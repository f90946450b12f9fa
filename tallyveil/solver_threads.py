"""Solve linear programs and decompose large matrices in threads of their own.

A solver cannot be interrupted, but it lets other threads run. So the thread that waits for it keeps
checking the statement's deadline. If that thread stops waiting, the solver runs on until its own
limit of time or nodes. Few solvers run at a time, so that statements that need many take only a
share of the machine.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Final, TypeVar

from tallyveil import deadline

__all__ = ["in_solver_thread", "in_thread"]

T = TypeVar("T")

# Seconds between two checks of the deadline.
_PAUSE: Final = 0.02
_slots: Final = threading.BoundedSemaphore(max(1, (os.cpu_count() or 1) // 2))


def in_solver_thread(work: Callable[[], T]) -> T:
    """Return ``work()``, run in a thread of its own once one of the few is free.

    Raises what ``work`` raises, and what `deadline.check` raises.
    """
    while not _slots.acquire(timeout=_PAUSE):
        deadline.check()
    try:
        result = in_thread("tallyveil-solver", work, then=_slots.release)
    except RuntimeError:
        _slots.release()
        raise
    while not wait([result], timeout=_PAUSE).done:
        deadline.check()
    return result.result()


def in_thread(
    name: str, work: Callable[[], T], *, then: Callable[[], None] | None = None
) -> Future[T]:
    """The result of ``work()`` in a thread of its own, which does not keep the program alive.

    Raises RuntimeError where no thread can be started.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001  # raised in the waiting thread
            result.set_exception(error)
        finally:
            if then is not None:
                then()

    threading.Thread(target=run, name=name, daemon=True).start()
    return result
