"""How the body of a frontend message is read.

Bodies are as in "Message Formats" of the PostgreSQL documentation (protocol 3.2). A body must be
used up exactly; anything else is a ProtocolViolation.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from tallyveil.proxy.errors import ProtocolViolation
from tallyveil.proxy.messages import (
    Bind,
    CancelRequest,
    Close,
    CopyMessage,
    Credentials,
    Describe,
    Execute,
    Flush,
    FunctionCall,
    GSSENCRequest,
    Message,
    Parse,
    Query,
    SSLRequest,
    Startup,
    Sync,
    Terminate,
)

__all__ = ["is_known", "parse_message", "parse_startup"]

_CANCEL_CODE: Final = 80877102
_SSL_CODE: Final = 80877103
_GSSENC_CODE: Final = 80877104

_INT16: Final = struct.Struct("!H")
_INT32: Final = struct.Struct("!i")
_UINT32: Final = struct.Struct("!I")


class _Body:
    """Takes a message body apart from the front; running short is a violation."""

    __slots__ = ("_at", "_data", "_what")

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._at = 0
        self._what = what

    def malformed(self) -> ProtocolViolation:
        return ProtocolViolation(f"invalid {self._what} message")

    def take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise self.malformed()
        piece = self._data[self._at : end]
        self._at = end
        return piece

    def uint16(self) -> int:
        value: int = _INT16.unpack(self.take(2))[0]
        return value

    def int32(self) -> int:
        value: int = _INT32.unpack(self.take(4))[0]
        return value

    def uint32(self) -> int:
        value: int = _UINT32.unpack(self.take(4))[0]
        return value

    def uint16s(self) -> tuple[int, ...]:
        count = self.uint16()
        return struct.unpack(f"!{count}H", self.take(2 * count))

    def cstring(self) -> bytes:
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise self.malformed()
        piece = self._data[self._at : end]
        self._at = end + 1
        return piece

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def name(self) -> str:
        # Two names stay two names, whatever their bytes.
        return self.cstring().decode("utf-8", "backslashreplace")

    def text(self) -> str:
        try:
            return self.cstring().decode()
        except UnicodeDecodeError:
            raise ProtocolViolation(f"invalid UTF-8 in {self._what} message") from None

    def end(self) -> None:
        if self._at != len(self._data):
            raise self.malformed()


def parse_startup(data: bytes) -> Message:
    """The body of an untyped first message (after its length).

    Raises ProtocolViolation if it is malformed.
    """
    body = _Body(data, "startup")
    code = body.uint32()
    if code == _CANCEL_CODE:
        pid = body.uint32()
        # Four bytes in protocol 3.0; up to 256 from 3.2 on.
        secret = body.take(len(data) - 8)
        if not 0 < len(secret) <= 256:
            raise ProtocolViolation("invalid length of query cancel packet")
        return CancelRequest(pid, secret)
    if code in (_SSL_CODE, _GSSENC_CODE):
        body.end()
        return SSLRequest() if code == _SSL_CODE else GSSENCRequest()
    if code >> 16 != 3:
        return Startup(code, ())
    parameters = []
    while name := body.text():
        parameters.append((name, body.text()))
    body.end()
    return Startup(code, tuple(parameters))


def _credentials(body: _Body) -> Credentials:
    return Credentials(body.rest())


def _query(body: _Body) -> Query:
    """What holds a NUL is refused as a text later on; the connection goes on, as PostgreSQL's."""
    sql = body.rest()
    if not sql.endswith(b"\0"):
        raise body.malformed()
    return Query(sql[:-1])


def _parse(body: _Body) -> Parse:
    """After the text come its types. If they do not fit, a NUL has ended the text too early."""
    name = body.name()
    text = _Body(body.rest(), "parse")
    sql = text.cstring()
    try:
        count = text.uint16()
        types = struct.unpack(f"!{count}I", text.take(4 * count))
        text.end()
    except ProtocolViolation:
        if not sql:
            raise
        return Parse(name, sql + b"\0", ())
    return Parse(name, sql, types)


def _bind(body: _Body) -> Bind:
    portal, statement = body.name(), body.name()
    formats = body.uint16s()
    values: list[bytes | None] = []
    for _ in range(body.uint16()):
        size = body.int32()
        values.append(None if size == -1 else body.take(size))
    return Bind(portal, statement, formats, tuple(values), body.uint16s())


def _target(body: _Body) -> tuple[str, str]:
    kind = body.take(1)
    if kind not in (b"S", b"P"):
        raise body.malformed()
    return kind.decode(), body.name()


def _describe(body: _Body) -> Describe:
    return Describe(*_target(body))


def _close(body: _Body) -> Close:
    return Close(*_target(body))


def _execute(body: _Body) -> Execute:
    # PostgreSQL takes a negative limit for no limit.
    return Execute(body.name(), max(body.int32(), 0))


_PARSERS: Final[dict[int, tuple[str, Callable[[_Body], Message]]]] = {
    ord("p"): ("authentication", _credentials),
    ord("Q"): ("query", _query),
    ord("P"): ("parse", _parse),
    ord("B"): ("bind", _bind),
    ord("D"): ("describe", _describe),
    ord("E"): ("execute", _execute),
    ord("C"): ("close", _close),
    ord("H"): ("flush", lambda body: Flush()),
    ord("S"): ("sync", lambda body: Sync()),
    ord("X"): ("terminate", lambda body: Terminate()),
}

_REPEATED: Final = frozenset(b"BDES")
_LITTLE: Final = 64
"""Who runs a prepared statement sends the same few short messages each time."""

_IGNORED_BODIES: Final[dict[int, Message]] = {
    ord("F"): FunctionCall(),
    ord("d"): CopyMessage(),
    ord("c"): CopyMessage(),
    ord("f"): CopyMessage(),
}


def parse_message(kind: int, data: bytes) -> Message:
    """A typed message: its type byte, and its body after the length.

    Raises ProtocolViolation for an unknown type or a malformed body.
    """
    if kind in _REPEATED and len(data) <= _LITTLE:
        return _parsed_before(kind, data)
    ignored = _IGNORED_BODIES.get(kind)
    return _parsed(kind, data) if ignored is None else ignored


def _parsed(kind: int, data: bytes) -> Message:
    what, parser = _PARSERS[kind]
    body = _Body(data, what)
    message = parser(body)
    body.end()
    return message


_parsed_before: Final = lru_cache(1024)(_parsed)


def is_known(kind: int) -> bool:
    """Whether a frontend message of this type exists."""
    return kind in _PARSERS or kind in _IGNORED_BODIES
