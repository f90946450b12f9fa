"""The rows of one result: encoded as they arrive, stored as bytes, released when they are sent."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from tallyveil.errors import FeatureNotSupported
from tallyveil.gate.interface import ColumnType
from tallyveil.proxy.client_memory import ConnectionMemory, size_of
from tallyveil.proxy.pgtypes import WireType, from_duckdb
from tallyveil.proxy.protocol.backend import data_row, row_description

__all__ = ["Fields", "PendingRows", "fields_of", "room_of"]

Fields = tuple[tuple[str, WireType], ...]

_CHUNK: Final = 1 << 15
"""Bytes of rows that are stored, and sent, together; a row is never split."""

_OVERHEAD: Final = 100
_FIELD: Final = 256
"""Bytes of memory of a chunk in addition to its rows, and of the description of a column."""

_LENGTH: Final = struct.Struct("!I")


def fields_of(columns: Sequence[ColumnType] | None) -> Fields | None:
    """The columns with their wire types. Raises FeatureNotSupported for a type without a PostgreSQL
    equivalent."""
    if columns is None:
        return None
    return tuple((column.name, from_duckdb(column.type)) for column in columns)


def room_of(fields: Fields | None) -> int:
    """The bytes of memory that a description of columns takes."""
    return sum(_FIELD + size_of(name) for name, _ in fields or ())


class PendingRows:
    """DataRow messages that wait to be fetched. Their bytes count against the connection's memory
    until they are sent.

    ``formats`` has a code for each column, or is None for text; ``expected`` are the columns that
    the client was sent earlier, if any.
    """

    def __init__(
        self,
        holding: ConnectionMemory,
        formats: Sequence[int] | None = None,
        expected: Fields | None = None,
    ) -> None:
        self.fields: Fields | None = None
        self._formats = formats
        self._expected = expected
        self._holding = holding
        self._chunks: deque[tuple[int, bytes]] = deque()
        self._encoders: list[Callable[[Any], bytes]] = []
        self._message: Callable[..., bytes] = data_row

    def begin(self, columns: Sequence[ColumnType]) -> Callable[[Sequence[tuple[Any, ...]]], None]:
        """Prepare to store rows of these columns; a `tallyveil.gate.interface.Receive`."""
        fields = fields_of(columns) or ()
        self._expect(fields)
        codes = self._formats or (0,) * len(fields)
        self._encoders = [
            wire.type.encoder(code) for (_, wire), code in zip(fields, codes, strict=True)
        ]
        return self.extend

    def extend(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Encode and store rows. Raises TooMuchKept or OutOfMemory, and what the encoders raise."""
        encoders, width, message = self._encoders, len(self._encoders), self._message
        parts: list[bytes] = []
        size = 0
        for row in rows:
            part = message(encoders, row, width)
            parts.append(part)
            size += len(part)
            if size >= _CHUNK:
                self._hold(len(parts), b"".join(parts))
                parts, size = [], 0
        if parts:
            self._hold(len(parts), b"".join(parts))

    def _hold(self, count: int, messages: bytes) -> None:
        self._holding.take(len(messages) + _OVERHEAD)
        self._chunks.append((count, messages))

    @property
    def formats(self) -> tuple[int, ...]:
        """The format codes requested for the columns; none means text."""
        return tuple(self._formats or ())

    def relay(self, fields: Fields | None, pieces: Sequence[tuple[int, bytes]]) -> None:
        """Store encoded rows: pieces of a number of rows and their messages, in `formats`."""
        self._expect(fields)
        for count, messages in pieces:
            self._hold(count, messages)

    def _expect(self, fields: Fields | None) -> None:
        if self._expected not in (None, fields):
            raise FeatureNotSupported(
                "cached plan must not change result type", hint="Prepare the statement again."
            )
        self.fields = fields

    def opening(self) -> bytes:
        """The message before the rows in the simple protocol."""
        return b"" if self.fields is None else row_description(self.fields, self._formats)

    def closing(self) -> bytes:
        """The message after the rows."""
        return b""

    def all(self) -> bytes | None:
        """All waiting rows if they fill at most one chunk, else None. They keep waiting."""
        if len(self._chunks) > 1:
            return None
        return b"".join(chunk for _, chunk in self._chunks)

    def take(self, limit: int = 0) -> Iterator[tuple[int, bytes]]:
        """Remove and yield the next ``limit`` rows (0 for all), as pieces of a number of rows and
        their messages."""
        left = limit
        while self._chunks and (left or not limit):
            count, chunk = self._chunks.popleft()
            self._holding.give(len(chunk) + _OVERHEAD)
            if limit and count > left:
                cut = _end_of(left, chunk)
                rest = chunk[cut:]
                self._holding.take(len(rest) + _OVERHEAD)
                self._chunks.appendleft((count - left, rest))
                count, chunk = left, chunk[:cut]
            left -= count
            yield count, chunk

    def drop(self) -> None:
        """Release the rows that were not sent."""
        while self._chunks:
            self._holding.give(len(self._chunks.popleft()[1]) + _OVERHEAD)


def _end_of(count: int, chunk: bytes) -> int:
    """The offset at which the first ``count`` rows of a chunk end."""
    at = 0
    for _ in range(count):
        at += 1 + _LENGTH.unpack_from(chunk, at + 1)[0]
    return at
