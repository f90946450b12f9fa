"""Integers, floats and numeric, in PostgreSQL's text and binary formats."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import numpy as np
from psycopg import adapters
from psycopg.adapt import PyFormat

from tallyveil.errors import NumericValueOutOfRange
from tallyveil.proxy.pgtypes.base import Codec, PgType, out_of_range, pg_type

__all__ = ["NUMBERS"]

# Possessive quantifiers (++), because input may be a megabyte of digits and then a letter.
_INTEGER: Final = re.compile(r"\s*+([+-]?[0-9]++)\s*+", re.ASCII)
_DECIMAL: Final = re.compile(
    r"\s*+[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?\s*+", re.ASCII
)
_SPECIAL: Final = re.compile(r"\s*(?:nan|[+-]?inf(?:inity)?)\s*", re.ASCII | re.IGNORECASE)


def _encode_int(value: Any) -> bytes:
    # int's own repr: it raises TypeError for a float instead of truncating it silently.
    return int.__repr__(value).encode()


def _int_text(name: str, least: int, most: int) -> Callable[[str], int]:
    def decode(text: str) -> int:
        match = _INTEGER.fullmatch(text)
        if match is None:
            raise ValueError
        digits = match[1]
        # Python raises a ValueError of its own for very long strings of digits.
        value = int(digits) if len(digits) < 4000 else math.inf
        if not least <= value <= most:
            raise out_of_range(text, name)
        return int(value)

    return decode


def _integer(name: str, duckdb: str, code: str, *also: str) -> PgType:
    packer = struct.Struct("!" + code)
    bits = 8 * packer.size
    least, most = (0, 2**bits - 1) if code == "I" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return _packed(
        name, duckdb, packer, text=(_encode_int, _int_text(name, least, most)), also=also
    )


def _packed(
    name: str, duckdb: str, packer: struct.Struct, *, text: Codec, also: tuple[str, ...] = ()
) -> PgType:
    """A number whose binary format is a C type."""
    binary = packer.pack, lambda data: packer.unpack(data)[0]
    return pg_type(name, packer.size, duckdb, text=text, binary=binary, also=also)


def _encode_float(precision: int, single: bool) -> Callable[[Any], bytes]:
    """Write the shortest digits that read back as the same number, as PostgreSQL 12 and later do:
    in fixed notation for exponents from -4 to ``precision`` - 1, else in scientific notation with
    at least two digits in the exponent."""

    def encode(value: Any) -> bytes:
        number = Decimal(str(np.float32(value) if single else float(value))).normalize()
        if -4 <= number.adjusted() < precision:
            return format(number, "f").encode()
        mantissa, _, exponent = format(number, "e").partition("e")
        return f"{mantissa}e{int(exponent):+03d}".encode()

    return encode


def _float_text(name: str, most: float) -> Callable[[str], float]:
    def decode(text: str) -> float:
        if _SPECIAL.fullmatch(text):
            return float(text)
        if not _DECIMAL.fullmatch(text):
            raise ValueError
        value = float(text)
        if not abs(value) <= most:
            raise out_of_range(text, name)
        return float(np.float32(value)) if name == "real" else value

    return decode


def _float(name: str, duckdb: str, code: str) -> PgType:
    packer = struct.Struct("!" + code)
    single = code == "f"
    most = float(np.finfo(np.float32 if single else np.float64).max)
    text = _encode_float(6 if single else 15, single), _float_text(name, most)
    return _packed(name, duckdb, packer, text=text)


_NAN, _POSITIVE_INFINITY, _NEGATIVE_INFINITY, _NEGATIVE = 0xC000, 0xD000, 0xF000, 0x4000
_HEADER: Final = struct.Struct("!HhHH")
_MOST_DIGITS: Final = 131_072
_MOST_SCALE: Final = 16_383


def _decimal(value: Any) -> Decimal:
    """Convert DuckDB's values: int for HUGEINT, str for BIGNUM, Decimal for DECIMAL."""
    if isinstance(value, Decimal):
        return value
    if isinstance(value, int | str):
        return Decimal(value)
    raise TypeError(f"a numeric cannot be a {type(value).__name__}")


def _encode_numeric_text(value: Any) -> bytes:
    # Decimal's operators round to the context's 28 digits; copy_abs does not.
    number = _decimal(value)
    # PostgreSQL's numeric has no negative zero.
    return format(number or number.copy_abs(), "f").encode()


_DUMPER: Final = adapters.get_dumper(Decimal, PyFormat.BINARY)(Decimal)


def _decode_numeric_text(text: str) -> Decimal:
    if _SPECIAL.fullmatch(text):
        return Decimal(text.strip())
    if not _DECIMAL.fullmatch(text):
        raise ValueError
    try:
        value = Decimal(text.strip())
    except ArithmeticError:  # the exponent is out of range even for Decimal
        raise _overflow() from None
    exponent = value.as_tuple().exponent
    # A short text such as 1e999999 must not become a million digits later.
    if not isinstance(exponent, int) or not -_MOST_SCALE <= exponent <= _MOST_DIGITS:
        raise _overflow()
    if value.adjusted() >= _MOST_DIGITS:
        raise _overflow()
    return value


def _overflow() -> NumericValueOutOfRange:
    return NumericValueOutOfRange("value overflows numeric format")


def _decode_numeric_binary(data: bytes) -> Decimal:
    count, weight, sign, scale = _HEADER.unpack_from(data)
    digits = struct.unpack(f"!{count}H", data[_HEADER.size :])
    if sign == _NAN:
        return Decimal("NaN")
    if sign in (_POSITIVE_INFINITY, _NEGATIVE_INFINITY):
        return Decimal("Infinity" if sign == _POSITIVE_INFINITY else "-Infinity")
    if sign not in (0, _NEGATIVE) or scale > _MOST_SCALE or any(d > 9999 for d in digits):
        raise ValueError
    # The last base-10000 digit may have decimals beyond the scale, which are cut off.
    shown = max(4 * (weight + 1) + scale, 0)
    text = "".join(f"{d:04d}" for d in digits)[:shown].ljust(shown, "0") or "0"
    return Decimal(f"{'-' if sign else ''}{text}E{-scale}")


NUMBERS: Final = (
    _integer("smallint", "SMALLINT", "h", "TINYINT", "UTINYINT"),
    _integer("integer", "INTEGER", "i", "USMALLINT"),
    _integer("bigint", "BIGINT", "q", "UINTEGER"),
    _integer("oid", "BIGINT", "I"),
    _float("real", "FLOAT", "f"),
    _float("double precision", "DOUBLE", "d"),
    pg_type(
        "numeric",
        -1,
        "DECIMAL",
        text=(_encode_numeric_text, _decode_numeric_text),
        binary=(
            lambda value: bytes(_DUMPER.dump(_decimal(value)) or b""),
            _decode_numeric_binary,
        ),
        also=("UBIGINT", "HUGEINT", "UHUGEINT", "BIGNUM"),
    ),
)
