"""One connection to the catalog's PostgreSQL. Messages that are forwarded are not decoded.

It blocks, at most until the statement's deadline, and is used by one thread at a time.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import signal
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Final, NamedTuple, TypeVar

from tallyveil import deadline
from tallyveil.catalog.catalog_messages import INT32, close, parse, simple, text
from tallyveil.errors import TallyveilError

__all__ = [
    "GRACE",
    "LOOK",
    "CatalogError",
    "CatalogLink",
    "Failed",
    "LinkReply",
    "error",
    "fields",
    "run",
    "unavailable",
]

_CANCEL: Final = 1234 << 16 | 5678
_VERSION: Final = 3 << 16

_ROW: Final = ord("D")
_ERROR: Final = ord("E")

CONNECT: Final = 5.0
GRACE: Final = 2.0
"""Seconds that connecting may take, and that a cancelled statement may take to end."""

LOOK: Final = 0.05
"""Seconds between two checks of the deadline."""

MOST: Final = 1 << 24
"""The most bytes of one answer."""

_MOST_KEPT: Final = 32
"""The most statements that stay prepared on a connection."""

_PORTION: Final = 1 << 17

_T = TypeVar("_T")


class CatalogError(TallyveilError):
    """An error that the catalog's PostgreSQL reported, with its own text and SQLSTATE."""


class Failed(Exception):
    """The connection is lost or unusable."""


class LinkReply(NamedTuple):
    """One message: its kind and its body. For rows, ``body`` holds ``rows`` whole messages."""

    kind: str
    body: bytes
    rows: int = 1


@cache
def _error_of(sqlstate: str) -> type[CatalogError]:
    return type("CatalogError", (CatalogError,), {"sqlstate": sqlstate})


def unavailable(why: str) -> CatalogError:
    return _error_of("58000")(
        f"the catalog is not available: {why}", hint="Counts are still answered."
    )


def fields(body: bytes) -> dict[str, str]:
    """The fields of an ErrorResponse or NoticeResponse, by their letters."""
    parts = (part.decode("utf-8", "replace") for part in body.split(b"\0") if part)
    return {part[0]: part[1:] for part in parts}


def error(body: bytes) -> CatalogError:
    """The error of an ErrorResponse."""
    found = fields(body)
    position = found.get("P", "")
    return _error_of(found.get("C", "XX000"))(
        found.get("M", "the catalog failed"),
        detail=found.get("D"),
        hint=found.get("H"),
        position=int(position) if position.isdigit() else None,
    )


class CatalogLink:
    """A connection logged in as ``role``, with ``settings``. Raises what `ask` raises."""

    def __init__(
        self, address: str, role: str, database: str, settings: Sequence[tuple[str, str]] = ()
    ) -> None:
        self._address = address
        self._buffer = bytearray()
        self._key = b""
        self._kept: OrderedDict[tuple[str, tuple[int, ...]], str] = OrderedDict()
        self._prepared_count = 0
        self._asking = True
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(LOOK)
        given = (("user", role), ("database", database), *settings)
        words = b"".join(text(name) + text(value) for name, value in given)
        body = INT32.pack(_VERSION) + words + b"\0"
        with contextlib.ExitStack() as refused:
            refused.callback(self.close)
            try:
                self._socket.connect(address)
            except OSError as failure:
                raise Failed(str(failure)) from None
            for reply in self.ask(INT32.pack(len(body) + 4) + body, CONNECT):
                self._handle_greeting(reply)
            refused.pop_all()

    def keep(self, sql: str, oids: Sequence[int]) -> tuple[str, bytes]:
        """The name of the statement, which stays prepared on this connection, and the messages to
        send before using it, if any."""
        key = sql, tuple(oids)
        name = self._kept.get(key)
        if name is not None:
            self._kept.move_to_end(key)
            return name, b""
        _, old = self._kept.popitem(last=False) if len(self._kept) >= _MOST_KEPT else (None, None)
        self._prepared_count += 1
        name = self._kept[key] = f"\1{self._prepared_count}"
        room = b"" if old is None else close(old)
        return name, room + parse(name, sql, oids)

    @property
    def pid(self) -> int:
        """The id of the PostgreSQL process that serves this connection."""
        return int.from_bytes(self._key[:4])

    @property
    def held(self) -> int:
        """Bytes of private memory of that process; 0 if the system does not report them."""
        with contextlib.suppress(OSError), open(f"/proc/{self.pid}/statm", "rb") as file:
            _, resident, shared, *_ = map(int, file.read().split())
            return (resident - shared) * mmap.PAGESIZE
        return 0

    def _handle_greeting(self, reply: LinkReply) -> None:
        if reply.kind == "K":
            self._key = reply.body
        elif reply.kind == "E":
            refused = error(reply.body)
            if refused.sqlstate.startswith("57P"):  # it is starting, recovering or shutting down
                raise Failed(refused.message)
            raise refused
        elif reply.kind == "R" and reply.body != bytes(4):
            raise Failed("it requires a password")

    def ask(self, messages: bytes, seconds: float = math.inf) -> Iterator[LinkReply]:
        """Send messages, and yield the replies up to ReadyForQuery, which is omitted.

        Raises what `deadline.check` raises, CatalogError if the answer is too large, and Failed if
        the connection is lost or ``seconds`` have passed. After an error, or if the iterator is not
        exhausted, the caller must close the connection.
        """
        until = time.monotonic() + seconds
        received = 0
        self._asking = True
        rest = memoryview(messages)
        while rest:
            rest = rest[self._retry(partial(self._socket.send, rest), until) :]
        while True:
            yield from self._complete_messages()
            if self._ready():
                return
            data = self._retry(partial(self._socket.recv, _PORTION), until)
            if not data:
                raise Failed("it closed the connection")
            self._buffer += data
            received += len(data)
            if received > MOST:
                raise _error_of("54000")(
                    "the catalog's answer is too large",
                    detail=f"At most {MOST} bytes are accepted.",
                    hint="Ask for fewer rows or columns.",
                )

    def _retry(self, step: Callable[[], _T], until: float) -> _T:
        """Repeat ``step`` until it does not time out, and return its result."""
        while True:
            deadline.check()
            if time.monotonic() > until:
                raise Failed("it does not answer")
            try:
                return step()
            except TimeoutError:
                continue
            except OSError as failure:
                raise Failed(str(failure)) from None

    def _ready(self) -> bool:
        if self._buffer[:1] != b"Z" or len(self._buffer) < 6:
            return False
        del self._buffer[:6]
        self._asking = False
        return True

    def _complete_messages(self) -> Iterator[LinkReply]:
        """Yield the complete messages received; consecutive rows are yielded together."""
        buffer, size = self._buffer, len(self._buffer)
        at, rows, count = 0, 0, 0
        while at + 5 <= size and buffer[at] != 90:  # Z
            end = at + 1 + INT32.unpack_from(buffer, at + 1)[0]
            if end > size:
                break
            if buffer[at] == _ROW:
                rows, count = (rows, count + 1) if count else (at, 1)
            else:
                if count:
                    yield LinkReply("D", bytes(buffer[rows:at]), count)
                    count = 0
                yield LinkReply(chr(buffer[at]), bytes(buffer[at + 5 : end]))
            at = end
        if count:
            yield LinkReply("D", bytes(buffer[rows:at]), count)
        del buffer[:at]

    def close(self, closed: Callable[[], object] = lambda: None) -> None:
        """End the connection and any running statement, then call ``closed``. Does not wait: if a
        statement is running, a thread does this."""
        if self._asking and self._key:
            threading.Thread(target=self._end, args=(closed,), daemon=True).start()
        else:
            self._socket.close()
            closed()

    def _end(self, closed: Callable[[], object]) -> None:
        self._cancel()
        if not self._disconnect():
            # Some functions ignore cancels for hours. Killing the process restarts PostgreSQL, so
            # other analysts' statements are sent again.
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
        self._socket.close()
        closed()

    def _cancel(self) -> None:
        """Request that PostgreSQL cancel the running statement."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as other:
            other.settimeout(GRACE)
            other.connect(self._address)
            other.sendall(INT32.pack(16) + INT32.pack(_CANCEL) + self._key)
            other.recv(1)

    def _disconnect(self) -> bool:
        """Shut down our side. Returns whether the process closes the connection in time, as it does
        once it notices that."""
        until = time.monotonic() + GRACE
        try:
            self._socket.shutdown(socket.SHUT_WR)
            while (left := until - time.monotonic()) > 0:
                self._socket.settimeout(left)
                if not self._socket.recv(_PORTION):
                    return True
        except TimeoutError:
            return False
        except OSError:  # the process has ended already
            return True
        return False


def run(link: CatalogLink, sql: str, seconds: float) -> None:
    """Execute statements of our own, ignoring their rows. Raises CatalogError, Failed."""
    first: CatalogError | None = None
    for reply in link.ask(simple(sql), seconds):
        if reply.kind == "E" and first is None:
            first = error(reply.body)
    if first is not None:
        raise first
