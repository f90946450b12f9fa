"""Text and its relatives, boolean, uuid and bytea."""

from __future__ import annotations

import re
import uuid
from typing import Any, Final

from tallyveil.proxy.pgtypes.base import PgType, decode_utf8
from tallyveil.truth import truth

__all__ = ["STRINGS"]


def _encode_text(value: Any) -> bytes:
    return str.encode(value)


def _same(text: str) -> str:
    return text


def _text(oid: int, name: str, size: int, array: int) -> PgType:
    return PgType(oid, name, size, array, "VARCHAR", _encode_text, _encode_text, _same, decode_utf8)


def _encode_jsonb_binary(value: Any) -> bytes:
    return b"\x01" + _encode_text(value)


def _decode_jsonb_binary(data: bytes) -> str:
    if data[:1] != b"\x01":
        raise ValueError
    return decode_utf8(data[1:])


def _encode_bool_text(value: Any) -> bytes:
    return b"t" if value else b"f"


def _encode_bool_binary(value: Any) -> bytes:
    return b"\x01" if value else b"\x00"


def _decode_bool_text(text: str) -> bool:
    value = truth(text)
    if value is None:
        raise ValueError
    return value


def _decode_bool_binary(data: bytes) -> bool:
    if len(data) != 1:
        raise ValueError
    return data != b"\x00"


def _encode_uuid_text(value: Any) -> bytes:
    return str(value).encode()


def _encode_uuid_binary(value: Any) -> bytes:
    raw: bytes = value.bytes
    return raw


def _decode_uuid_binary(data: bytes) -> uuid.UUID:
    return uuid.UUID(bytes=data)


_ESCAPE: Final = re.compile(rb"\\(?:\\|([0-3][0-7]{2}))?")


def _encode_bytea_text(value: Any) -> bytes:
    return b"\\x" + bytes(value).hex().encode()


def _unescape(match: re.Match[bytes]) -> bytes:
    if match[0] == b"\\":
        raise ValueError
    return bytes([int(match[1], 8)]) if match[1] else b"\\"


def _decode_bytea_text(text: str) -> bytes:
    if text.startswith("\\x"):
        return bytes.fromhex(text[2:])
    return _ESCAPE.sub(_unescape, text.encode())


STRINGS: Final = (
    _text(25, "text", -1, 1009),
    _text(1043, "character varying", -1, 1015),
    _text(1042, "character", -1, 1014),
    _text(19, "name", 64, 1003),
    _text(705, "unknown", -2, 0),
    _text(114, "json", -1, 199),
    PgType(
        3802,
        "jsonb",
        -1,
        3807,
        "VARCHAR",
        _encode_text,
        _encode_jsonb_binary,
        _same,
        _decode_jsonb_binary,
    ),
    PgType(
        16,
        "boolean",
        1,
        1000,
        "BOOLEAN",
        _encode_bool_text,
        _encode_bool_binary,
        _decode_bool_text,
        _decode_bool_binary,
    ),
    PgType(
        2950,
        "uuid",
        16,
        2951,
        "UUID",
        _encode_uuid_text,
        _encode_uuid_binary,
        uuid.UUID,
        _decode_uuid_binary,
    ),
    PgType(
        17,
        "bytea",
        -1,
        1001,
        "BLOB",
        _encode_bytea_text,
        bytes,
        _decode_bytea_text,
        bytes,
    ),
)
