"""A source with a library of its own, which streams its rows as Arrow record batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import duckdb
import pyarrow as pa

from tallyveil.cache import cached_property
from tallyveil.cube.sources.duckdb_source import CONFIG, failed
from tallyveil.cube.sources.open_source import Rows
from tallyveil.duckdb_connection import duckdb_connection
from tallyveil.errors import SourceError
from tallyveil.policy.sql_names import is_table_reference
from tallyveil.quoting import identifier

__all__ = ["NUMBER", "StreamedSource", "counted_select", "relation"]

NUMBER: Final = "number of equal rows"
"""The column of batches that hold equal rows once."""

_BATCHES: Final = "batches"


def relation(origin: str) -> str:
    """What stands after FROM, under the name ``origin``, in a database's own SQL."""
    # In brackets, so that a second statement is a syntax error and does not run; line breaks end a
    # comment at the end of the custodian's SELECT.
    select = f"SELECT * FROM {origin}" if is_table_reference(origin) else origin
    return f"(\n{select}\n) origin"


def counted_select(
    items: Sequence[str], fields: Sequence[tuple[str, pa.DataType]], source: str, *, alike: bool
) -> tuple[str, pa.Schema]:
    """The SELECT of these expressions after FROM ``source``, and its columns in their order; where
    the rows are ``alike``, of equal ones once with their `NUMBER`."""
    grouped, counted = (f" GROUP BY {', '.join(items)}", ["count(*)"]) if alike else ("", [])
    numbered = (f"{item} AS c{i}" for i, item in enumerate([*items, *counted]))
    schema = pa.schema([*fields, (NUMBER, pa.int64())] if alike else fields)
    return f"SELECT {', '.join(numbered)} FROM {source}{grouped}", schema


class StreamedSource(ABC):
    """Feeds the batches into a private DuckDB; a subclass knows where they come from.

    It may raise SourceError. The ``failures`` of its library become one that quotes nothing.
    """

    words: str
    failures: tuple[type[Exception], ...] = ()

    @abstractmethod
    def described(self, origin: str, key: str) -> pa.Schema:
        """The columns of ``origin`` with the types of its batches, from its schema alone."""

    @abstractmethod
    def batches(
        self, origin: str, columns: Sequence[str], key: str, *, alike: bool
    ) -> pa.RecordBatchReader:
        """The rows with these columns of `described`, in its order, named and typed as there.

        Where they are ``alike``, equal rows may be given once, with their number in one more
        column, `NUMBER`. No two values that `reading` tells apart are equal.
        """

    def value(self, origin: str, name: str) -> str:
        """What DuckDB makes of a batch's column: an expression that never fails."""
        return identifier(name)

    def _select(self, origin: str, names: Sequence[str], *more: str) -> str:
        values = (f"{self.value(origin, name)} AS {identifier(name)}" for name in names)
        return f"SELECT {', '.join([*values, *more])} FROM {_BATCHES}"

    def schema(self, origin: str, key: str) -> dict[str, str]:
        found = self._described(origin, key)
        if len({name.lower() for name in found.names}) < len(found):
            raise SourceError(
                f"{key}: two columns have the same name, upper and lower case aside",
                hint="Rename one of them in a SELECT given as from.",
            )
        try:
            with self._registered(found.empty_table()) as memory:
                select = self._select(origin, found.names)
                rows = memory.execute(f"DESCRIBE {select}").fetchall()
        except duckdb.NotImplementedException:
            raise SourceError(
                f"{key}: a column has a type that cannot be read",
                detail=", ".join(f"{one.name}: {one.type}" for one in found),
                hint="Cast it or leave it out in a SELECT given as from.",
            ) from None
        except duckdb.Error as error:
            raise failed(key, error) from None
        return {str(name).lower(): str(column_type) for name, column_type, *_ in rows}

    @contextmanager
    def rows(self, origin: str, columns: Sequence[str], key: str, *, alike: bool) -> Iterator[Rows]:
        asked = {name.lower() for name in columns}
        names = [name for name in self._described(origin, key).names if name.lower() in asked]
        lost: list[SourceError] = []

        def each(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
            try:
                yield from reader
            except SourceError as error:  # which DuckDB would wrap in words of its own
                lost.append(error)
                raise
            except self.failures as error:
                lost.append(self._lost(error, key))
                raise

        try:
            reader = self.batches(origin, names, key, alike=alike)
            stream = pa.RecordBatchReader.from_batches(reader.schema, each(reader))
            number = identifier(NUMBER) if NUMBER in reader.schema.names else None
            more = [] if number is None else [number]
            with self._registered(stream) as memory:
                yield Rows(memory, f"({self._select(origin, names, *more)})", number)
        except self.failures as error:
            raise self._lost(error, key) from None
        except duckdb.Error as error:
            raise (lost[0] if lost else failed(key, error)) from None

    @contextmanager
    def _registered(
        self, batches: pa.Table | pa.RecordBatchReader
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        self._memory.register(_BATCHES, batches)
        try:
            yield self._memory
        finally:
            self._memory.unregister(_BATCHES)

    @cached_property
    def _memory(self) -> duckdb.DuckDBPyConnection:
        # To open one takes longer than to read a small table.
        return duckdb_connection(config=CONFIG)

    def _described(self, origin: str, key: str) -> pa.Schema:
        try:
            return self.described(origin, key)
        except self.failures as error:
            raise self._lost(error, key) from None

    def _lost(self, error: Exception, key: str) -> SourceError:
        return SourceError(f"{key}: {self.words} failed while it was read ({type(error).__name__})")

    def begin(self) -> None:
        return None

    def relations(self, origin: str) -> frozenset[str] | None:
        return None

    def may_filter(self, origin: str) -> bool:
        return False

    @abstractmethod
    def close(self) -> None: ...
