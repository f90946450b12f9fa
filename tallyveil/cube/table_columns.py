"""How the columns that a table names are read: expressions over the source's columns.

``columns`` are the source's columns, lower case, with their DuckDB types. All raise SourceError for
a column that is missing or of a type that cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tallyveil.cube.reading import INTEGERS, read, read_count
from tallyveil.cube.steps import moment
from tallyveil.errors import SourceError
from tallyveil.policy import Table
from tallyveil.quoting import identifier

__all__ = [
    "arrival_read", "attribute_read", "column_type", "time_read", "unit_kind", "unit_read",
    "weight_read",
]  # fmt: skip

_OFFSET: Final = r".*[0-9]:[0-9].*(Z|z|[+-][0-9][0-9](:?[0-9][0-9])?)\s*"


def unit_kind(table: Table, columns: Mapping[str, str]) -> str | None:
    """How units are found again on other days, of a table that grows: by whole numbers, or by the
    text of one type. None without a column of units.

    Raises SourceError for a type whose equal values may differ as text.
    """
    if table.privacy_unit.column is None:
        return None
    place, column = f"tables.{table.name}.privacy_unit.column", table.privacy_unit.column
    kind = column_type(place, column, columns)
    if kind in INTEGERS:
        return "whole numbers"
    if kind in ("VARCHAR", "UUID", "DATE"):
        return kind
    raise SourceError(
        f"{place}: the column {column} is {kind}, of which it is not certain on other days which"
        " values are the same unit",
        hint="Cast it to BIGINT or VARCHAR: before the first version is published in a SELECT given"
        " as the table's from, later in the source.",
    )


def attribute_read(table: Table, axis: int, columns: Mapping[str, str]) -> str:
    """The value of the attribute on an axis."""
    attribute, column = table.domain.attributes[axis], table.columns[axis]
    key = f"tables.{table.name}.attributes.{attribute.name}"
    found = column_type(key, column, columns)
    expression = read(attribute, column, found)
    if expression is None:
        hint = "Cast it in a SELECT given as the table's from."
        if attribute.sql_type.endswith("TIME ZONE") and found.startswith(("DATE", "TIMESTAMP")):
            name = identifier(column)
            time = f"{name}::timestamp" if found == "DATE" else name
            hint = (
                "Name the zone whose clocks it shows: from = '''SELECT * REPLACE"
                f" ({time} AT TIME ZONE 'Europe/Berlin' AS {name}) FROM …'''. Or declare the range"
                " without offsets."
            )
        raise SourceError(
            f"{key}: the column {column} is {found}, which cannot be read as {attribute.sql_type}",
            hint=hint,
        )
    return expression


def unit_read(table: Table, columns: Mapping[str, str], of: str = "") -> str:
    """The unit's identity, byte by byte where it is text: a collation must not join two units.
    ``of`` stands before the column's name."""
    column = table.privacy_unit.column or ""
    found = column_type(f"tables.{table.name}.privacy_unit.column", column, columns)
    name = f"{of}{identifier(column)}"
    return f"encode({name})" if found == "VARCHAR" else name


def time_read(table: Table, columns: Mapping[str, str]) -> str:
    """The time by which a unit's earliest rows are kept."""
    key, column = f"tables.{table.name}.privacy_unit.earliest_by", table.privacy_unit.earliest_by
    found = column_type(key, column or "", columns)
    expression = moment(identifier(column or ""), found)
    if expression is None:
        raise SourceError(
            f"{key}: the column {column} is {found}, which has no times or days",
            hint="Cast it to TIMESTAMP or DATE in a SELECT given as the table's from.",
        )
    return expression


def weight_read(table: Table, columns: Mapping[str, str]) -> str:
    """The number of records that a row stands for."""
    key, column = f"tables.{table.name}.count", table.count or ""
    found = column_type(key, column, columns)
    expression = read_count(column, found)
    if expression is None:
        raise SourceError(
            f"{key}: the column {column} is {found}, which cannot be read as whole numbers",
            hint="Cast it in a SELECT given as the table's from.",
        )
    return expression


def column_type(key: str, column: str, columns: Mapping[str, str]) -> str:
    """The type of a column, which the policy's ``key`` names."""
    # The message does not list the source's columns: in a file without a header they are a record.
    found = columns.get(column.lower())
    if found is None:
        raise SourceError(
            f"{key}: the source has no column {column}",
            hint='In the policy column = "…" names the one that holds it, where it has another name'
            " there. A CSV file's columns are named by its first line.",
        )
    return found


def _has_offset(column: str) -> str:
    return f"regexp_full_match({identifier(column)}, '{_OFFSET}', 's')"


def _utc(column: str) -> str:
    instant = f"TRY_CAST({identifier(column)} AS TIMESTAMPTZ)"
    return f"CAST(make_timestamp(epoch_us({instant})) AS DATE)"


def arrival_read(table: Table, columns: Mapping[str, str]) -> str:
    """The day on which a row arrived, in UTC where its time has a zone."""
    key, column = f"tables.{table.name}.data.arrived", table.data.arrived or ""
    kind = column_type(key, column, columns)
    expression = read(table.days, column, kind)
    if kind == "VARCHAR":
        expression = f"CASE WHEN {_has_offset(column)} THEN {_utc(column)} ELSE {expression} END"
    if expression is None:
        raise SourceError(
            f"{key}: the column {column} is {kind}, which cannot be read as a day",
            hint="Cast it in a SELECT given as the table's from.",
        )
    return expression
