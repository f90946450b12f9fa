"""Wait for what another process does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PATIENCE = 60.0


def until(done: Callable[[], bool]) -> None:
    """Return once it is so; a test that waits for longer has failed."""
    end = time.monotonic() + PATIENCE
    pause = threading.Event()
    while not done():
        assert time.monotonic() < end, "it takes too long"
        pause.wait(0.02)
