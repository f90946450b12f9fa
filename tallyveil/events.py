"""Events for the log: a name, and fields that are safe for anybody to read.

No field depends on a record. Fields are users, tables, costs, SQLSTATEs, names of exceptions.
The field ``statement`` is SQL as an analyst wrote it; `cli.serving.log` omits it unless it is
configured to log it. Error messages are never fields, since they may quote the statement.
"""

from __future__ import annotations

import logging
from typing import Final

__all__ = ["LOGGER", "report"]

LOGGER: Final = logging.getLogger("tallyveil")


def report(event: str, *, level: int = logging.INFO, **fields: object) -> None:
    """Log an event, if its level is enabled. Never raises and never waits for a reader."""
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, event, extra={"fields": fields})
