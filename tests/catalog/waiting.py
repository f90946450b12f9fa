"""Wait for what another process does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PATIENCE = 60.0

# It looks for no signal while it searches, which takes hours.
UNHEEDING = (
    "SELECT position('b' || repeat('a', 300000) IN repeat(left(amtype, 0) || 'a', 30000000))::text "
    "FROM pg_am"
)


def until(done: Callable[[], bool]) -> None:
    """Return once it is so; a test that waits for longer has failed."""
    end = time.monotonic() + PATIENCE
    pause = threading.Event()
    while not done():
        assert time.monotonic() < end, "it takes too long"
        pause.wait(0.02)
