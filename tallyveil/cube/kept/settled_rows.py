"""Which rows of a table that grows are counted of some days, and which are not."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Final, NamedTuple

from tallyveil.cube.cube_loading import checked_columns, counted_rows, executed
from tallyveil.cube.reading import INTEGERS
from tallyveil.cube.sources import Passed, Rows, opened
from tallyveil.cube.table_columns import arrival_read, attribute_read, column_type
from tallyveil.policy import Policy, Table
from tallyveil.quoting import identifier

__all__ = ["Unsettled", "settled", "unsettled_rows"]

_EQUAL: Final = '"equal rows"'
_FEW: Final = 1 << 20  # cells of a day


def settled(
    table: Table, columns: Mapping[str, str], rows: Rows, first: dt.date, last: dt.date
) -> Rows:
    """The rows of a table that grows whose day is one of these, and which arrived in time. No row
    of another day, and no later one, changes which they are."""
    axis = table.domain.names.index(table.days.name)
    day = attribute_read(table, axis, columns)
    conditions = [f"{day} BETWEEN DATE '{first}' AND DATE '{last}'"]
    if table.data.arrived is not None:
        conditions.append(f"{arrival_read(table, columns)} <= {day} + {table.data.late}")
    found, column = None, table.columns[axis]
    if rows.days is not None and column_type("", column, columns) in ("DATE", "TIMESTAMP"):
        found = rows.days(column, first, last)
    relation = f"(SELECT * FROM {found or rows.relation} AS o WHERE {' AND '.join(conditions)})"
    if rows.number is not None or not _often_equal(table, columns, text=rows.days is not None):
        return Rows(rows.connection, relation, rows.number, rows.again)
    names = ", ".join(dict.fromkeys(identifier(name.lower()) for name in table.columns))
    relation = f"(SELECT {names}, count(*) AS {_EQUAL} FROM {relation} AS o GROUP BY ALL)"
    return Rows(rows.connection, relation, _EQUAL, rows.again)


def _counting_unsettled(
    table: Table, columns: Mapping[str, str], rows: Rows, through: dt.date
) -> str:
    """SQL that returns how many rows of a table that grows came too late, are of days after
    ``through``, and have no day of the range."""
    day = attribute_read(table, table.domain.names.index(table.days.name), columns)
    first, last = table.day_range
    within, over = f"{day} BETWEEN DATE '{first}' AND DATE '{last}'", f"{day} <= DATE '{through}'"
    late = "false"
    if table.data.arrived is not None:
        late = f"NOT coalesce({arrival_read(table, columns)} <= {day} + {table.data.late}, false)"
    conditions = (
        f"{within} AND {over} AND {late}",
        f"{within} AND NOT {over}",
        f"NOT coalesce({within}, false)",
    )
    counted = ", ".join(map(rows.counted, conditions))
    return f"SELECT {counted} FROM {rows.relation} AS origin"


def _often_equal(table: Table, columns: Mapping[str, str], *, text: bool) -> bool:
    """Whether to count equal rows first, which takes less time than to code each: where there are
    few cells on a day, and equal values mean the same, also of ``text`` without a collation."""
    if table.privacy_unit.column is not None or table.count is not None:
        return False
    kinds = {*INTEGERS, "DATE", "BOOLEAN", *(["VARCHAR"] if text else [])}
    every = kinds.issuperset(columns[name.lower()] for name in table.columns)
    return every and table.domain.size // table.days.size <= _FEW


class Unsettled(NamedTuple):
    """How many rows came too ``late`` for their day, are of days that are not over (``later``), or
    have no day of the declared range (``undated``)."""

    late: int
    later: int
    undated: int


def unsettled_rows(policy: Policy, name: str, source: Passed, through: dt.date) -> Unsettled:
    """Of all rows of the source, with days up to ``through`` published. Exact, confidential
    numbers. Raises SourceError."""
    table = policy.tables[name]
    alone = policy.model_copy(update={"tables": {name: table}})
    with opened(alone, source) as found:
        columns = checked_columns(alone, found)[name]
        found.begin()
        with counted_rows(table, found, columns, False) as rows:
            sql = _counting_unsettled(table, columns, rows, through)
            return Unsettled(*executed(rows.connection, sql).fetchall()[0])
