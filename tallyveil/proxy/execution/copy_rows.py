"""COPY … TO STDOUT: rows as text, csv or binary, in CopyData messages instead of DataRows.

The output is the same as PostgreSQL's, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from tallyveil.errors import UndefinedColumn
from tallyveil.gate.interface import ColumnType, CopyFormat, Statement
from tallyveil.proxy.client_memory import ConnectionMemory
from tallyveil.proxy.execution.pending_rows import Fields, PendingRows
from tallyveil.proxy.protocol import backend

__all__ = ["rows_for"]

_BINARY_HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_BINARY_END: Final = b"\xff\xff"
_ESCAPES: Final = {
    8: b"\\b",
    9: b"\\t",
    10: b"\\n",
    11: b"\\v",
    12: b"\\f",
    13: b"\\r",
}

_Encoders = Iterable[Callable[[Any], bytes]]


def rows_for(
    statement: Statement,
    holding: ConnectionMemory,
    formats: Sequence[int] | None = None,
    expected: Fields | None = None,
) -> PendingRows:
    """The object that collects a statement's rows. COPY ignores ``formats``."""
    if statement.copy is not None:
        return CopyRows(holding, statement.copy)
    return PendingRows(holding, formats, expected)


class CopyRows(PendingRows):
    """The rows of one COPY, between `opening` and `closing`."""

    def __init__(self, holding: ConnectionMemory, wanted: CopyFormat) -> None:
        super().__init__(holding)
        self._wanted = wanted
        self._pending = _BINARY_HEADER if wanted.kind == "binary" else b""

    def begin(self, columns: Sequence[ColumnType]) -> Callable[[Sequence[tuple[Any, ...]]], None]:
        names = [column.name for column in columns]
        binary = self._wanted.kind == "binary"
        self._formats = (int(binary),) * len(names)
        self._message = self._binary if binary else _LINES[self._wanted.kind](self._wanted, names)
        return super().begin(columns)

    def opening(self) -> bytes:
        width = len(self.fields or ())
        start = backend.copy_out_response(int(self._wanted.kind == "binary"), width)
        if not self._wanted.header:
            return start
        names = [name for name, _ in self.fields or ()]
        encoders = (str.encode,) * width
        csv = self._wanted.kind == "csv"
        # The header quotes names only where necessary, whatever FORCE_QUOTE says.
        header = _csv(self._wanted, (), ()) if csv else _text(self._wanted, ())
        return start + header(encoders, names, width)

    def closing(self) -> bytes:
        if self._wanted.kind != "binary":
            return backend.COPY_DONE
        return backend.copy_data(self._pending + _BINARY_END) + backend.COPY_DONE

    def _binary(self, encoders: _Encoders, row: Iterable[Any], count: int) -> bytes:
        # A tuple is the body of a DataRow. The header is sent with the first tuple.
        body = backend.data_row(encoders, row, count)[5:]
        pending, self._pending = self._pending, b""
        return backend.copy_data(pending + body)


def _text(wanted: CopyFormat, names: Sequence[str]) -> Callable[..., bytes]:
    delimiter, null = wanted.delimiter.encode(), wanted.null.encode()
    special = re.compile(b"[\b-\r\\\\" + re.escape(delimiter) + b"]")

    def escape(found: re.Match[bytes]) -> bytes:
        return _ESCAPES.get(found[0][0]) or b"\\" + found[0]

    def line(encoders: _Encoders, row: Iterable[Any], count: int) -> bytes:
        parts = [
            null if value is None else special.sub(escape, encode(value))
            for encode, value in zip(encoders, row, strict=True)
        ]
        return backend.copy_data(delimiter.join(parts) + b"\n")

    return line


def _csv(
    wanted: CopyFormat, names: Sequence[str], forced: tuple[str, ...] | None
) -> Callable[..., bytes]:
    delimiter, null = wanted.delimiter.encode(), wanted.null.encode()
    quote, escape = wanted.quote.encode(), wanted.escape.encode()
    special = re.compile(b"[\r\n" + re.escape(delimiter) + re.escape(quote) + b"]")
    doubled = re.compile(b"[" + re.escape(quote) + re.escape(escape) + b"]")
    always = [forced is None or name in forced for name in names]

    def quoted(text: bytes) -> bytes:
        return quote + doubled.sub(lambda found: escape + found[0], text) + quote

    def needs(text: bytes, alone: bool) -> bool:
        # As a whole line, \. ends the data in PostgreSQL before 18.
        return text == null or special.search(text) is not None or (alone and text == b"\\.")

    def line(encoders: _Encoders, row: Iterable[Any], count: int) -> bytes:
        parts = []
        for i, (encode, value) in enumerate(zip(encoders, row, strict=True)):
            text = null if value is None else encode(value)
            force = always and always[i]
            if value is not None and (force or needs(text, count == 1)):
                text = quoted(text)
            parts.append(text)
        return backend.copy_data(delimiter.join(parts) + b"\n")

    return line


def _csv_rows(wanted: CopyFormat, names: Sequence[str]) -> Callable[..., bytes]:
    """Write csv lines. Raises UndefinedColumn if FORCE_QUOTE names a column that the rows lack."""
    for name in wanted.force_quote or ():
        if name not in names:
            raise UndefinedColumn(f'column "{name}" does not exist')
    return _csv(wanted, names, wanted.force_quote)


_LINES: Final = {"text": _text, "csv": _csv_rows}
