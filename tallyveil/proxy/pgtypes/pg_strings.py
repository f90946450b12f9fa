"""Text types, boolean and uuid."""

from __future__ import annotations

import uuid
from typing import Any, Final

from tallyveil.proxy.pgtypes.base import PgType, decode_utf8, pg_type
from tallyveil.truth import truth

__all__ = ["STRINGS"]


def _encode_text(value: Any) -> bytes:
    return str.encode(value)


def _identity(text: str) -> str:
    return text


_TEXT: Final = _encode_text, _identity
_UTF8: Final = _encode_text, decode_utf8


def _decode_bool_text(text: str) -> bool:
    value = truth(text)
    if value is None:
        raise ValueError
    return value


def _decode_bool_binary(data: bytes) -> bool:
    if len(data) != 1:
        raise ValueError
    return data != b"\x00"


# Each text type, with the DuckDB types whose values are sent as it (VARCHAR goes as text).
_TEXTS: Final[dict[str, tuple[str, ...]]] = {
    "text": ("ENUM", '"NULL"', "NULL", "UNKNOWN"),
    "character varying": (),
    "character": (),
    "name": ("NAME",),
    "json": ("JSON",),
}

STRINGS: Final = (
    *(
        pg_type(name, 64 if name == "name" else -1, "VARCHAR", text=_TEXT, binary=_UTF8, also=also)
        for name, also in _TEXTS.items()
    ),
    # The type of untyped literals, which psycopg's table lacks.
    PgType(705, "unknown", -2, 0, "VARCHAR", _encode_text, _encode_text, _identity, decode_utf8),
    pg_type(
        "boolean",
        1,
        "BOOLEAN",
        text=(lambda value: b"t" if value else b"f", _decode_bool_text),
        binary=(lambda value: b"\x01" if value else b"\x00", _decode_bool_binary),
    ),
    pg_type(
        "uuid",
        16,
        "UUID",
        text=(lambda value: str(value).encode(), uuid.UUID),
        binary=(lambda value: value.bytes, lambda data: uuid.UUID(bytes=data)),
    ),
)
