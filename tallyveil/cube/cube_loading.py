"""Loading: one cube per protected table of a policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from threading import Event
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import duckdb
import numpy as np

from tallyveil.cube.counting import (
    Columns,
    columns_read,
    condition,
    counting,
    counting_left_out,
    counting_undeclared,
    mistaken_columns,
)
from tallyveil.cube.cube import MAX_RECORDS, Cube
from tallyveil.cube.members import Members
from tallyveil.cube.reading import truncates
from tallyveil.cube.sources import OpenSource, Passed, Rows, failed, opened, words
from tallyveil.errors import SourceError
from tallyveil.policy import Attribute, Domain, Policy, Table
from tallyveil.policy.domain import shown
from tallyveil.progress import reading
from tallyveil.quoting import identifier
from tallyveil.solver_threads import in_thread

__all__ = [
    "Undeclared",
    "as_read",
    "cells_in_use",
    "cells_read",
    "checked_columns",
    "columns_of",
    "counted_rows",
    "executed",
    "load_cubes",
    "rows_left_out",
    "typed",
    "undeclared",
]


def load_cubes(policy: Policy, source: Passed = None, *, key: bytes) -> dict[str, Cube]:
    """Count the cells of every table, from the policy's source or the given open connection.
    ``key`` chooses the rows of a unit that are counted (`bounding`), and must never change. All
    tables are read as of one moment, where the source can do that.

    No record makes it fail or changes a message: errors depend only on the schema and on the
    custodian's own SELECT. Where that SELECT itself fails on a record (by an unguarded CAST, for
    example), or a row has no valid number of records, the message gives the kind of the failure and
    nothing about the record.

    Raises SourceError, for the custodian.
    """
    changing = [name for name, table in policy.tables.items() if table.has_versions]
    if changing:
        raise SourceError(
            f"tables.{changing[0]}: a table with versions is neither copied nor released by agents",
            hint="Its versions are answered by serve and connect.",
        )
    with opened(policy, source) as found:
        for table in policy.tables.values():
            _check_whole(table, found)
        columns = checked_columns(policy, found)
        found.begin()
        return {name: _load(table, found, columns, key) for name, table in policy.tables.items()}


def columns_of(policy: Policy, source: Passed = None) -> Columns:
    """`checked_columns`, without reading a row."""
    with opened(policy, source) as found:
        return checked_columns(policy, found)


def typed(policy: Policy, columns: Columns) -> Policy:
    """The policy as `as_read` completes it, from the types of the source's columns."""
    tables = policy.tables.items()
    return _with_domains(policy, {name: _completed(t, columns[name]).domain for name, t in tables})


def rows_left_out(policy: Policy) -> dict[str, tuple[int, int]]:
    """For each table with a ``max_rows``, how many rows its units have and how many of them are not
    counted. These are exact, confidential numbers, for the custodian alone. Raises SourceError.
    """
    found = {}
    with opened(policy, None) as source:
        for name, table in policy.tables.items():
            unit = table.privacy_unit.column
            if unit is not None:
                columns = source.schema(table.origin, table.origin_key)
                with _reading(table, source, [unit], alike=True) as rows:
                    sql = counting_left_out(table, columns, rows)
                    ((number, lost),) = executed(rows.connection, sql).fetchall()
                found[name] = int(number), int(lost)
    return found


_PAUSE: Final = 0.1  # seconds
_TRIES: Final = 50  # before a library is left alone that waits for its database
_AT_ONCE: Final = 50  # attributes in a statement, whose time would grow with their square


class Undeclared(NamedTuple):
    """Of how many rows an attribute's value has no cell, goes to ``other``, is read as NULL though
    it is none, or is clamped, and which of its listed values no row has."""

    left_out: int
    other: int
    null: int
    clamped: int
    unmatched: tuple[str, ...]


def undeclared(policy: Policy) -> dict[str, tuple[int, dict[str, Undeclared]]]:
    """For each table the number of its rows, and what happens to values that are not declared, by
    attribute. Exact, confidential numbers, for the custodian alone. Raises SourceError.
    """
    with opened(policy) as source:
        return {name: _undeclared(table, source) for name, table in policy.tables.items()}


def _undeclared(table: Table, source: OpenSource) -> tuple[int, dict[str, Undeclared]]:
    columns = source.schema(table.origin, table.origin_key)
    attributes = table.domain.attributes[: len(table.columns)]
    columns_read(table, columns)
    number, each = 0, {}
    for start in range(0, len(attributes), _AT_ONCE):
        axes = range(start, min(start + _AT_ONCE, len(attributes)))
        names = [table.columns[axis] for axis in axes]
        with _reading(table, source, names, alike=True) as rows:
            sql, parameters = counting_undeclared(table, columns, rows, axes)
            ((number, *counts),) = executed(rows.connection, sql, parameters).fetchall()
        for axis, five in zip(axes, zip(*[iter(counts)] * 5, strict=True), strict=True):
            left_out, other, null, clamped, used = five
            attribute = attributes[axis]
            unmatched = _unmatched(attribute, used)
            each[attribute.name] = Undeclared(left_out, other, null, clamped, unmatched)
    return number, each


def cells_in_use(cubes: Mapping[str, Cube]) -> dict[str, tuple[int, int]]:
    """For each table the number of cells that have records, and the bytes of its counts. Exact,
    confidential numbers, for the custodian alone.
    """
    found = {}
    for name, cube in cubes.items():
        own = cube._counts
        arrays = (own.counts, *own.codes, *(() if own.units is None else (own.units,)))
        members = 0 if own.members is None else own.members.nbytes
        found[name] = len(own.counts), sum(array.nbytes for array in arrays) + members
    return found


def _unmatched(attribute: Attribute, used: list[int] | None) -> tuple[str, ...]:
    """The listed values whose cells are not among those ``used``."""
    if used is None:
        return ()
    known = {*used, attribute.null_cell, attribute.other_cell}
    return tuple(shown(cell) for i, cell in enumerate(attribute.cells) if i not in known)


def as_read(policy: Policy, domains: Mapping[str, Domain]) -> Policy:
    """The policy, with ``truncates`` of its attributes set from the source's column types, as the
    ``domains`` of its cells have them."""
    return _with_domains(policy, {name: Domain(name, one.own) for name, one in domains.items()})


def _with_domains(policy: Policy, domains: Mapping[str, Domain]) -> Policy:
    tables = {
        name: table.model_copy(update={"domain": domains[name]})
        for name, table in policy.tables.items()
    }
    return policy.model_copy(update={"tables": tables})


def checked_columns(policy: Policy, source: OpenSource) -> Columns:
    """The columns of every table. Raises SourceError with all that is missing or mistaken."""
    columns: dict[str, dict[str, str]] = {}
    wrong: list[SourceError] = []
    for name, table in policy.tables.items():
        try:
            columns[name] = source.schema(table.origin, table.origin_key)
            wrong += mistaken_columns(table, columns[name])
        except SourceError as error:
            wrong.append(error)
    if wrong:
        first, *others = wrong
        details = [first.detail, *(other.message for other in others)]
        detail = "\n".join(filter(None, details)) or None
        hints = dict.fromkeys(error.hint for error in wrong if error.hint)
        raise SourceError(first.message, detail=detail, hint=" ".join(hints) or None) from None
    return columns


def _load(table: Table, source: OpenSource, columns: Columns, key: bytes) -> Cube:
    heads = [table] if table.head is None else [table, table.head]
    read = {one.name: one for head in heads for one in (head, *head.counted.values())}
    with ExitStack() as opened_rows:
        rows = {
            name: opened_rows.enter_context(counted_rows(one, source, columns[name], len(read) > 1))
            for name, one in read.items()
        }
        for head in heads:
            _check_conditions(head, rows)
        sql, parameters = counting(table, columns, key, rows)
        found = executed(rows[table.name].connection, sql, parameters).fetchnumpy()
    codes = tuple(np.asarray(found[f"c{axis}"]) for axis in range(len(table.cells.attributes)))
    if table.count is not None:
        _check_weights(table, found)
    counts = np.asarray(found["n"], dtype=np.int64)
    if int(counts.sum()) > MAX_RECORDS:
        raise SourceError(f"tables.{table.name}: at most {MAX_RECORDS:,} records can be counted")
    units = np.asarray(found["units"], dtype=np.int64) if "units" in found else None
    members = Members.of_cells([*found["unit"]]) if "unit" in found else None
    return Cube(cells_read(table, columns), codes, counts, units, members)


@contextmanager
def counted_rows(
    table: Table, source: OpenSource, columns: Mapping[str, str], together: bool
) -> Iterator[Rows]:
    """The rows of the source that are counted. Those that can be read once are copied, if others
    are read ``together`` with them."""
    read, alike = columns_read(table, columns), table.privacy_unit.column is None
    with _reading(table, source, read, alike=alike) as rows:
        if not together or rows.again:
            yield rows
            return
        copy = identifier(f"rows of {table.name}")
        rows.connection.execute(f"CREATE TEMP TABLE {copy} AS FROM {rows.relation}")
    try:
        yield Rows(rows.connection, copy, rows.number, again=True)
    except duckdb.Error as error:
        raise failed(table.origin_key, error) from None
    finally:
        rows.connection.execute(f"DROP TABLE IF EXISTS {copy}")


@contextmanager
def _reading(
    table: Table, source: OpenSource, columns: Sequence[str], *, alike: bool
) -> Iterator[Rows]:
    """`OpenSource.rows` of the table, while its progress is shown."""
    with (
        reading(table.name) as follow,
        source.rows(table.origin, columns, table.origin_key, alike=alike) as rows,
    ):
        follow(rows.connection)
        yield rows


def executed(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Any = None
) -> duckdb.DuckDBPyConnection:
    """The result of a statement that reads rows. Ctrl-C ends it, which DuckDB would not notice."""
    work, ended = partial(connection.execute, sql, parameters), Event()
    try:
        result = in_thread("tallyveil-reading", work, then=ended.set)
        while not wait([result], timeout=_PAUSE).done:
            pass  # a signal just before a wait without an end would not wake it
        return result.result()
    except KeyboardInterrupt:
        for _ in range(_TRIES):  # an interrupt before the statement has begun is lost
            connection.interrupt()
            if ended.wait(_PAUSE):
                break
        raise


_MISTAKES = MappingProxyType(
    {
        "missing": "is NULL or no number",
        "negative": "is negative",
        "excessive": f"has a fraction, or is more than {MAX_RECORDS:,}",
    }
)


def _check_weights(table: Table, found: Mapping[str, Any]) -> None:
    """Raises SourceError unless every counted row has a valid number of records."""
    wrong = [words for flag, words in _MISTAKES.items() if np.any(np.asarray(found[flag]))]
    if wrong:
        raise SourceError(
            f"tables.{table.name}.count: expected a whole number from 0 to {MAX_RECORDS:,} in"
            f" every row; some row's {table.count} {'; some '.join(wrong)}",
            hint="Each row needs the number of records that it stands for. Survey weights, which"
            " estimate how many others a record is like, are not counts.",
        )


def cells_read(table: Table, columns: Columns) -> Domain:
    """The axes of the table's cells, completed from the types of the source's columns."""
    if table.head is not None:
        table = table.sharing(_completed(table.head, columns[table.head.name]))
    return _completed(table, columns[table.name]).cells


def _completed(table: Table, columns: Mapping[str, str]) -> Table:
    attributes = list(table.domain.attributes)
    for axis, column in enumerate(table.columns):
        finer = truncates(attributes[axis], columns[column.lower()])
        attributes[axis] = replace(attributes[axis], truncates=finer)
    return table.model_copy(update={"domain": Domain(table.name, tuple(attributes))})


def _check_conditions(table: Table, rows: Mapping[str, Rows]) -> None:
    """Raises SourceError for a condition of a count per unit that DuckDB cannot understand."""
    for name, one in table.per_unit.items():
        if one.where is None:
            continue
        counted, key = rows[one.count], f"tables.{table.name}.per_unit.{name}.where"
        # Alone, not in brackets, which a text could close.
        asked = f"DESCRIBE SELECT\n{one.where}\nFROM {counted.relation} AS origin"
        try:
            kinds = [kind for _, kind, *_ in counted.connection.execute(asked).fetchall()]
            counted.connection.execute(
                f"DESCRIBE SELECT {condition(one.where)} FROM {counted.relation} AS origin"
            )
        except duckdb.Error as error:
            raise SourceError(
                f"{key}: DuckDB cannot evaluate it on a row of {one.count}"
                f" ({type(error).__name__})",
                detail=words(error),
            ) from None
        if kinds != ["BOOLEAN"]:
            raise SourceError(
                f"{key}: expected a condition, which is true or false; it is {', '.join(kinds)}",
                hint="Compare it with a value, as in flag = 'true'.",
            )


def _check_whole(table: Table, source: OpenSource) -> None:
    """Raises SourceError where the number of rows would be published of what may filter them."""
    if table.total_public and source.may_filter(table.origin):
        raise SourceError(
            f"{table.origin_key}: {table.origin} may filter its rows, as a view does: under "
            'neighbours = "replace" its number of rows would be published exactly',
            hint=f'Write from = "SELECT * FROM {table.origin}": then count(*) has noise.',
        )
