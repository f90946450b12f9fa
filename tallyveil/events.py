"""What happens, as events for a log: a name, and fields that anybody may read.

No field depends on a record: users, tables, costs, SQLSTATEs, the names of Python's exceptions.
The field ``statement`` is SQL as an analyst wrote it, which `cli.serving.log` leaves out unless it
is wanted. Messages of errors are no fields, since they may quote it.
"""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["LOGGER", "report"]

LOGGER: Final = logging.getLogger("tallyveil")


def report(event: str, *, level: int = logging.INFO, **fields: object) -> None:
    """Hand an event to the log, if anybody wants it. It never raises or waits for a reader."""
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, event, extra={"fields": fields})
