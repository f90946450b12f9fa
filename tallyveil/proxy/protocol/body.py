"""The body of a message, read from front to back."""

from __future__ import annotations

import struct
from typing import Final

from tallyveil.proxy.protocol_errors import ProtocolViolation

__all__ = ["INT32", "UINT16", "UINT32", "Body"]

UINT16: Final = struct.Struct("!H")
INT32: Final = struct.Struct("!i")
UINT32: Final = struct.Struct("!I")


class Body:
    """Reads the fields of ``data``; ``what`` names the message in errors.

    Every read raises ProtocolViolation if the data end too early.
    """

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

    def number(self, form: struct.Struct) -> int:
        value: int = form.unpack(self.take(form.size))[0]
        return value

    def numbers(self, code: str) -> tuple[int, ...]:
        """Read a 16-bit count, then that many numbers of the format ``code``."""
        form = struct.Struct(f"!{self.number(UINT16)}{code}")
        return form.unpack(self.take(form.size))

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
        # Different bytes must stay different names, even if they are not UTF-8.
        return self.cstring().decode("utf-8", "backslashreplace")

    def text(self) -> str:
        try:
            return self.cstring().decode()
        except UnicodeDecodeError:
            raise ProtocolViolation(f"invalid UTF-8 in {self._what} message") from None

    def end(self) -> None:
        """Raise ProtocolViolation unless all data were read."""
        if self._at != len(self._data):
            raise self.malformed()
