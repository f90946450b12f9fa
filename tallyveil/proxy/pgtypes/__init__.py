"""The types of the wire: DuckDB's names to PostgreSQL's types, values to bytes and back.

Each family of types has a file, which defines a tuple of `PgType`; this file indexes them. Nothing
here depends on messages or statements.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from tallyveil.errors import FeatureNotSupported, StatementError
from tallyveil.proxy.pgtypes.base import PgType, WireType, decode_utf8, unsupported
from tallyveil.proxy.pgtypes.intervals import INTERVAL
from tallyveil.proxy.pgtypes.pg_arrays import array_of
from tallyveil.proxy.pgtypes.pg_numbers import NUMBERS
from tallyveil.proxy.pgtypes.pg_strings import STRINGS
from tallyveil.proxy.pgtypes.pg_times import TIMES

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

# If several types have one name in DuckDB, results use the first.
_DUCKDB: Final = {name: t for t in reversed(_SCALARS) for name in (t.duckdb, *t.also)}
_DECIMAL: Final = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_LIST: Final = re.compile(r"(?P<element>.*?)\[\d*\]", re.DOTALL)


@lru_cache(maxsize=1024)
def from_duckdb(name: str) -> WireType:
    """The wire type of a DuckDB type; ``DECIMAL(p,s)`` has typmod (p << 16 | s) + 4.

    Raises FeatureNotSupported for types without a PostgreSQL equivalent (STRUCT, MAP, nested
    lists).
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
    """The name of a DuckDB type in PostgreSQL's SQL; text if PostgreSQL has no equivalent."""
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
    """The type with this OID. Raises FeatureNotSupported if it is not in the table above."""
    found = _BY_OID.get(oid)
    if found is None:
        raise unsupported(f"parameter type with OID {oid} is not supported")
    return found


def parameter_type(oid: int) -> str | None:
    """The DuckDB type of a declared parameter, or None if the gate must infer it."""
    return None if oid in (0, 705) else by_oid(oid).duckdb


def decode_parameter(number: int, oid: int, code: int, data: bytes) -> Any:
    """Decode parameter ``$number``. Errors name the parameter in their detail."""
    try:
        return by_oid(oid).read(code, data)
    except StatementError as error:
        error.detail = f"In parameter ${number}." + (f" {error.detail}" if error.detail else "")
        raise
