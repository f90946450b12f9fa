"""One-dimensional arrays of all other types, as Python lists."""

from __future__ import annotations

import re
import struct
from typing import Any, Final

from tallyveil.errors import FeatureNotSupported
from tallyveil.proxy.pgtypes.base import PgType
from tallyveil.quoting import array_elements

__all__ = ["array_of"]

_HEADER: Final = struct.Struct("!iiI")
_DIMENSION: Final = struct.Struct("!ii")
_INT32: Final = struct.Struct("!i")

_NESTED: Final = re.compile(r"\s*+\{\s*+\{")
_NEEDS_QUOTES: Final = re.compile(r'[\s{},"\\]|^$|^null$', re.IGNORECASE)


def _several_dimensions() -> FeatureNotSupported:
    return FeatureNotSupported("arrays of more than one dimension are not supported")


def _quote(text: str) -> str:
    if not _NEEDS_QUOTES.search(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class _Array:
    """The codecs of arrays of ``element``."""

    def __init__(self, element: PgType) -> None:
        self._element: Final = element

    def encode_text(self, values: Any) -> bytes:
        items = (
            "NULL" if v is None else _quote(self._element.encode_text(v).decode()) for v in values
        )
        return ("{" + ",".join(items) + "}").encode()

    def encode_binary(self, values: Any) -> bytes:
        if not values:
            return _HEADER.pack(0, 0, self._element.oid)
        nulls = any(v is None for v in values)
        parts = [_HEADER.pack(1, nulls, self._element.oid), _DIMENSION.pack(len(values), 1)]
        for value in values:
            if value is None:
                parts.append(_INT32.pack(-1))
            else:
                data = self._element.encode_binary(value)
                parts += (_INT32.pack(len(data)), data)
        return b"".join(parts)

    def decode_text(self, text: str) -> list[Any]:
        if _NESTED.match(text):
            raise _several_dimensions()
        return [
            None if one is None else self._element.read(0, one.encode())
            for one in array_elements(text)
        ]

    def decode_binary(self, data: bytes) -> list[Any]:
        dimensions, _flags, oid = _HEADER.unpack_from(data)
        # A driver cannot infer the element type of an empty list, so any OID is accepted there.
        if oid != self._element.oid and dimensions != 0:
            raise ValueError
        if dimensions > 1:
            raise _several_dimensions()
        at = _HEADER.size
        count = 0
        if dimensions == 1:
            count, _lower = _DIMENSION.unpack_from(data, at)
            at += _DIMENSION.size
        items: list[Any] = []
        for _ in range(count):
            (size,) = _INT32.unpack_from(data, at)
            at += 4
            if size == -1:
                items.append(None)
                continue
            if size < 0 or at + size > len(data):
                raise ValueError
            items.append(self._element.read(1, data[at : at + size]))
            at += size
        if at != len(data) or dimensions < 0 or count < 0:
            raise ValueError
        return items


def array_of(element: PgType) -> PgType:
    """The array type whose elements are ``element``."""
    codecs = _Array(element)
    return PgType(
        element.array_oid,
        element.name + "[]",
        -1,
        0,
        element.duckdb + "[]",
        codecs.encode_text,
        codecs.encode_binary,
        codecs.decode_text,
        codecs.decode_binary,
    )
