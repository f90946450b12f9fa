"""Charged columns and recorded answers as bytes in the ledger.

zlib over a JSON line and the arrays it describes, each in the narrowest integers that hold it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from tallyveil.errors import LedgerError
from tallyveil.mechanisms.units import IntArray
from tallyveil.rewriter.workload import Column

__all__ = ["decode_answers", "decode_columns", "encode_answers", "encode_columns"]

_WIDTHS = ("<i1", "<i2", "<i4", "<i8")


def encode_columns(columns: Sequence[Column], scales: Sequence[float]) -> bytes:
    header, body = [], b""
    for column, scale in zip(columns, scales, strict=True):
        arrays = [_narrow(a) for a in (column.rows, column.cells, column.coefficients)]
        header.append(
            {
                "axes": column.axes,
                "shape": column.shape,
                "height": column.height,
                "multiplier": str(column.multiplier),
                "scale": float(scale).hex(),
                "entries": len(column.rows),
                "widths": [a.dtype.str for a in arrays],
            }
        )
        body += b"".join(a.tobytes() for a in arrays)
    return zlib.compress(json.dumps(header).encode() + b"\n" + body, 1)


def decode_columns(blob: bytes) -> tuple[tuple[Column, ...], tuple[float, ...]]:
    """The inverse of `encode_columns`. Raises LedgerError for anything else."""
    try:
        header, _, body = zlib.decompress(blob).partition(b"\n")
        columns, scales, at = [], [], 0
        for about in json.loads(header):
            arrays = []
            for width in about["widths"]:
                array = np.frombuffer(body, np.dtype(width), about["entries"], at)
                at += array.nbytes
                arrays.append(array.astype(np.int64))
            rows, cells, coefficients = arrays
            columns.append(
                Column(
                    tuple(about["axes"]),
                    tuple(about["shape"]),
                    about["height"],
                    rows,
                    cells,
                    coefficients,
                    Fraction(about["multiplier"]),
                )
            )
            scales.append(float.fromhex(about["scale"]))
    except (zlib.error, ValueError, KeyError, TypeError) as error:
        raise LedgerError("a charge in the ledger cannot be read") from error
    return tuple(columns), tuple(scales)


def encode_answers(values: Sequence[Sequence[int]]) -> bytes:
    """Integers of any size, one list per column."""
    return zlib.compress(json.dumps([[int(v) for v in column] for column in values]).encode(), 1)


def decode_answers(blob: bytes, heights: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Raises LedgerError unless there is one integer per row of each column."""
    try:
        values = tuple(tuple(column) for column in json.loads(zlib.decompress(blob)))
    except (zlib.error, ValueError, TypeError) as error:
        raise LedgerError("an answer in the ledger cannot be read") from error
    if [len(column) for column in values] != list(heights) or not all(
        type(value) is int for column in values for value in column
    ):
        raise LedgerError("an answer in the ledger does not fit its charge")
    return values


def _narrow(values: IntArray) -> np.ndarray[tuple[int, ...], np.dtype[np.signedinteger]]:
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    for width in _WIDTHS:
        info = np.iinfo(np.dtype(width))
        if info.min <= low and high <= info.max:
            return values.astype(width)
    return values
