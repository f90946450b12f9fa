"""One connection to the catalog's PostgreSQL, in its own messages: none is decoded that passes on.

It blocks until the statement's deadline is over, and belongs to one thread at a time.
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
from tallyveil.catalog.messages import INT32, close, parse, simple, text
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
"""Seconds a connection may take to be made, and a statement that is cancelled to end."""

LOOK: Final = 0.05
"""Seconds between two looks at the deadline."""

MOST: Final = 1 << 24
"""Bytes of one answer."""

_MOST_KEPT: Final = 32
"""Statements that stay prepared."""

_PORTION: Final = 1 << 17

_T = TypeVar("_T")


class CatalogError(TallyveilError):
    """What that PostgreSQL said of a statement, in its own words; the SQLSTATE is its own too."""


class Failed(Exception):
    """The connection is gone, or is of no use any more."""


class LinkReply(NamedTuple):
    """One message: its kind and what is in it; of rows, so many messages in one piece, whole."""

    kind: str
    body: bytes
    rows: int = 1


@cache
def _error_of(sqlstate: str) -> type[CatalogError]:
    return type("CatalogError", (CatalogError,), {"sqlstate": sqlstate})


def unavailable(why: str) -> CatalogError:
    return _error_of("58000")(
        f"the catalog is not available: {why}", hint="Counts are answered all the same."
    )


def fields(body: bytes) -> dict[str, str]:
    """Of an ErrorResponse or NoticeResponse, by their letters."""
    parts = (part.decode("utf-8", "replace") for part in body.split(b"\0") if part)
    return {part[0]: part[1:] for part in parts}


def error(body: bytes) -> CatalogError:
    said = fields(body)
    position = said.get("P", "")
    return _error_of(said.get("C", "XX000"))(
        said.get("M", "the catalog failed"),
        detail=said.get("D"),
        hint=said.get("H"),
        position=int(position) if position.isdigit() else None,
    )


class CatalogLink:
    """Logged in as ``role``, with ``settings``. Raises what `ask` raises."""

    def __init__(
        self, address: str, role: str, database: str, settings: Sequence[tuple[str, str]] = ()
    ) -> None:
        self._address = address
        self._buffer = bytearray()
        self._key = b""
        self._kept: OrderedDict[tuple[str, tuple[int, ...]], str] = OrderedDict()
        self._made = 0
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
                self._greeted(reply)
            refused.pop_all()

    def keep(self, sql: str, oids: Sequence[int]) -> tuple[str, bytes]:
        """The name of a statement that stays prepared here, and what is to be sent before it."""
        key = sql, tuple(oids)
        name = self._kept.get(key)
        if name is not None:
            self._kept.move_to_end(key)
            return name, b""
        _, old = self._kept.popitem(last=False) if len(self._kept) >= _MOST_KEPT else (None, None)
        self._made += 1
        name = self._kept[key] = f"\1{self._made}"
        room = b"" if old is None else close(old)
        return name, room + parse(name, sql, oids)

    @property
    def pid(self) -> int:
        """Of the process that serves this connection."""
        return int.from_bytes(self._key[:4])

    @property
    def held(self) -> int:
        """Bytes of memory that this process has for itself; 0 where the system does not tell."""
        with contextlib.suppress(OSError), open(f"/proc/{self.pid}/statm", "rb") as file:
            _, resident, shared, *_ = map(int, file.read().split())
            return (resident - shared) * mmap.PAGESIZE
        return 0

    def _greeted(self, reply: LinkReply) -> None:
        if reply.kind == "K":
            self._key = reply.body
        elif reply.kind == "E":
            refused = error(reply.body)
            if refused.sqlstate.startswith("57P"):  # it starts, recovers or ends
                raise Failed(refused.message)
            raise refused
        elif reply.kind == "R" and reply.body != bytes(4):
            raise Failed("it asks for a password")

    def ask(self, messages: bytes, seconds: float = math.inf) -> Iterator[LinkReply]:
        """Send, and yield what is replied, up to ReadyForQuery, which is left out.

        Raises what `deadline.check` raises, CatalogError where the answer is too large, and Failed,
        also after ``seconds``; then, and where this is not read to its end, the connection is to be
        closed.
        """
        until = time.monotonic() + seconds
        received = 0
        self._asking = True
        rest = memoryview(messages)
        while rest:
            rest = rest[self._patiently(partial(self._socket.send, rest), until) :]
        while True:
            yield from self._whole()
            if self._ready():
                return
            data = self._patiently(partial(self._socket.recv, _PORTION), until)
            if not data:
                raise Failed("it ended the connection")
            self._buffer += data
            received += len(data)
            if received > MOST:
                raise _error_of("54000")(
                    "the catalog's answer is too large",
                    detail=f"It may take {MOST} bytes.",
                    hint="Ask for fewer rows or columns.",
                )

    def _patiently(self, step: Callable[[], _T], until: float) -> _T:
        """What ``step`` gives once the other end is ready for it."""
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

    def _whole(self) -> Iterator[LinkReply]:
        """The messages that have wholly come; rows that follow each other together."""
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
        """End the connection, and the statement under way, whatever it is at; nobody waits for
        that. Then call ``closed``."""
        if self._asking and self._key:
            threading.Thread(target=self._end, args=(closed,), daemon=True).start()
        else:
            self._socket.close()
            closed()

    def _end(self, closed: Callable[[], object]) -> None:
        self._cancel()
        if not self._ends():
            # Some functions look at no signal for hours. Others' statements are asked again.
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
        self._socket.close()
        closed()

    def _cancel(self) -> None:
        """Ask that the statement under way be stopped."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as other:
            other.settimeout(GRACE)
            other.connect(self._address)
            other.sendall(INT32.pack(16) + INT32.pack(_CANCEL) + self._key)
            other.recv(1)

    def _ends(self) -> bool:
        """Whether the process hangs up in time, as it does once it hears that we have."""
        until = time.monotonic() + GRACE
        try:
            self._socket.shutdown(socket.SHUT_WR)
            while (left := until - time.monotonic()) > 0:
                self._socket.settimeout(left)
                if not self._socket.recv(_PORTION):
                    return True
        except TimeoutError:
            return False
        except OSError:  # it has gone already
            return True
        return False


def run(link: CatalogLink, sql: str, seconds: float) -> None:
    """Statements of our own, whose rows nobody wants. Raises CatalogError, Failed."""
    first: CatalogError | None = None
    for reply in link.ask(simple(sql), seconds):
        if reply.kind == "E" and first is None:
            first = error(reply.body)
    if first is not None:
        raise first
