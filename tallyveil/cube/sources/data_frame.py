"""A data frame as the source: a copy of it in a private DuckDB, under the names the policy uses.

Taken are a pandas or polars DataFrame, an Arrow table, and whatever else hands out its columns by
the Arrow PyCapsule protocol (``__arrow_c_stream__``). No value makes it fail: a pandas column whose
objects are of no one type is read as text, as a CSV column would be.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol, TypeAlias

import duckdb
import pyarrow as pa

from tallyveil.cube.sources.file_kinds import CONFIG
from tallyveil.duckdb_connection import duckdb_connection
from tallyveil.errors import SourceError
from tallyveil.policy import Policy
from tallyveil.policy.sql_names import is_table_reference
from tallyveil.quoting import identifier

__all__ = ["Given", "Tabular", "connected"]


class Tabular(Protocol):
    """What hands out its columns by the Arrow PyCapsule protocol."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


Given: TypeAlias = duckdb.DuckDBPyConnection | Tabular | None
"""What a caller may pass as the source; None for the policy's own."""

_FRAME: Final = "__frame"


@contextmanager
def connected(policy: Policy, source: Given) -> Iterator[duckdb.DuckDBPyConnection | None]:
    """The connection passed, or a private one that holds the data frame passed.

    Every table of the policy finds the frame under the name its ``from`` gives, and under its own.

    Raises TypeError for what is neither, and SourceError for a frame DuckDB cannot hold; without
    its own words, which may quote a value.
    """
    if source is None or isinstance(source, duckdb.DuckDBPyConnection):
        yield source
        return
    frame = _arrow(source)
    if len({name.lower() for name in frame.column_names}) < frame.num_columns:
        raise SourceError(
            "the data frame passed as source has two columns of one name, upper and lower case "
            "aside",
            hint="Rename one of them.",
        )
    with duckdb_connection(config=CONFIG) as memory:
        try:
            memory.register(_FRAME, frame)
            for name in _names(policy):
                memory.execute(f"CREATE TABLE {identifier(name)} AS FROM {_FRAME}")
            memory.unregister(_FRAME)
        except duckdb.Error as error:
            raise SourceError(
                "the data frame passed as source cannot be read by DuckDB "
                f"({type(error).__name__})",
                hint="Give each of its columns a type that DuckDB has.",
            ) from None
        yield memory


def _names(policy: Policy) -> list[str]:
    """The tables' own names, and the plain names in ``from``."""
    origins = [table.origin for table in policy.tables.values()]
    plain = [one.split(".")[-1].strip('"') for one in origins if is_table_reference(one)]
    return list(dict.fromkeys(name.lower() for name in (*policy.tables, *plain)))


def _arrow(source: object) -> pa.Table:
    if _is_pandas(source):
        return _of_pandas(source)
    if hasattr(source, "__arrow_c_stream__"):
        with suppress(pa.ArrowException, TypeError, ValueError):  # a stream, but not of a table
            return pa.table(source)
    raise TypeError(
        "source is an open DuckDB connection, a pandas or polars DataFrame or an Arrow table, not "
        f'{type(source).__name__}; a file is named in the policy: [source] url = "people.parquet"'
    )


def _is_pandas(source: object) -> bool:
    """Without importing pandas, which need not be there."""
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.split(".")[0] == "pandas"
        for kind in type(source).__mro__
    )


def _of_pandas(frame: Any) -> pa.Table:
    """Column by column and without its index. NaN, NaT and None are NULL."""
    columns = [(str(name), _of_series(series)) for name, series in frame.items()]
    return pa.Table.from_arrays([c for _, c in columns], names=[name for name, _ in columns])


def _of_series(series: Any) -> pa.Array:
    try:
        return pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        missing = series.isna()
        texts = [None if gone else str(v) for v, gone in zip(series, missing, strict=True)]
        return pa.array(texts, pa.string())
