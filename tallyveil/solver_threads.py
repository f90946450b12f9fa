"""Programs are solved, and large matrices decomposed, in threads of their own.

A solver cannot be interrupted, but it lets other threads run. So whoever waits for one checks the
deadline of the statement meanwhile. A thread that nobody waits for any more ends with the solver's
own time limit. Few programs are solved at a time, so that those who ask for many take no more than
a share of the machine.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Final, TypeVar

from tallyveil import deadline

__all__ = ["aside"]

T = TypeVar("T")

# Between two looks at the deadline.
_PAUSE: Final = 0.02
_slots: Final = threading.BoundedSemaphore(max(1, (os.cpu_count() or 1) // 2))


def aside(work: Callable[[], T]) -> T:
    """``work()``, in a thread of its own when its turn comes.

    Raises what it raises, and what `deadline.check` raises.
    """
    while not _slots.acquire(timeout=_PAUSE):
        deadline.check()
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
        deadline.check()
    return result.result()
