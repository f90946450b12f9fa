"""The one statement that counts a table's cells in DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tallyveil.cube.bounding import hashed, kept_rows, left_out, unit_number
from tallyveil.cube.coding import clamped, code
from tallyveil.cube.cube import MAX_RECORDS
from tallyveil.cube.reading import read, read_count
from tallyveil.cube.sources import Rows
from tallyveil.errors import SourceError
from tallyveil.policy import Table
from tallyveil.quoting import identifier

__all__ = [
    "columns_read",
    "counting",
    "counting_left_out",
    "counting_undeclared",
    "mistaken_columns",
]


def columns_read(table: Table, columns: Mapping[str, str]) -> list[str]:
    """The source's columns that are counted: all where a unit's rows are chosen by their hash.

    ``columns`` are the source's columns, lower case, with their DuckDB types.

    Raises SourceError for a column that is missing or of a type that cannot be read.
    """
    for axis in range(len(table.columns)):
        _read(table, axis, columns)
    if table.privacy_unit.column is not None:
        _unit(table, columns)
        return list(columns)
    if table.count is not None:
        _weight(table, columns)
    return list(dict.fromkeys(name.lower() for name in table.source_columns))


def counting(
    table: Table, columns: Mapping[str, str], key: bytes, rows: Rows
) -> tuple[str, dict[str, Any]]:
    """SQL and parameters that return one row (code per axis…, number of records n) per cell in use.
    Where rows stand for several records, they also return whether some number of records is
    ``missing``, ``negative`` or ``excessive``; where there are privacy units, a number ``units``
    that depends on which units the cell's rows are of.

    A privacy unit keeps at most ``max_rows`` of its rows, chosen under ``key`` before they are
    coded (`bounding`). A row whose unit is NULL belongs to no unit and is left out.

    Raises what `columns_read` does.
    """
    attributes = table.domain.attributes
    reads = [f"{_read(table, axis, columns)} AS v{axis}" for axis in range(len(attributes))]
    codings = [code(axis, attribute) for axis, attribute in enumerate(attributes)]
    cells = [f"c{axis}" for axis in range(len(attributes))]
    coded = [f"{c.expression} AS {cell}" for c, cell in zip(codings, cells, strict=True)]
    # DuckDB would compute a cell twice, for the condition and for the group.
    kept = [f"{c} IS NOT NULL" for c, a in zip(cells, attributes, strict=True) if not a.complete]
    counted = f"{rows.counted()} AS n"
    parameters = {k: v for c in codings for k, v in c.parameters.items()}
    if table.count is not None:
        reads.append(f"{_weight(table, columns)} AS weight")
        coded.append("weight")
        counted = _weighted(rows)
    if rows.number is not None:
        reads.append(rows.number)
        coded.append(rows.number)
    if table.privacy_unit.column is not None:
        unit = _unit(table, columns)
        hashes = hashed(rows, unit, columns, table.privacy_unit.max_rows)
        reads += [f"{unit} AS unit", f"{hashes} AS hash"]
        parameters["key"] = key
        coded.append(f"{unit_number(columns[table.privacy_unit.column.lower()])} AS identity")
        counted += ", coalesce(CAST(sum(identity) % (1::HUGEINT << 63) AS BIGINT), 0) AS units"
    record = f"SELECT {', '.join(reads)} FROM {rows.relation} AS origin"
    if table.privacy_unit.column is not None:
        values = [f"v{axis}" for axis in range(len(attributes))]
        record = kept_rows(record, values, table.privacy_unit.max_rows)
    joins = " ".join(c.join for c in codings)
    coded_record = f"SELECT {', '.join(coded)} FROM ({record}) AS record {joins}"
    records = f"SELECT * FROM ({coded_record}) WHERE {' AND '.join(kept or ['TRUE'])}"
    sql = f"SELECT {', '.join(cells)}, {counted} FROM ({records}) GROUP BY ALL"
    return sql, parameters


def _weighted(rows: Rows) -> str:
    """The number of records of a cell's rows, limited to 0 and one too many; values beyond these
    are reported as errors anyway."""
    most = MAX_RECORDS + 1
    weight = f"greatest(least(weight, {most}), 0)"
    if rows.number is not None:
        weight = f"CAST({weight} AS HUGEINT) * {rows.number}"
    return (
        f"CAST(least(sum({weight}), {most}) AS BIGINT)"
        " AS n, bool_or(weight IS NULL) AS missing, bool_or(coalesce(weight, 0) < 0) AS negative,"
        f" bool_or(coalesce(weight, 0) > {MAX_RECORDS}) AS excessive"
    )


def counting_left_out(table: Table, columns: Mapping[str, str], rows: Rows) -> str:
    """SQL that returns how many rows units have, and how many of them ``max_rows`` leaves out."""
    return left_out(rows, _unit(table, columns), table.privacy_unit.max_rows)


def counting_undeclared(
    table: Table, columns: Mapping[str, str], rows: Rows, axes: Sequence[int]
) -> tuple[str, dict[str, Any]]:
    """SQL and parameters that return the number of rows, and for each attribute of these ``axes``
    of how many rows the value has no cell, goes to ``other``, is read as NULL though it is none, or
    is clamped, and which cells are in use where values are listed.
    """
    attributes = table.domain.attributes
    codings = [code(axis, attributes[axis]) for axis in axes]
    reads, counted = [], [rows.counted()]
    if rows.number is not None:
        reads.append(rows.number)
    for axis, coding in zip(axes, codings, strict=True):
        attribute = attributes[axis]
        reads.append(f"{_read(table, axis, columns)} AS v{axis}")
        reads.append(f"{identifier(table.columns[axis])} IS NOT NULL AS given{axis}")
        cell = f"({coding.expression})"
        counted.append(rows.counted(f"{cell} IS NULL"))
        other, null = attribute.other_cell, attribute.null_cell
        for special in (other, None if null == other else null):
            number = -1 if special is None else special
            counted.append(rows.counted(f"given{axis} AND {cell} = {number}"))
        counted.append(rows.counted(clamped(axis, attribute)))
        listed = attribute.kind == "values"
        used = f"list(DISTINCT {cell}) FILTER (WHERE {cell} IS NOT NULL)"
        counted.append(f"coalesce({used}, [])" if listed else "NULL")
    record = f"SELECT {', '.join(reads)} FROM {rows.relation} AS origin"
    joins = " ".join(coding.join for coding in codings)
    parameters = {k: v for coding in codings for k, v in coding.parameters.items()}
    return f"SELECT {', '.join(counted)} FROM ({record}) AS record {joins}", parameters


def mistaken_columns(table: Table, columns: Mapping[str, str]) -> list[SourceError]:
    """What `columns_read` raises for each column that is missing or of a type that cannot be
    read."""
    asked = [partial(_read, table, axis, columns) for axis in range(len(table.columns))]
    if table.count is not None:
        asked.append(partial(_weight, table, columns))
    if table.privacy_unit.column is not None:
        asked.append(partial(_unit, table, columns))
    found = []
    for ask in asked:
        try:
            ask()
        except SourceError as error:
            found.append(error)
    return found


def _read(table: Table, axis: int, columns: Mapping[str, str]) -> str:
    attribute, column = table.domain.attributes[axis], table.columns[axis]
    key = f"tables.{table.name}.attributes.{attribute.name}"
    expression = read(attribute, column, _type(key, column, columns))
    if expression is None:
        raise SourceError(
            f"{key}: the column {column} is {_type(key, column, columns)}, which cannot be read "
            f"as {attribute.sql_type}",
            hint="Cast it in a SELECT given as the table's from.",
        )
    return expression


def _unit(table: Table, columns: Mapping[str, str]) -> str:
    """The unit's identity, byte by byte where it is text: a collation must not join two units."""
    column = table.privacy_unit.column or ""
    found = _type(f"tables.{table.name}.privacy_unit.column", column, columns)
    return f"encode({identifier(column)})" if found == "VARCHAR" else identifier(column)


def _weight(table: Table, columns: Mapping[str, str]) -> str:
    """The number of records that a row stands for."""
    key, column = f"tables.{table.name}.count", table.count or ""
    found = _type(key, column, columns)
    expression = read_count(column, found)
    if expression is None:
        raise SourceError(
            f"{key}: the column {column} is {found}, which cannot be read as whole numbers",
            hint="Cast it in a SELECT given as the table's from.",
        )
    return expression


def _type(key: str, column: str, columns: Mapping[str, str]) -> str:
    # The message does not list the source's columns: in a file without a header they are a record.
    found = columns.get(column.lower())
    if found is None:
        raise SourceError(
            f"{key}: the source has no column {column}",
            hint='In the policy column = "…" names the one that holds it, where it has another name'
            " there. A CSV file's columns are named by its first line.",
        )
    return found
