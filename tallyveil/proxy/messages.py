"""What a client can say: one value per frontend message of protocol 3.2.

SQL and parameter values stay bytes here, because text that is not UTF-8 is an error of the
statement, not of the connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

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
]


@dataclass(frozen=True, slots=True)
class SSLRequest:
    """Asks for TLS."""


@dataclass(frozen=True, slots=True)
class GSSENCRequest:
    """Asks for GSSAPI encryption, which is not offered."""


@dataclass(frozen=True, slots=True)
class CancelRequest:
    pid: int
    secret: bytes


@dataclass(frozen=True, slots=True)
class Startup:
    """``version`` is major << 16 | minor; ``parameters`` keep the order they came in."""

    version: int
    parameters: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Credentials:
    """The answer to a request for authentication; what is in it depends on that."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Query:
    sql: bytes


@dataclass(frozen=True, slots=True)
class Parse:
    name: str
    sql: bytes
    types: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Bind:
    """Format codes are 0 (text) or 1 (binary): none, one for all, or one each."""

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Describe:
    """``kind`` is S for a prepared statement, P for a portal."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Execute:
    """``limit`` 0 asks for all rows."""

    portal: str
    limit: int = 0


@dataclass(frozen=True, slots=True)
class Close:
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Flush:
    pass


@dataclass(frozen=True, slots=True)
class Sync:
    pass


@dataclass(frozen=True, slots=True)
class Terminate:
    pass


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """The fast-path call, which is refused; its body is not looked at."""


@dataclass(frozen=True, slots=True)
class CopyMessage:
    """CopyData, CopyDone or CopyFail outside a COPY: ignored, as PostgreSQL does."""


Message: TypeAlias = (
    SSLRequest
    | GSSENCRequest
    | CancelRequest
    | Startup
    | Credentials
    | Query
    | Parse
    | Bind
    | Describe
    | Execute
    | Close
    | Flush
    | Sync
    | Terminate
    | FunctionCall
    | CopyMessage
)
