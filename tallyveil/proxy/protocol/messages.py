"""The messages of a client: a class for each frontend message of protocol 3.2, with its reader.

Bodies are as in "Message Formats" of the PostgreSQL documentation. A body that is too short or too
long is a ProtocolViolation. SQL and parameter values stay bytes here, because text that is not
UTF-8 is an error of the statement, not of the connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Self

from tallyveil.proxy.protocol.body import INT32, UINT16, UINT32, Body
from tallyveil.proxy.protocol_errors import ProtocolViolation

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
    """The base of all messages. A message without fields has an empty body."""

    __slots__ = ()

    @classmethod
    def read(cls, body: Body) -> Self:
        """Read the message from its body. Raises ProtocolViolation if it is malformed."""
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
    """``version`` is major << 16 | minor; ``parameters`` are in the order received."""

    version: int
    parameters: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Credentials(Message):
    """The response to a request for authentication; the request determines what ``data`` is."""

    data: bytes

    @classmethod
    def read(cls, body: Body) -> Self:
        return cls(body.rest())


@dataclass(frozen=True, slots=True)
class Query(Message):
    """A simple query. SQL that contains a NUL is refused later, as a statement: as in PostgreSQL,
    the connection stays open."""

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
        """The types follow the SQL. If they cannot be read, the SQL contained a NUL: then the NUL
        stays in ``sql``, which is refused later, as a statement."""
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
    """Format codes are 0 (text) or 1 (binary): none, one for all values, or one for each."""

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
    """``limit`` is the most rows to return; 0 for all."""

    portal: str
    limit: int = 0

    @classmethod
    def read(cls, body: Body) -> Self:
        # PostgreSQL reads a negative limit as no limit.
        return cls(body.name(), max(body.number(INT32), 0))


class Flush(Message):
    pass


class Sync(Message):
    pass


class Terminate(Message):
    pass


class _Skipped(Message):
    """A message whose body is not read."""

    @classmethod
    def read(cls, body: Body) -> Self:
        body.rest()
        return cls()


class FunctionCall(_Skipped):
    """A fast-path function call, which is refused."""


class CopyMessage(_Skipped):
    """CopyData, CopyDone or CopyFail outside a COPY: ignored, as in PostgreSQL."""


def parse_startup(data: bytes) -> Message:
    """Read an untyped first message from its body, which follows the length.

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
_SHORT: Final = 64
"""Bytes of a body up to which parsed messages are cached: a client that runs a prepared statement
sends the same few short messages each time."""


def parse_message(kind: int, data: bytes) -> Message:
    """Read a message of a type that `is_known`, from its body, which follows the length.

    Raises ProtocolViolation for a malformed body.
    """
    parse = _parse_cached if kind in _REPEATED and len(data) <= _SHORT else _parse
    return parse(kind, data)


def _parse(kind: int, data: bytes) -> Message:
    message = _TYPED[kind]
    body = Body(data, message.__name__.lower())
    found = message.read(body)
    body.end()
    return found


_parse_cached: Final = lru_cache(1024)(_parse)


def is_known(kind: int) -> bool:
    """Whether a frontend message has this type byte."""
    return kind in _TYPED
