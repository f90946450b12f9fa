"""Charged columns and recorded answers as bytes in the ledger.

zlib over a JSON line and the arrays it describes, each in the narrowest integers that hold it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tallyveil.errors import LedgerError
from tallyveil.mechanisms.units import IntArray
from tallyveil.workload.workload import Column, Factor

__all__ = ["decode_answers", "decode_columns", "encode_answers", "encode_columns"]

_WIDTHS = ("<i1", "<i2", "<i4", "<i8")


def encode_columns(columns: Sequence[Column], scales: Sequence[float]) -> bytes:
    header, body = [], b""
    for column, scale in zip(columns, scales, strict=True):
        about: dict[str, Any] = {
            "multiplier": str(column.multiplier),
            "scale": float(scale).hex(),
            "factors": [],
        }
        for factor in column.factors:
            arrays = [_narrow(a) for a in (factor.rows, factor.cells, factor.coefficients)]
            about["factors"].append(
                {
                    "axes": factor.axes,
                    "shape": factor.shape,
                    "height": factor.height,
                    "entries": len(factor.rows),
                    "widths": [a.dtype.str for a in arrays],
                }
            )
            body += b"".join(a.tobytes() for a in arrays)
        if column.selected is not None:
            selected = _narrow(column.selected)
            about["selected"] = {"entries": len(selected), "widths": [selected.dtype.str]}
            body += selected.tobytes()
        header.append(about)
    return zlib.compress(json.dumps(header).encode() + b"\n" + body, 1)


def decode_columns(blob: bytes) -> tuple[tuple[Column, ...], tuple[float, ...]]:
    """The inverse of `encode_columns`, and of the first format's, where a column was one factor.

    Raises LedgerError for anything else.
    """
    try:
        header, _, body = zlib.decompress(blob).partition(b"\n")
        columns, scales = [], []
        arrays = _Arrays(body)
        for about in json.loads(header):
            factors = tuple(_factor(f, arrays) for f in about.get("factors", [about]))
            selected = arrays.next(about["selected"])[0] if "selected" in about else None
            columns.append(Column(factors, Fraction(about["multiplier"]), selected))
            scales.append(float.fromhex(about["scale"]))
    except (zlib.error, ValueError, KeyError, TypeError) as error:
        raise LedgerError("a charge in the ledger cannot be read") from error
    return tuple(columns), tuple(scales)


class _Arrays:
    """The arrays that follow the header, one after the other."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def next(self, about: dict[str, Any]) -> list[IntArray]:
        found = []
        for width in about["widths"]:
            array = np.frombuffer(self._body, np.dtype(width), about["entries"], self._at)
            self._at += array.nbytes
            found.append(array.astype(np.int64))
        return found


def _factor(about: dict[str, Any], arrays: _Arrays) -> Factor:
    rows, cells, coefficients = arrays.next(about)
    axes, shape = tuple(about["axes"]), tuple(about["shape"])
    return Factor(axes, shape, about["height"], rows, cells, coefficients)


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
