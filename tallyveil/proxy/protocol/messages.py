"""What a client can say: one value per frontend message of protocol 3.2, and how its body is read.

Bodies are as in "Message Formats" of the PostgreSQL documentation. A body must be used up exactly;
anything else is a ProtocolViolation. SQL and parameter values stay bytes here, because text that is
not UTF-8 is an error of the statement, not of the connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self

from tallyveil.proxy.errors import ProtocolViolation
from tallyveil.proxy.protocol.body import INT32, UINT16, UINT32, Body

__all__ = [
    "Bind",
    "CancelRequest",
    "Close",
    "CopyMessage",
    "Credentials",
    "Describe",
    "Execute",
    "Flush",
    "FunctionCall",
    "GSSENCRequest",
    "Message",
    "Parse",
    "Query",
    "SSLRequest",
    "Startup",
    "Sync",
    "Terminate",
    "is_known",
    "parse_message",
    "parse_startup",
]

_CANCEL_CODE: Final = 80877102
_SSL_CODE: Final = 80877103
_GSSENC_CODE: Final = 80877104


@dataclass(frozen=True)
class Message:
    """Those without fields have empty bodies."""

    __slots__ = ()

    @classmethod
    def read(cls, body: Body) -> Self:
        """Raises ProtocolViolation."""
        return cls()


class SSLRequest(Message):
    """Asks for TLS."""


class GSSENCRequest(Message):
    """Asks for GSSAPI encryption, which is not offered."""


@dataclass(frozen=True, slots=True)
class CancelRequest(Message):
    pid: int
    secret: bytes


@dataclass(frozen=True, slots=True)
class Startup(Message):
    """``version`` is major << 16 | minor; ``parameters`` keep the order they came in."""

    version: int
    parameters: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Credentials(Message):
    """The answer to a request for authentication; what is in it depends on that."""

    data: bytes

    @classmethod
    def read(cls, body: Body) -> Self:
        return cls(body.rest())


@dataclass(frozen=True, slots=True)
class Query(Message):
    """What holds a NUL is refused as a text later on; the connection goes on, as PostgreSQL's."""

    sql: bytes

    @classmethod
    def read(cls, body: Body) -> Self:
        sql = body.rest()
        if not sql.endswith(b"\0"):
            raise body.malformed()
        return cls(sql[:-1])


@dataclass(frozen=True, slots=True)
class Parse(Message):
    name: str
    sql: bytes
    types: tuple[int, ...] = ()

    @classmethod
    def read(cls, body: Body) -> Self:
        """After the text come its types. If they do not fit, a NUL has ended the text too early."""
        name = body.name()
        text = Body(body.rest(), "parse")
        sql = text.cstring()
        try:
            types = text.numbers("I")
            text.end()
        except ProtocolViolation:
            if not sql:
                raise
            return cls(name, sql + b"\0")
        return cls(name, sql, types)


@dataclass(frozen=True, slots=True)
class Bind(Message):
    """Format codes are 0 (text) or 1 (binary): none, one for all, or one each."""

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]

    @classmethod
    def read(cls, body: Body) -> Self:
        portal, statement = body.name(), body.name()
        formats = body.numbers("H")
        values: list[bytes | None] = []
        for _ in range(body.number(UINT16)):
            size = body.number(INT32)
            values.append(None if size == -1 else body.take(size))
        return cls(portal, statement, formats, tuple(values), body.numbers("H"))


@dataclass(frozen=True, slots=True)
class _Named(Message):
    """``kind`` is S for a prepared statement, P for a portal."""

    kind: str
    name: str

    @classmethod
    def read(cls, body: Body) -> Self:
        kind = body.take(1)
        if kind not in (b"S", b"P"):
            raise body.malformed()
        return cls(kind.decode(), body.name())


class Describe(_Named):
    pass


class Close(_Named):
    pass


@dataclass(frozen=True, slots=True)
class Execute(Message):
    """``limit`` 0 asks for all rows."""

    portal: str
    limit: int = 0

    @classmethod
    def read(cls, body: Body) -> Self:
        # PostgreSQL takes a negative limit for no limit.
        return cls(body.name(), max(body.number(INT32), 0))


class Flush(Message):
    pass


class Sync(Message):
    pass


class Terminate(Message):
    pass


class _Unread(Message):
    @classmethod
    def read(cls, body: Body) -> Self:
        body.rest()
        return cls()


class FunctionCall(_Unread):
    """The fast-path call, which is refused."""


class CopyMessage(_Unread):
    """CopyData, CopyDone or CopyFail outside a COPY: ignored, as PostgreSQL does."""


def parse_startup(data: bytes) -> Message:
    """The body of an untyped first message (after its length).

    Raises ProtocolViolation if it is malformed.
    """
    body = Body(data, "startup")
    code = body.number(UINT32)
    if code == _CANCEL_CODE:
        pid = body.number(UINT32)
        # Four bytes in protocol 3.0; up to 256 from 3.2 on.
        secret = body.rest()
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


_TYPED: Final[dict[int, type[Message]]] = {
    ord("p"): Credentials,
    ord("Q"): Query,
    ord("P"): Parse,
    ord("B"): Bind,
    ord("D"): Describe,
    ord("E"): Execute,
    ord("C"): Close,
    ord("H"): Flush,
    ord("S"): Sync,
    ord("X"): Terminate,
    ord("F"): FunctionCall,
    ord("d"): CopyMessage,
    ord("c"): CopyMessage,
    ord("f"): CopyMessage,
}

_REPEATED: Final = frozenset(b"BDES")
_LITTLE: Final = 64
"""Who runs a prepared statement sends the same few short messages each time."""


def parse_message(kind: int, data: bytes) -> Message:
    """A typed message: its type byte, and its body after the length.

    Raises ProtocolViolation for an unknown type or a malformed body.
    """
    parse = _parsed_before if kind in _REPEATED and len(data) <= _LITTLE else _parsed
    return parse(kind, data)


def _parsed(kind: int, data: bytes) -> Message:
    message = _TYPED[kind]
    body = Body(data, message.__name__.lower())
    found = message.read(body)
    body.end()
    return found


_parsed_before: Final = lru_cache(1024)(_parsed)


def is_known(kind: int) -> bool:
    """Whether a frontend message of this type exists."""
    return kind in _TYPED
