"""Declared values as Arrow gives them to DuckDB and to files."""

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
    """The values of an attribute whose type in DuckDB is ``sql_type``; None is NULL."""
    return pa.array(values, _TYPES[sql_type])
