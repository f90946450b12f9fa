"""Waiting for what another thread or process is about to do."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["until"]


def until(condition: Callable[[], object], seconds: int = 60) -> None:
    """Raises AssertionError where it is not so within so many seconds."""
    pause = threading.Event()
    for _ in range(100 * seconds):
        if condition():
            return
        pause.wait(0.01)
    raise AssertionError("waited in vain")
