"""Declared values as Arrow arrays, for DuckDB and for files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

__all__ = ["array_of"]

_TYPES: Final = {
    "VARCHAR": pa.string(),
    "BOOLEAN": pa.bool_(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
}


def array_of(values: Sequence[object], sql_type: str) -> pa.Array:
    """Return the values of an attribute of DuckDB type ``sql_type`` as an array; None is NULL."""
    return pa.array(values, _TYPES[sql_type])
