"""What a column of public data holds: its values if they are few, and its ends.

This looks at rows, so nothing confidential may be drafted from it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import duckdb

from tallyveil.errors import SourceError
from tallyveil.quoting import identifier

__all__ = ["Contents", "contents"]

_MOST: Final = 50


class Contents(NamedTuple):
    """``values`` as texts in order, None if there are more than 50 or they are no texts. ``ends``
    are the lowest and highest finite value of a number or time, None if there is none."""

    values: tuple[str, ...] | None
    ends: tuple[Any, Any] | None


def contents(
    connection: duckdb.DuckDBPyConnection, relation: str, column: str, column_type: str
) -> Contents:
    """Raises SourceError if the rows cannot be read."""
    name, base = identifier(column), column_type.split("(")[0]
    text = base in ("VARCHAR", "ENUM")
    try:
        if text:
            query = f"SELECT DISTINCT CAST({name} AS VARCHAR) AS v FROM {relation}"
            query += f" WHERE v IS NOT NULL LIMIT {_MOST + 1}"
            values = sorted(value for (value,) in connection.execute(query).fetchall())
            return Contents(tuple(values) if len(values) <= _MOST else None, None)
        finite = f"isfinite({name})" if base in _MAY_BE_INFINITE else "true"
        if base not in _MAY_BE_INFINITE and not base.endswith(("INT", "INTEGER", "DECIMAL")):
            return Contents(None, None)
        shown = f"CAST({name} AS DATE)" if base.startswith(("DATE", "TIMESTAMP")) else name
        query = f"SELECT min({shown}), max({shown}) FROM {relation} WHERE {finite}"
        low, high = connection.execute(query).fetchone() or (None, None)
    except duckdb.Error as error:
        raise SourceError(
            f"the rows of {relation} cannot be read ({type(error).__name__})",
            hint="Draft from the schema alone: leave out --look.",
        ) from None
    return Contents(None, None if low is None else (low, high))


_MAY_BE_INFINITE: Final = frozenset(
    (
        *("FLOAT", "DOUBLE", "DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"),
        "TIMESTAMP WITH TIME ZONE",
    )
)
