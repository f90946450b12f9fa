"""The protocol messages that are sent to the catalog's PostgreSQL."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

__all__ = [
    "DESCRIBE_PORTAL",
    "EXECUTE",
    "INT32",
    "SYNC",
    "bind",
    "close",
    "describe",
    "parse",
    "simple",
    "text",
]

INT32: Final = struct.Struct("!I")
_INT16: Final = struct.Struct("!H")


def _message(kind: bytes, *parts: bytes) -> bytes:
    body = b"".join(parts)
    return kind + INT32.pack(len(body) + 4) + body


def text(text: str) -> bytes:
    return text.encode() + b"\0"


def parse(name: str, sql: str, oids: Sequence[int] = ()) -> bytes:
    return _message(b"P", text(name), text(sql), struct.pack(f"!H{len(oids)}I", len(oids), *oids))


def close(name: str) -> bytes:
    """Close a prepared statement."""
    return _message(b"C", b"S" + text(name))


def bind(
    name: str,
    formats: Sequence[int] = (),
    values: Sequence[bytes | None] = (),
    result_formats: Sequence[int] = (),
) -> bytes:
    """Bind the unnamed portal to a statement."""
    data = [
        b"\xff\xff\xff\xff" if value is None else INT32.pack(len(value)) + value for value in values
    ]
    return _message(
        b"B",
        b"\0",
        text(name),
        struct.pack(f"!H{len(formats)}H", len(formats), *formats),
        _INT16.pack(len(values)),
        *data,
        struct.pack(f"!H{len(result_formats)}H", len(result_formats), *result_formats),
    )


def describe(name: str) -> bytes:
    """Describe the parameters and columns of a prepared statement."""
    return _message(b"D", b"S" + text(name))


def simple(sql: str) -> bytes:
    return _message(b"Q", text(sql))


DESCRIBE_PORTAL: Final = _message(b"D", b"P\0")
EXECUTE: Final = _message(b"E", b"\0", INT32.pack(0))
SYNC: Final = _message(b"S")
