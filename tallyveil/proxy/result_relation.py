"""Answers as data frames and Arrow tables, and in a notebook with their costs."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Final

import duckdb
import pyarrow as pa

from tallyveil.dbapi import InterfaceError
from tallyveil.gate import ColumnType, Notice
from tallyveil.interval import Interval

__all__ = ["Relation", "arrow_table", "require"]

_SHOWN: Final = 20
"""The rows shown in a notebook."""


def require(package: str) -> None:
    """Raise InterfaceError if the package is not installed."""
    if importlib.util.find_spec(package) is None:
        raise InterfaceError(
            f"{package} is not installed",
            hint=f"pip install {package}; arrow() and fetchall() do without it.",
        )


class Relation:
    """A DuckDB relation over noisy rows, with all its methods, and ``notices``: the cost of the
    answer and the width of its intervals. A notebook shows the notices below the rows.

    The rows are already computed: operations on them do not query the gate and cost nothing.
    """

    def __init__(self, rows: duckdb.DuckDBPyRelation, notices: tuple[Notice, ...]) -> None:
        self._rows = rows
        self.notices = notices

    def df(self) -> Any:
        """Return a pandas DataFrame. Raises InterfaceError if pandas is not installed."""
        require("pandas")
        return self._rows.df()

    def pl(self) -> Any:
        """Return a polars DataFrame. Raises InterfaceError if polars is not installed."""
        require("polars")
        return self._rows.pl()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._rows, name)

    def __getitem__(self, name: str) -> Any:
        return self._rows[name]

    def __len__(self) -> int:
        return len(self._rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return "\n".join([str(self._rows).rstrip(), *map(_text, self.notices)])

    def _repr_html_(self) -> str:
        # As texts: to convert DuckDB's TIMESTAMPTZ to Python values takes a time zone package.
        shown = self._rows.limit(_SHOWN).project("CAST(COLUMNS(*) AS VARCHAR)").fetchall()
        more = len(self) - len(shown)
        rows = [_row("th", self._rows.columns), *(_row("td", row) for row in shown)]
        lines = [*([f"{more:,} more rows"] if more else []), *map(_text, self.notices)]
        below = "".join(f"<p>{escape(line)}</p>" for line in lines)
        return f"<table>{''.join(rows)}</table>{below}"


def _row(cell: str, values: Iterable[object]) -> str:
    inside = "".join(f"<{cell}>{escape(str(value))}</{cell}>" for value in values)
    return f"<tr>{inside}</tr>"


def _text(notice: Notice) -> str:
    prefix = "WARNING: " if notice.severity == "WARNING" else ""
    return "\n".join(filter(None, (prefix + notice.message, notice.detail, notice.hint)))


def arrow_table(
    columns: Sequence[ColumnType],
    rows: Sequence[tuple[Any, ...]],
    local: duckdb.DuckDBPyConnection,
) -> pa.Table:
    """Return rows of Python values as an Arrow table, with the types that DuckDB gives the columns.

    Raises InterfaceError for a value that Arrow cannot hold, such as a very long interval.
    """
    nulls = ", ".join(f"CAST(NULL AS {column.type})" for column in columns)
    types = local.sql(f"SELECT {nulls}").to_arrow_table().schema.types if columns else []
    arrays = []
    for number, (column, kind) in enumerate(zip(columns, types, strict=True)):
        values = [_arrow_value(row[number], kind) for row in rows]
        try:
            arrays.append(pa.array(values, kind))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise InterfaceError(
                f'column "{column.name}" holds a {column.type} that Arrow cannot represent',
                hint="Use fetchall(), or cast the column to text.",
            ) from None
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])


def _arrow_value(value: Any, kind: pa.DataType) -> Any:
    if isinstance(value, Interval):
        return pa.MonthDayNano([value.months, value.days, 1000 * value.microseconds])
    if isinstance(value, list):
        return [_arrow_value(each, kind.value_type) for each in value]
    return value if value is None or not pa.types.is_string(kind) else str(value)
