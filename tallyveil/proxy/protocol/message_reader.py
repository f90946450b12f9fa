"""Split bytes into messages, incrementally and within limits. No I/O, no state but the buffer.

The reader checks a message's length before it waits for its body. So a peer can make it hold at
most one message of ``message_limit`` bytes and the bytes that arrived together with it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from tallyveil.proxy.protocol.messages import (
    GSSENCRequest,
    Message,
    SSLRequest,
    Startup,
    is_known,
    parse_message,
    parse_startup,
)
from tallyveil.proxy.protocol_errors import ProtocolViolation

__all__ = ["STARTUP_LIMIT", "MessageReader"]

STARTUP_LIMIT: Final = 10_000
"""PostgreSQL's limit for a startup packet, in bytes; here for all messages before authentication.
"""

_LENGTH: Final = struct.Struct("!I")


class MessageReader:
    """Collects the bytes of a client; `next` returns them one message at a time.

    Messages up to `Startup` have no type byte; all later ones have one. The owner increases
    ``message_limit`` (bytes of a message, including its length word) once the client is
    authenticated. After a ProtocolViolation the reader cannot be used any more.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at = 0
        self._started = False
        self.message_limit = STARTUP_LIMIT

    def __len__(self) -> int:
        """The bytes received that are not part of a returned message."""
        return len(self._buffer) - self._at

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def whole(self) -> Iterator[Message | ProtocolViolation]:
        """Yield the complete messages. If one is invalid, its error is the last item."""
        try:
            while (message := self.next()) is not None:
                yield message
        except ProtocolViolation as error:
            yield error

    def next(self) -> Message | None:
        """Return the next message, or None while it is incomplete.

        Raises ProtocolViolation for a bad length, an unknown type, a malformed body, or bytes
        that arrived together with a request for encryption: either somebody injected them before
        the encryption began (the class of CVE-2021-23222), or the peer violates the protocol.
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
        """The body after the length word at ``start``, or None while it is incomplete. The length
        word counts itself."""
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
