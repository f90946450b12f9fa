"""What a source's schema says of its tables: names, types, nullability, labels, keys and checks.

No row is read, and nothing that follows from rows: no statistics, no types guessed from a CSV
file's contents, and the labels of an enumeration only where a type of that name was declared, since
those of an unnamed one may be the categories of a data frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import duckdb

from tallyveil.cube.postgresql_schema import postgresql_tables, relations_of
from tallyveil.cube.source_contents import contents
from tallyveil.cube.source_tables import SourceColumn, SourceTable
from tallyveil.cube.sources import DuckDBSource, OpenSource, PostgreSQLSource, opened_file
from tallyveil.errors import SourceError
from tallyveil.policy import Source
from tallyveil.policy.mistakes import nearest
from tallyveil.policy.sql_names import name_mistake
from tallyveil.quoting import identifier, literal

__all__ = ["read_schema", "source_schema"]


def source_schema(
    file: Source, only: Sequence[str] = (), *, look: bool = False
) -> tuple[SourceTable, ...]:
    """The tables of a file, or those that are named. With ``look``, which is for public data, also
    what their rows hold; a CSV file's types are then guessed.

    Raises SourceError.
    """
    name = PurePosixPath(file.location).name.split(".")[0].lower()
    if file.kind.name == "json" and not look:
        raise SourceError(
            f"{file.shown} names no columns but in its records",
            hint="Write the attributes yourself: the columns that a policy names are read.",
        )
    with closing(opened_file(file, [name], public=look)) as source:
        if isinstance(source, PostgreSQLSource) and not look:
            relations = relations_of(source.connection)
            named = _named({one: found.table for one, found in relations.items()}, only)
            return postgresql_tables(source, [relations[one] for one in named])
        if not isinstance(source, DuckDBSource):
            return _described(file, source, only, look=look)
        tables = read_schema(source.connection, only, None if file.kind.several else name)
        if not look:
            return tables
        return tuple(
            replace(
                table,
                contents={
                    c.name: contents(source.connection, table.written, c.name, c.type)
                    for c in table.columns
                },
            )
            for table in tables
        )


def _described(
    file: Source, source: OpenSource, only: Sequence[str], *, look: bool
) -> tuple[SourceTable, ...]:
    """The names and types of the tables' columns, of a source that tells no more."""
    if look or not only:
        raise SourceError(
            f"{file.kind.words} is drafted from the columns of the tables that are named",
            hint="Name them by --table, and leave out --look.",
        )
    return tuple(
        SourceTable(
            name.split(".")[-1],
            name,
            name,
            tuple(SourceColumn(c, t, True) for c, t in source.schema(name, "--table").items()),
        )
        for name in only
    )


def read_schema(
    connection: duckdb.DuckDBPyConnection, only: Sequence[str] = (), relation: str | None = None
) -> tuple[SourceTable, ...]:
    """The tables of the connection's database; views only if they are named. ``relation`` is the
    name of the only one, if the source is one relation.

    Raises SourceError.
    """
    if relation is not None:
        known = {relation: ("", relation, True)}
    else:
        known = {}
        for schema, name, is_table in connection.execute(_TABLES).fetchall():
            known[name if schema == "main" else f"{schema}.{name}"] = (schema, name, is_table)
    asked = _named({name: is_table for name, (*_, is_table) in known.items()}, only)
    return tuple(_table(connection, *known[name][:2]) for name in asked)


def _named(known: Mapping[str, bool], only: Sequence[str]) -> list[str]:
    """Those of the ``known`` relations that are asked for; without any, those that are tables.
    Raises SourceError."""
    folded = {name.lower(): name for name in known}
    missing = [name for name in only if name.lower() not in folded]
    if missing:
        hint = nearest(missing[0], known)
        raise SourceError(
            f"the source has no table {', '.join(missing)}", hint=hint[0].upper() + hint[1:]
        )
    named = [folded[name.lower()] for name in only]
    asked = list(dict.fromkeys(named or (name for name, is_table in known.items() if is_table)))
    if not asked:
        views = ", ".join(known) or "none"
        raise SourceError("the source has no tables", hint=f"Name its views by --table: {views}.")
    return asked


_TABLES = """
SELECT schema_name, table_name, true FROM duckdb_tables()
WHERE NOT internal AND NOT temporary AND database_name = current_database()
UNION ALL SELECT schema_name, view_name, false FROM duckdb_views()
WHERE NOT internal AND NOT temporary AND database_name = current_database()
ORDER BY ALL"""

_CONSTRAINTS = """
SELECT constraint_type, expression, constraint_column_names, referenced_table,
referenced_column_names FROM duckdb_constraints()
WHERE database_name = current_database() AND schema_name = ? AND table_name = ?
ORDER BY constraint_index"""

_LABELS = "SELECT labels FROM duckdb_types() WHERE NOT internal AND labels IS NOT NULL"


def _table(connection: duckdb.DuckDBPyConnection, schema: str, name: str) -> SourceTable:
    written = identifier(name) if schema in ("", "main") else f"{schema}.{identifier(name)}"
    if schema not in ("", "main"):
        (catalog,) = connection.execute("SELECT current_database()").fetchone() or ("",)
        # Else DuckDB cannot tell a schema from a database of the same name.
        parts = (catalog, schema, name) if catalog == schema else (schema, name)
        written = ".".join(map(identifier, parts))
    found = connection.execute(_CONSTRAINTS, [schema, name]).fetchall()
    foreign = dict(_foreign(found))
    labels = {
        f"ENUM({', '.join(map(literal, each))})": tuple(each)
        for (each,) in connection.execute(_LABELS).fetchall()
    }
    try:
        described = connection.execute(f"DESCRIBE FROM {written}").fetchall()
    except duckdb.Error as error:
        raise SourceError(
            f"the source's {name} cannot be described ({type(error).__name__})",
            hint="Leave it out: --table names the tables to draft.",
        ) from None
    plain = schema == "main" and name_mistake(name, cased=True) is None
    return SourceTable(
        name,
        written,
        "" if not schema else name if plain else written,
        tuple(
            SourceColumn(column, kind, null == "YES", labels.get(kind), foreign.get(column))
            for column, kind, null, *_ in described
        ),
        tuple(
            tuple(columns) for kind, _, columns, *_ in found if kind in ("PRIMARY KEY", "UNIQUE")
        ),
        tuple(expression for kind, expression, *_ in found if kind == "CHECK"),
    )


def _foreign(constraints: Sequence[Any]) -> Iterator[tuple[str, str]]:
    for kind, _, columns, table, others in constraints:
        if kind == "FOREIGN KEY":
            yield from ((c, f"{table} ({o})") for c, o in zip(columns, others, strict=True))
