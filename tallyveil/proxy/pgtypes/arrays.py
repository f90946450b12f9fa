"""One-dimensional arrays of any other type, as Python lists."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from typing import Any, Final

from tallyveil.errors import FeatureNotSupported
from tallyveil.proxy.pgtypes.base import PgType

__all__ = ["array_of"]

_HEADER: Final = struct.Struct("!iiI")
_DIMENSION: Final = struct.Struct("!ii")
_INT32: Final = struct.Struct("!i")

# Possessive throughout (*+, ++): a long literal with a mistake must fail in one pass.
_TOKEN: Final = re.compile(
    r"""\s*+(?:"(?P<quoted>(?:[^"\\]|\\.)*+)"|(?P<bare>(?:[^\s",{}\\]|\\.|\s++(?=[^\s,}]))++))"""
    r"\s*+(?P<end>[,}])",
    re.DOTALL,
)
_NEEDS_QUOTES: Final = re.compile(r'[\s{},"\\]|^$|^null$', re.IGNORECASE)


def _several_dimensions() -> FeatureNotSupported:
    return FeatureNotSupported("arrays of more than one dimension are not supported")


def _quote(text: str) -> str:
    if not _NEEDS_QUOTES.search(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _encode_text(element: PgType) -> Callable[[Any], bytes]:
    def encode(values: Any) -> bytes:
        items = ("NULL" if v is None else _quote(element.encode_text(v).decode()) for v in values)
        return ("{" + ",".join(items) + "}").encode()

    return encode


def _encode_binary(element: PgType) -> Callable[[Any], bytes]:
    def encode(values: Any) -> bytes:
        if not values:
            return _HEADER.pack(0, 0, element.oid)
        nulls = any(v is None for v in values)
        parts = [_HEADER.pack(1, nulls, element.oid), _DIMENSION.pack(len(values), 1)]
        for value in values:
            if value is None:
                parts.append(_INT32.pack(-1))
            else:
                data = element.encode_binary(value)
                parts += (_INT32.pack(len(data)), data)
        return b"".join(parts)

    return encode


def _item(element: PgType, match: re.Match[str]) -> Any:
    if match["quoted"] is None:
        text = match["bare"]
        if text.lower() == "null":
            return None
    else:
        text = match["quoted"]
    return element.read(0, re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL).encode())


def _decode_text(element: PgType) -> Callable[[str], list[Any]]:
    def decode(text: str) -> list[Any]:
        text = text.strip()
        if not text.startswith("{"):
            raise ValueError
        if re.fullmatch(r"\{\s*\}", text):
            return []
        if re.match(r"\{\s*\{", text):
            raise _several_dimensions()
        items, at, end = [], 1, ","
        while end == ",":
            match = _TOKEN.match(text, at)
            if match is None:
                raise ValueError
            items.append(_item(element, match))
            at, end = match.end(), match["end"]
        if at != len(text):
            raise ValueError
        return items

    return decode


def _decode_binary(element: PgType) -> Callable[[bytes], list[Any]]:
    def decode(data: bytes) -> list[Any]:
        dimensions, _flags, oid = _HEADER.unpack_from(data)
        # An empty list has no element whose type a driver could have known.
        if oid != element.oid and dimensions != 0:
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
            items.append(element.read(1, data[at : at + size]))
            at += size
        if at != len(data) or dimensions < 0 or count < 0:
            raise ValueError
        return items

    return decode


def array_of(element: PgType) -> PgType:
    """The array type whose elements are ``element``."""
    return PgType(
        element.array_oid,
        element.name + "[]",
        -1,
        0,
        element.duckdb + "[]",
        _encode_text(element),
        _encode_binary(element),
        _decode_text(element),
        _decode_binary(element),
    )
