"""The one statement that counts a table's cells in DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from tallyveil.cube.bounding import Bound, kept_rows, left_out, unit_hash, unit_number
from tallyveil.cube.coding import clamped, code
from tallyveil.cube.cube import MAX_RECORDS
from tallyveil.cube.reading import INTEGERS
from tallyveil.cube.sources import Rows
from tallyveil.cube.table_columns import (
    arrival_read,
    attribute_read,
    column_type,
    time_read,
    unit_read,
    weight_read,
)
from tallyveil.errors import SourceError
from tallyveil.policy import Key, Table
from tallyveil.quoting import identifier

__all__ = [
    "Columns",
    "by_cells",
    "coded_rows",
    "columns_read",
    "condition",
    "counting",
    "counting_left_out",
    "counting_undeclared",
    "mistaken_columns",
]


Columns: TypeAlias = Mapping[str, Mapping[str, str]]
"""By table the source's columns, lower case, with their DuckDB types."""

_KEYS: Final = ("unit", "hash")
_APART: Final = 1_000_000  # keeps the numbers of axes of tables in one statement apart


def columns_read(table: Table, columns: Mapping[str, str]) -> list[str]:
    """The source's columns that are read: those that the policy names, or all where a condition on
    its rows may name any of them.

    ``columns`` are the source's columns, lower case, with their DuckDB types.

    Raises SourceError for a column that is missing or of a type that cannot be read.
    """
    for axis in range(len(table.columns)):
        attribute_read(table, axis, columns)
    if table.privacy_unit.column is not None:
        unit_read(table, columns)
    if table.privacy_unit.earliest_by is not None:
        time_read(table, columns)
    if table.count is not None:
        weight_read(table, columns)
    if table.data.arrived is not None:
        arrival_read(table, columns)
    if table.selected:
        return list(columns)
    return list(dict.fromkeys(name.lower() for name in table.source_columns))


def counting(
    table: Table, columns: Columns, key: bytes, rows: Mapping[str, Rows]
) -> tuple[str, dict[str, Any]]:
    """SQL and parameters that return one row (code per axis…, number of records n) per cell in use.
    Where rows stand for several records, they also return whether some number of records is
    ``missing``, ``negative`` or ``excessive``; where there are privacy units, a number ``units``
    that depends on which units the cell's rows are of, and where these may have several rows, of
    each row a number of its ``unit``.

    ``columns`` and ``rows`` are those of all tables that are read, by table.

    A privacy unit keeps at most ``max_rows`` of its rows, chosen under ``key`` before they are
    coded (`bounding`). A row whose unit is NULL belongs to no unit and is left out. The rows kept
    of a keyed table get the codes of the head's one row of their unit, as the head counts it. Where
    it counts none they get code 1, not found, and code 0 on the other axes, which no answer shows.

    Raises what `columns_read` does.
    """
    own, parameters = _coded(table, columns, rows)
    cells = [f"c{axis}" for axis in range(len(table.cells.attributes))]
    if table.privacy_unit.column is not None:
        parameters["key"] = key
    if table.head is not None:
        first = len(table.domain.attributes) + 1
        others, more = _with_cells(table.head, columns, rows, first)
        found = [f"CASE WHEN head.unit IS NULL THEN 1 ELSE 0 END AS c{first - 1}"]
        found += [f"coalesce(head.{cell}, 0) AS {cell}" for cell in cells[first:]]
        own = (
            f"SELECT own.*, {', '.join(found)} FROM ({own}) AS own LEFT JOIN ({others}) AS head"
            f" ON {_same_unit(table, columns, 'own.unit', 'head.unit')}"
        )
        parameters |= more
    return by_cells(table, columns[table.name], rows[table.name], own), parameters


def by_cells(table: Table, columns: Mapping[str, str], rows: Rows, coded: str) -> str:
    """SQL that counts the rows of ``coded`` by cells, as `counting` returns them."""
    cells = [f"c{axis}" for axis in range(len(table.cells.attributes))]
    counted = f"{rows.counted()} AS n" if table.count is None else _weighted(rows)
    if table.privacy_unit.column is not None:
        identity = unit_number(columns[table.privacy_unit.column.lower()])
        counted += f", coalesce(CAST(sum({identity}) % (1::HUGEINT << 63) AS BIGINT), 0) AS units"
        if not table.privacy_unit.alone:
            counted += f", list({identity}) AS unit"
    grouped = f"SELECT {', '.join(cells)}, {counted} FROM ({coded}) GROUP BY ALL"
    # A condition on groups takes less time than one on rows, which DuckDB makes of it unless it
    # depends on an aggregate.
    return f"SELECT * FROM ({grouped}) WHERE CASE WHEN n IS NOT NULL THEN {_has_cells(table)} END"


def coded_rows(
    table: Table, columns: Mapping[str, str], rows: Rows, before: str | None
) -> tuple[str, dict[str, Any]]:
    """SQL and parameters for the rows that are kept of a table that grows. Of how many rows of
    units were kept ``before`` is a table, if any were."""
    return _coded(table, {table.name: columns}, {table.name: rows}, before=before)


def _has_cells(table: Table, first: int = 0) -> str:
    """The condition that no code is NULL."""
    partial_axes = [axis for axis, a in enumerate(table.domain.attributes) if not a.complete]
    return " AND ".join([f"c{first + axis} IS NOT NULL" for axis in partial_axes] or ["TRUE"])


def _with_cells(
    table: Table, columns: Columns, rows: Mapping[str, Rows], first: int, where: str | None = None
) -> tuple[str, dict[str, Any]]:
    """`_coded`, without the rows that have no cell, or do not meet the condition ``where``."""
    coded, parameters = _coded(table, columns, rows, first, where)
    met = "" if where is None else " AND met"
    return f"SELECT * FROM ({coded}) WHERE {_has_cells(table, first)}{met}", parameters


def _coded(
    table: Table,
    columns: Columns,
    rows: Mapping[str, Rows],
    first: int = 0,
    where: str | None = None,
    before: str | None = None,
) -> tuple[str, dict[str, Any]]:
    """SQL and parameters for the rows that are kept: their codes, from the axis number ``first``
    on, their unit, how many records they stand for, and whether they ``met`` a condition.
    ``before`` is as in `kept_rows`."""
    own, mine, unit = columns[table.name], rows[table.name], table.privacy_unit
    attributes = list(enumerate(table.domain.attributes))
    reads = [
        f"{attribute_read(table, axis, own)} AS v{first + axis}"
        for axis in range(len(table.columns))
    ]
    codings = [code(first + axis, attribute) for axis, attribute in attributes]
    coded = [f"{c.expression} AS c{first + axis}" for axis, c in enumerate(codings)]
    parameters = {k: v for c in codings for k, v in c.parameters.items()}
    joins = " ".join(c.join for c in codings)
    if table.count is not None:
        reads.append(f"{weight_read(table, own)} AS weight")
        coded.append("weight")
    if mine.number is not None:
        reads.append(mine.number)
        coded.append(mine.number)
    if unit.earliest_by is not None:
        reads.append(f"{time_read(table, own)} AS time")
        coded.append("time")
    if where is not None:
        reads.append(f"{condition(where)} AS met")
        coded.append("met")

    def select(relation: str, *more: str) -> str:
        record = ", ".join(
            [*reads, *(f"{one} AS {name}" for name, one in zip(_KEYS, more, strict=False))]
        )
        names = ", ".join([*coded, *_KEYS[: len(more)]])
        return f"SELECT {names} FROM (SELECT {record} FROM {relation} AS origin) AS record {joins}"

    if unit.column is None:
        return select(mine.relation), parameters
    name, read = unit_read(table, own), columns_read(table, own)
    whole = [*map(identifier, read), *([] if mine.number is None else [mine.number])]
    records = f"SELECT {', '.join(whole)} FROM {mine.relation} AS origin WHERE {name} IS NOT NULL"
    for number, one in enumerate(table.per_unit.values()):
        counted = table.counted[one.count]
        axis = first + len(table.columns) + number
        others, more = _with_cells(counted, columns, rows, _APART * (axis + 1), one.where)
        found = f"n{axis}"
        while found in own:
            found += "_"
        records = (
            f"SELECT origin.*, coalesce(counted.n, 0) AS {found} FROM ({records}) AS origin LEFT"
            f" JOIN (SELECT unit, count(*) AS n FROM ({others}) GROUP BY unit) AS counted"
            f" ON {_same_unit(counted, columns, 'counted.unit', unit_read(table, own, 'origin.'))}"
        )
        reads.append(f"{found} AS v{axis}")
        parameters |= more
    cells = [f"c{first + axis}" for axis, _ in attributes]
    day = cells[table.domain.names.index(table.days.name)] if table.grows else None
    identity = unit_hash(own[unit.column.lower()])
    bound = Bound(
        unit.max_rows, day, unit.per is not None, before, identity, unit.earliest_by is not None
    )
    types = {one: own[one] for one in read}
    return kept_rows(select, records, name, types, cells, bound), parameters


def condition(where: str) -> str:
    """A condition of the custodian's on a row of the source; where it fails, it is not met."""
    return f"TRY(CAST((\n{where}\n) AS BOOLEAN)) IS TRUE"


def _same_unit(table: Table, columns: Columns, own: str, other: str) -> str:
    """The condition that a row of a keyed table, whose unit is ``own``, and one of its head, whose
    unit is ``other``, are of the same unit.

    Raises SourceError where the types of their columns do not show when two values are the same.
    """
    column, head, head_column = table.key or Key("", "", "")
    place = f"tables.{table.name}.keys.{column}"
    kinds = (
        column_type(place, column, columns[table.name]),
        column_type(place, head_column, columns[head]),
    )
    if kinds[0] == kinds[1]:
        return f"{own} = {other}"
    if INTEGERS.issuperset(kinds):
        return f"CAST({own} AS HUGEINT) = CAST({other} AS HUGEINT)"
    first, second = (kind.split("(")[0] for kind in kinds)
    raise SourceError(
        f"{place}: the column is {first}, and {head}.{head_column} is {second}: when they are the"
        " same unit is not defined",
        hint="Cast one of them in a SELECT given as the table's from.",
    )


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
    units = [unit_read(table, columns)]
    if table.privacy_unit.per is not None:
        units.append(attribute_read(table, table.domain.names.index(table.days.name), columns))
    return left_out(rows, units, table.privacy_unit.max_rows)


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
        reads.append(f"{attribute_read(table, axis, columns)} AS v{axis}")
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
    asked = [partial(attribute_read, table, axis, columns) for axis in range(len(table.columns))]
    if table.count is not None:
        asked.append(partial(weight_read, table, columns))
    if table.privacy_unit.column is not None:
        asked.append(partial(unit_read, table, columns))
    if table.privacy_unit.earliest_by is not None:
        asked.append(partial(time_read, table, columns))
    if table.data.arrived is not None:
        asked.append(partial(arrival_read, table, columns))
    found = []
    for ask in asked:
        try:
            ask()
        except SourceError as error:
            found.append(error)
    return found
