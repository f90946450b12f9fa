"""The definition of a wire type, and the errors of its codecs."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from psycopg.postgres import types

from tallyveil.errors import (
    DatetimeFieldOverflow,
    FeatureNotSupported,
    InvalidDatetimeFormat,
    InvalidEncoding,
    InvalidTextRepresentation,
    NumericValueOutOfRange,
)
from tallyveil.proxy.protocol_errors import InvalidBinaryRepresentation

__all__ = [
    "Codec",
    "PgType",
    "WireType",
    "bad_datetime",
    "datetime_overflow",
    "decode_utf8",
    "out_of_range",
    "pg_type",
    "unsupported",
]


@dataclass(frozen=True, slots=True)
class PgType:
    """A PostgreSQL type: pg_type's oid, typname, typlen and typarray, and both formats.

    The codecs work on Python values other than None. A decoder raises ValueError (or
    struct.error) for input that is not of the type at all; `read` gives that its SQLSTATE.
    ``duckdb`` is the DuckDB type of parameters declared with this type. Results of that DuckDB
    type, and of those in ``also``, have this type.
    """

    oid: int
    name: str
    size: int
    array_oid: int
    duckdb: str
    encode_text: Callable[[Any], bytes]
    encode_binary: Callable[[Any], bytes]
    decode_text: Callable[[str], Any]
    decode_binary: Callable[[bytes], Any]
    also: tuple[str, ...] = ()

    def encoder(self, code: int) -> Callable[[Any], bytes]:
        """The encoder for format code 0 (text) or 1 (binary)."""
        return self.encode_binary if code else self.encode_text

    def read(self, code: int, data: bytes) -> Any:
        """Decode ``data`` in format ``code``.

        Raises InvalidTextRepresentation (22P02), InvalidBinaryRepresentation (22P03), and 22003
        or 22008 for values that Python or the type cannot hold.
        """
        if code:
            try:
                return self.decode_binary(data)
            except (ValueError, struct.error):
                raise InvalidBinaryRepresentation(
                    f"incorrect binary data format for type {self.name}"
                ) from None
        text = decode_utf8(data)
        try:
            return self.decode_text(text)
        except ValueError:
            raise InvalidTextRepresentation(
                f'invalid input syntax for type {self.name}: "{text}"'
            ) from None


Codec: TypeAlias = tuple[Callable[[Any], bytes], Callable[[Any], Any]]
"""An encoder and a decoder, the latter from text or from bytes."""


def pg_type(
    name: str, size: int, duckdb: str, *, text: Codec, binary: Codec, also: tuple[str, ...] = ()
) -> PgType:
    """Define a scalar type. Its OIDs come from psycopg's table of PostgreSQL types."""
    known = types.get(name)
    if known is None:
        raise ValueError(f"psycopg has no type {name}")
    encoders, decoders = zip(text, binary, strict=True)
    return PgType(known.oid, name, size, known.array_oid, duckdb, *encoders, *decoders, also)


class WireType(NamedTuple):
    """A column's type with its modifier, or -1 if it has none."""

    type: PgType
    typmod: int = -1


def decode_utf8(data: bytes) -> str:
    """Decode text as PostgreSQL does. Raises InvalidEncoding (22021) unless it is UTF-8 without
    NUL."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        byte = data[error.start]
        raise InvalidEncoding(
            f'invalid byte sequence for encoding "UTF8": 0x{byte:02x}',
            hint="Only UTF-8 is supported, whatever client_encoding the client requests.",
        ) from None
    if "\0" in text:
        raise InvalidEncoding('invalid byte sequence for encoding "UTF8": 0x00')
    return text


def out_of_range(value: object, name: str) -> NumericValueOutOfRange:
    return NumericValueOutOfRange(f'value "{value}" is out of range for type {name}')


def bad_datetime(text: str, name: str) -> InvalidDatetimeFormat:
    return InvalidDatetimeFormat(
        f'invalid input syntax for type {name}: "{text}"',
        hint="Write a date as 2024-02-29, a time as 2024-02-29 12:30:00.",
    )


def datetime_overflow(name: str) -> DatetimeFieldOverflow:
    return DatetimeFieldOverflow(
        f"{name} out of range", detail="The years 1 to 9999 of the common era are supported."
    )


def unsupported(message: str) -> FeatureNotSupported:
    return FeatureNotSupported(
        message, hint="Cast it to a type that PostgreSQL has, for example to text."
    )
