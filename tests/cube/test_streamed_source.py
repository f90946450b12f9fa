"""A source with a library of its own: its batches are counted as DuckDB's own rows are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import duckdb
import pyarrow as pa
import pytest

from tallyveil.cube import Cube
from tallyveil.cube.cube_loading import _load
from tallyveil.cube.sources.duckdb_source import DuckDBSource
from tallyveil.cube.sources.streamed_source import NUMBER, StreamedSource
from tallyveil.errors import SourceError
from tallyveil.policy import Policy

SECRET = "hunter2"
ROWS = pa.table({"Sex": ["F", "M", "F", None, "F"], "age": [30, 31, 30, 30, 99]})
AXES: dict[str, Any] = {"sex": {"values": ["F", "M"], "nullable": True}, "age": {"range": [30, 31]}}


class Streamed(StreamedSource):
    words: ClassVar[str] = "the stream"
    failures: ClassVar[tuple[type[Exception], ...]] = (OSError,)

    def __init__(self, rows: pa.Table, *, fails: Exception | None = None) -> None:
        self._rows, self._fails = rows, fails

    def described(self, origin: str, key: str) -> pa.Schema:
        return self._rows.schema

    def batches(
        self, origin: str, columns: Sequence[str], key: str, *, alike: bool
    ) -> pa.RecordBatchReader:
        found = self._rows.select(columns)
        if alike:
            found = found.append_column("n", pa.repeat(1, len(found)))
            found = found.group_by(columns).aggregate([("n", "sum")])
            found = found.rename_columns([*columns, NUMBER])

        def each() -> Iterator[pa.RecordBatch]:
            yield from found.to_batches(max_chunksize=2)
            if self._fails is not None:
                raise self._fails

        return pa.RecordBatchReader.from_batches(found.schema, each())

    def close(self) -> None:
        pass


def loaded(table: Any, source: Any) -> Cube:
    columns = {table.name: source.schema(table.origin, table.origin_key)}
    return _load(table, source, columns, b"key")


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"count": "weight"},
        {"privacy_unit": {"column": "pid", "max_rows": 2}},
    ],
)
def test_it_is_counted_like_a_table(
    table: dict[str, Any],
    counts: Callable[..., list[int]],
    make_policy: Callable[..., Policy],
    database: duckdb.DuckDBPyConnection,
) -> None:
    rows = ROWS.append_column("weight", [[2, 0, 3, 1, 5]])
    rows = rows.append_column("pid", [[1, 1, 1, 1, None]])
    declared = make_policy(AXES, **table).tables["t"]
    database.execute("CREATE TABLE t AS FROM rows")
    expected = counts(loaded(declared, DuckDBSource(database.cursor())))
    assert sum(expected) > 0
    assert counts(loaded(declared, Streamed(rows))) == expected


@pytest.mark.parametrize(
    ("fails", "says"),
    [
        (OSError(SECRET), r"^tables\.t\.from: the stream failed while it was read \(OSError\)"),
        (SourceError("tables.t.from: gone"), "^tables.t.from: gone"),
    ],
)
def test_it_dies_half_way(fails: Exception, says: str, make_policy: Callable[..., Policy]) -> None:
    with pytest.raises(SourceError, match=says) as caught:
        loaded(make_policy(AXES).tables["t"], Streamed(ROWS, fails=fails))
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_type_that_duckdb_lacks() -> None:
    rows = pa.table({"age": pa.array([1.0], pa.float16())})
    with pytest.raises(SourceError, match="a type that cannot be read") as caught:
        Streamed(rows).schema("t", "tables.t.from")
    assert caught.value.detail == "age: halffloat"
