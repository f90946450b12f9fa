"""A server publishes at the times that the policy declares, whether anything changed or not."""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tallyveil.errors import TallyveilError
from tallyveil.events import report
from tallyveil.gate import Gate

__all__ = ["publishing_on_time"]

_PAUSE: Final = 20.0  # seconds: what a missed time is late at most


@contextmanager
def publishing_on_time(gate: Gate) -> Iterator[None]:
    """Publish what is due, now and while the block runs, on a thread of its own."""
    if all(table.data.publish is None for table in gate.versions.tables.values()):
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_publish, args=(gate, ended), name="tallyveil-publishing")
    thread.daemon = True  # to count a large day may take longer than a server takes to end
    thread.start()
    try:
        yield
    finally:
        ended.set()


def _publish(gate: Gate, ended: threading.Event) -> None:
    while not ended.is_set():
        try:
            gate.publish_due(dt.datetime.now(dt.UTC))
        except (TallyveilError, OSError) as error:
            report("not published", level=logging.ERROR, reason=str(error))
        ended.wait(_PAUSE)
