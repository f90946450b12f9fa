"""Bytes to messages, incrementally and bounded. No I/O, no state but the buffer.

The reader decides on a message's length before it waits for its body, so that a peer can make
it hold at most one message of ``message_limit`` bytes and what arrived together with it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from tallyveil.proxy.errors import ProtocolViolation
from tallyveil.proxy.protocol.messages import (
    GSSENCRequest,
    Message,
    SSLRequest,
    Startup,
    is_known,
    parse_message,
    parse_startup,
)

__all__ = ["STARTUP_LIMIT", "MessageReader"]

STARTUP_LIMIT: Final = 10_000
"""PostgreSQL's bound for a startup packet, in bytes; here also for all before authentication."""

_LENGTH: Final = struct.Struct("!I")


class MessageReader:
    """Collects what the client sends; `next` gives it back a message at a time.

    The first messages have no type byte; from the one after `Startup` on, they have. The owner
    raises ``message_limit`` (bytes of a message, its length word included) once it knows whom it
    talks to. After a ProtocolViolation the reader is of no further use.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at = 0
        self._started = False
        self.message_limit = STARTUP_LIMIT

    def __len__(self) -> int:
        """Bytes held that no message has used yet."""
        return len(self._buffer) - self._at

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def whole(self) -> Iterator[Message | ProtocolViolation]:
        """The messages that have wholly come; where one is wrong, what is wrong with it, last."""
        try:
            while (message := self.next()) is not None:
                yield message
        except ProtocolViolation as error:
            yield error

    def next(self) -> Message | None:
        """The next message, or None while it is incomplete.

        Raises ProtocolViolation for a bad length, an unknown type, a malformed body, or bytes
        that came along with a request for encryption: they were injected before it (the class
        of CVE-2021-23222), or the peer does not speak the protocol.
        """
        message = self._typed() if self._started else self._untyped()
        if message is None:
            self._compact()
            return None
        if isinstance(message, Startup):
            self._started = True
        elif isinstance(message, SSLRequest | GSSENCRequest) and len(self):
            raise ProtocolViolation(
                "received unencrypted data after encryption request",
                detail="A client must wait for the answer before it sends anything else.",
            )
        return message

    def _untyped(self) -> Message | None:
        body = self._body(self._at, 8, STARTUP_LIMIT, "startup packet")
        return None if body is None else parse_startup(body)

    def _typed(self) -> Message | None:
        if self._at >= len(self._buffer):
            return None
        kind = self._buffer[self._at]
        if not is_known(kind):
            raise ProtocolViolation(f"invalid frontend message type {kind}")
        body = self._body(self._at + 1, 4, self.message_limit, "message")
        return None if body is None else parse_message(kind, body)

    def _body(self, start: int, least: int, most: int, what: str) -> bytes | None:
        """The bytes after the length word at ``start``; the length counts itself."""
        if len(self._buffer) < start + 4:
            return None
        (length,) = _LENGTH.unpack_from(self._buffer, start)
        if not least <= length <= most:
            raise ProtocolViolation(
                f"invalid length of {what}",
                detail=f"It claims {length} bytes; at most {most} are accepted.",
            )
        end = start + length
        if len(self._buffer) < end:
            return None
        self._at = end
        return bytes(memoryview(self._buffer)[start + 4 : end])

    def _compact(self) -> None:
        if self._at:
            del self._buffer[: self._at]
            self._at = 0
