"""A data frame as the source: read where it is, under the names the policy uses.

Taken are a pandas DataFrame, a polars DataFrame or LazyFrame, an Arrow table or dataset, and
whatever else hands out its columns by the Arrow PyCapsule protocol (``__arrow_c_stream__``). No
value makes it fail: a pandas column whose objects are of no one type is read as text, as a CSV
column would be.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, Protocol, TypeAlias, cast

import duckdb
import pyarrow as pa
import pyarrow.dataset

from tallyveil.cube.sources.duckdb_source import DuckDBSource
from tallyveil.cube.sources.open_source import OpenSource
from tallyveil.errors import SourceError
from tallyveil.policy import Policy
from tallyveil.policy.sql_names import is_table_reference

__all__ = ["Given", "Passed", "Tabular", "connected"]


class Tabular(Protocol):
    """What hands out its columns by the Arrow PyCapsule protocol."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


Given: TypeAlias = duckdb.DuckDBPyConnection | Tabular | pyarrow.dataset.Dataset | None
"""What a caller may pass as the source; None for the policy's own."""

Passed: TypeAlias = duckdb.DuckDBPyConnection | OpenSource | None
"""The same, opened."""


@contextmanager
def connected(policy: Policy, source: Given) -> Iterator[Passed]:
    """The connection passed, or the data frame passed as a source.

    Every table of the policy finds the frame under the name its ``from`` gives, and under its own.

    Raises TypeError for what is neither, and SourceError for a frame DuckDB cannot hold; without
    its own words, which may quote a value.
    """
    if source is None or isinstance(source, duckdb.DuckDBPyConnection):
        yield source
        return
    frame = _arrow(source)
    columns = frame.schema.names
    if len({name.lower() for name in columns}) < len(columns):
        raise SourceError(
            "the data frame passed as source has two columns of one name, upper and lower case "
            "aside",
            hint="Rename one of them.",
        )
    try:
        found = DuckDBSource.of(frame, _names(policy))
    except duckdb.Error as error:
        raise SourceError(
            f"the data frame passed as source cannot be read by DuckDB ({type(error).__name__})",
            hint="Give each of its columns a type that DuckDB has.",
        ) from None
    with closing(found):
        yield found


def _names(policy: Policy) -> list[str]:
    """The tables' own names, and the plain names in ``from``."""
    origins = [table.origin for table in policy.tables.values()]
    plain = [one.split(".")[-1].strip('"') for one in origins if is_table_reference(one)]
    return list(dict.fromkeys(name.lower() for name in (*policy.tables, *plain)))


def _arrow(source: object) -> pa.Table | pyarrow.dataset.Dataset:
    if isinstance(source, pyarrow.dataset.Dataset):
        return source
    if _is(source, "pandas", "DataFrame"):
        return _of_pandas(source)
    if _is(source, "polars", "LazyFrame"):
        source = cast(Any, source).collect()
    if hasattr(source, "__arrow_c_stream__"):
        with suppress(pa.ArrowException, TypeError, ValueError):  # a stream, but not of a table
            return pa.table(source)
    raise TypeError(
        "source is an open DuckDB connection, a pandas or polars DataFrame or an Arrow table or "
        f"dataset, not {type(source).__name__}; a file is named in the policy: [source] "
        'url = "people.parquet"'
    )


def _is(source: object, library: str, name: str) -> bool:
    """Without importing the library, which need not be there."""
    return any(
        kind.__name__ == name and kind.__module__.split(".")[0] == library
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
