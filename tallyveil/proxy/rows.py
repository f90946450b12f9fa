"""Rows to DataRow messages, in chunks that can be sent one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from tallyveil.proxy.backend import data_row
from tallyveil.proxy.pgtypes import WireType

__all__ = ["data_rows"]

_CHUNK: Final = 64
"""Rows encoded between two looks at whether the client keeps up."""


def data_rows(
    fields: Sequence[tuple[str, WireType]],
    formats: Sequence[int] | None,
    rows: Sequence[tuple[Any, ...]],
) -> Iterator[bytes]:
    """``formats`` has a code per column; None says text for all."""
    codes = formats if formats is not None else (0,) * len(fields)
    encoders = [wire.type.encoder(code) for (_, wire), code in zip(fields, codes, strict=True)]
    width = len(encoders)
    for start in range(0, len(rows), _CHUNK):
        chunk = rows[start : start + _CHUNK]
        yield b"".join([data_row(encoders, row, width) for row in chunk])
