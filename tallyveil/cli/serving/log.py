"""The server's log on standard error: one line per event, as text or as a JSON object.

A separate thread writes it. If standard error is not read, events are dropped and counted; the
server never waits for the log.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import logging
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeAlias

from tallyveil.events import LOGGER

__all__ = ["Format", "Level", "logging_to_stderr"]

Format = Literal["text", "json"]
Level = Literal["debug", "info", "warning", "error"]

_Fields: TypeAlias = dict[str, Any]

ROOM: Final = 10_000
"""The largest number of events waiting to be written."""

PATIENCE: Final = 1.0
"""Seconds to wait for the last events to be written."""


@contextmanager
def logging_to_stderr(
    form: Format, level: Level, *, statements: bool = False, worker: int | None = None
) -> Iterator[None]:
    """While inside, write events of this level and above to standard error.

    ``statements``: include the SQL that an event is about. ``worker``: include this number of the
    serving process.
    """
    common = {} if worker is None else {"worker": worker}
    writer = _Writer(_json if form == "json" else _text, statements, common)
    root, before = logging.getLogger(), (LOGGER.level, logging.raiseExceptions)
    root.addHandler(writer)
    LOGGER.setLevel(level.upper())
    logging.raiseExceptions = False
    try:
        yield
    finally:
        root.removeHandler(writer)
        level_before, logging.raiseExceptions = before
        LOGGER.setLevel(level_before)
        writer.close()


class _Writer(logging.Handler):
    def __init__(self, form: Callable[[_Fields], str], statements: bool, common: _Fields) -> None:
        super().__init__()
        self._form = form
        self._statements = statements
        self._common = common
        self._events: queue.Queue[_Fields | None] = queue.Queue(ROOM)
        self._lost = 0
        self._thread = threading.Thread(target=self._write, name="tallyveil-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        fields = {**_fields(record), **self._common}
        if not self._statements:
            fields.pop("statement", None)
        try:
            self._events.put_nowait(fields)
        except queue.Full:
            self._lost += 1

    def _write(self) -> None:
        while (fields := self._events.get()) is not None:
            lost, self._lost = self._lost, 0
            if lost:
                self._print({**_about("events lost", "WARNING", count=lost), **self._common})
            self._print(fields)

    def _print(self, fields: _Fields) -> None:
        with contextlib.suppress(OSError, ValueError):  # standard error is closed
            sys.stderr.write(self._form(fields) + "\n")
            sys.stderr.flush()

    def close(self) -> None:
        try:
            self._events.put(None, timeout=PATIENCE)
        except queue.Full:
            return
        self._thread.join(PATIENCE)
        super().close()


def _fields(record: logging.LogRecord) -> _Fields:
    """Return a record's fields. Messages of other packages may be confidential, so only their
    logger's name and the type of the error are logged."""
    if record.name.partition(".")[0] == LOGGER.name:
        return _about(record.getMessage(), record.levelname, **getattr(record, "fields", {}))
    kind = record.exc_info[0] if record.exc_info else None
    error = {} if kind is None else {"error": kind.__name__}
    return _about(f"message of {record.name}", record.levelname, **error)


def _about(event: str, level: str, **fields: Any) -> _Fields:
    now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
    return {"time": now, "level": level.lower(), "event": event, **fields}


def _json(fields: _Fields) -> str:
    return json.dumps(fields, default=str)


def _text(fields: _Fields) -> str:
    """Return ``time LEVEL event name=value …``; values with special characters are JSON strings."""
    rest = dict(fields)
    time, level, event = (str(rest.pop(name)) for name in ("time", "level", "event"))
    pairs = [f"{name}={_plain(value)}" for name, value in rest.items()]
    return " ".join([time, level.upper(), _printable(event), *pairs])


def _plain(value: Any) -> str:
    text = str(value)
    if text and all(c.isalnum() or c in "._-:/@+%" for c in text):
        return text
    return json.dumps(text)


def _printable(text: str) -> str:
    return text if text.isprintable() else json.dumps(text)
