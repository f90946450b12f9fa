"""The types of the wire: DuckDB's names to PostgreSQL's types, values to bytes and back.

One file per family of types; each gives a tuple of `PgType`, and this file indexes them. Nothing
here knows of messages or statements.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from tallyveil.errors import FeatureNotSupported, StatementError
from tallyveil.proxy.pgtypes.arrays import array_of
from tallyveil.proxy.pgtypes.base import PgType, WireType, decode_utf8, unsupported
from tallyveil.proxy.pgtypes.intervals import INTERVAL
from tallyveil.proxy.pgtypes.numbers import NUMBERS
from tallyveil.proxy.pgtypes.strings import STRINGS
from tallyveil.proxy.pgtypes.times import TIMES

__all__ = [
    "PgType",
    "WireType",
    "by_oid",
    "decode_parameter",
    "decode_utf8",
    "from_duckdb",
    "parameter_type",
    "sql_type",
]

_SCALARS: Final = (*NUMBERS, *STRINGS, *TIMES, INTERVAL)
_BY_OID: Final = {t.oid: t for t in _SCALARS} | {
    t.array_oid: array_of(t) for t in _SCALARS if t.array_oid
}

# Of several types with one name in DuckDB, the first is that of results.
_DUCKDB: Final = {name: t for t in reversed(_SCALARS) for name in (t.duckdb, *t.also)}
_DECIMAL: Final = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_LIST: Final = re.compile(r"(?P<element>.*?)\[\d*\]", re.DOTALL)


@lru_cache(maxsize=1024)
def from_duckdb(name: str) -> WireType:
    """How a DuckDB type goes over the wire; ``DECIMAL(p,s)`` has typmod (p << 16 | s) + 4.

    Raises FeatureNotSupported for types PostgreSQL has no equal of (STRUCT, MAP, nested lists).
    """
    if match := _DECIMAL.fullmatch(name):
        return WireType(_BY_OID[1700], (int(match[1]) << 16 | int(match[2])) + 4)
    if match := _LIST.fullmatch(name):
        element = from_duckdb(match["element"])
        array = _BY_OID.get(element.type.array_oid)
        if array is None:
            raise unsupported(f"type {name} is not supported")
        return WireType(array, element.typmod)
    found = _DUCKDB.get("ENUM" if name.startswith("ENUM(") else name)
    if found is None:
        raise unsupported(f"type {name} is not supported")
    return WireType(found)


def sql_type(name: str) -> str:
    """A DuckDB type as PostgreSQL's SQL writes it; text where PostgreSQL has none."""
    try:
        wire = from_duckdb(name)
    except FeatureNotSupported:
        return "text"
    if wire.typmod < 0:
        return wire.type.name
    precision, scale = divmod(wire.typmod - 4, 1 << 16)
    array = "[]" if wire.type.oid != 1700 else ""
    return f"numeric({precision},{scale}){array}"


def by_oid(oid: int) -> PgType:
    """Raises FeatureNotSupported for an OID outside the table above."""
    found = _BY_OID.get(oid)
    if found is None:
        raise unsupported(f"parameter type with OID {oid} is not supported")
    return found


def parameter_type(oid: int) -> str | None:
    """The DuckDB type of a declared parameter; None where the gate is to infer it."""
    return None if oid in (0, 705) else by_oid(oid).duckdb


def decode_parameter(number: int, oid: int, code: int, data: bytes) -> Any:
    """The value of parameter ``$number``, for errors that say which one was wrong."""
    try:
        return by_oid(oid).read(code, data)
    except StatementError as error:
        error.detail = f"In parameter ${number}." + (f" {error.detail}" if error.detail else "")
        raise
