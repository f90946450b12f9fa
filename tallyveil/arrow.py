"""Declared values as Arrow arrays, for DuckDB and for files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from tallyveil.arrays import IntArray

__all__ = ["array_of", "decimals_of"]

_TYPES: Final = {
    "VARCHAR": pa.string(),
    "BOOLEAN": pa.bool_(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
    "TIME": pa.time64("us"),
    "INTERVAL": pa.duration("us"),
}
_DECIMAL: Final = re.compile(r"DECIMAL\(([0-9]+),([0-9]+)\)")


def array_of(values: Sequence[object], sql_type: str) -> pa.Array:
    """Return the values of an attribute of DuckDB type ``sql_type`` as an array; None is NULL."""
    found = _DECIMAL.fullmatch(sql_type)
    kind = _TYPES[sql_type] if found is None else pa.decimal128(int(found[1]), int(found[2]))
    return pa.array(values, kind)


def decimals_of(units: IntArray, scale: int) -> pa.Array:
    """Return decimals of 38 digits that are so many units of the last digit."""
    words = np.stack([units, units >> 63], axis=1).astype("<i8")
    kind = pa.decimal128(38, scale)
    return pa.Array.from_buffers(kind, len(units), [None, pa.py_buffer(words.tobytes())])
