"""What PostgreSQL's COPY sends as CSV, as Arrow record batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import psycopg
import pyarrow as pa
import pyarrow.csv as pc

__all__ = ["BLOCK", "copied_rows"]

BLOCK: Final = 1 << 24
"""The bytes of a block; no row may be longer."""


class _Sent:
    """A file of the bytes of all messages."""

    closed = False

    def __init__(self, messages: Iterator[bytes]) -> None:
        self._messages, self._rest = messages, b""

    def read(self, size: int) -> bytes:
        parts, length = [self._rest], len(self._rest)
        while length < size and (message := next(self._messages, None)) is not None:
            parts.append(message)
            length += len(message)
        whole = b"".join(parts)
        self._rest = whole[size:]
        return whole[:size]

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def copied_rows(
    connection: psycopg.Connection[object], select: str, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows that ``select`` returns, which have the columns of ``schema``.

    The connection is in use until the last batch is read or the iterator closed. Raises
    psycopg.Error.
    """
    sql = f"COPY ({select}) TO STDOUT (FORMAT csv)".encode()
    with connection.cursor() as cursor, cursor.copy(sql) as copy:
        messages = (bytes(message) for message in copy)
        first = next(messages, None)
        if first is None:
            return
        yield from pc.open_csv(
            pa.PythonFile(_Sent(_chain(first, messages)), mode="r"),
            pc.ReadOptions(column_names=schema.names, block_size=BLOCK, use_threads=False),
            pc.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            pc.ConvertOptions(
                column_types=schema,
                null_values=[""],
                true_values=["t"],
                false_values=["f"],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )


def _chain(first: bytes, others: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from others
