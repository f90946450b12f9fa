"""What PostgreSQL's catalog says of tables: their columns, labels of enums, keys and conditions.

No row is read, and neither are statistics. Only what the role may read is listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import psycopg
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tallyveil.cube.source_tables import SourceColumn, SourceTable
from tallyveil.cube.sources import PostgreSQLSource
from tallyveil.policy.sql_names import name_mistake
from tallyveil.quoting import identifier

__all__ = ["Relation", "postgresql_tables", "relations_of"]

_RELATIONS: Final = """
SELECT c.oid, c.relname, CASE WHEN NOT pg_table_is_visible(c.oid) THEN n.nspname END,
    c.relkind IN ('r', 'p')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
    AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
    AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
ORDER BY 3 NULLS FIRST, 2"""

_COLUMNS: Final = """
SELECT a.attname, a.attnotnull, (SELECT array_agg(e.enumlabel::text ORDER BY e.enumsortorder)
    FROM pg_enum e WHERE e.enumtypid = a.atttypid)
FROM pg_attribute a WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum"""

_CONSTRAINTS: Final = """
SELECT k.contype::text, pg_get_expr(k.conbin, k.conrelid), f.relname,
    (SELECT array_agg(a.attname::text ORDER BY array_position(k.conkey, a.attnum))
        FROM pg_attribute a WHERE a.attrelid = k.conrelid AND a.attnum = ANY (k.conkey)),
    (SELECT array_agg(a.attname::text ORDER BY array_position(k.confkey, a.attnum))
        FROM pg_attribute a WHERE a.attrelid = k.confrelid AND a.attnum = ANY (k.confkey))
FROM pg_constraint k LEFT JOIN pg_class f ON f.oid = k.confrelid
WHERE k.conrelid = %s ORDER BY k.conname"""


class Relation(NamedTuple):
    """``table``: neither a view nor elsewhere; ``written`` is what SQL calls it."""

    oid: int
    name: str
    written: str
    table: bool


def relations_of(connection: psycopg.Connection[Any]) -> dict[str, Relation]:
    """The relations that the role may read, by name, with the schema where it is needed."""
    found = {}
    for oid, name, schema, table in connection.execute(_RELATIONS).fetchall():
        parts = [name] if schema is None else [schema, name]
        found[".".join(parts)] = Relation(oid, name, ".".join(map(_written, parts)), table)
    return found


def postgresql_tables(
    source: PostgreSQLSource, relations: Sequence[Relation]
) -> tuple[SourceTable, ...]:
    """Raises SourceError where a relation cannot be described."""
    return tuple(_table(source, one) for one in relations)


def _table(source: PostgreSQLSource, relation: Relation) -> SourceTable:
    types = source.schema(relation.written, f"--table {relation.name}")
    columns = source.connection.execute(_COLUMNS, [relation.oid]).fetchall()
    constraints = source.connection.execute(_CONSTRAINTS, [relation.oid]).fetchall()
    foreign = {
        column: f"{table} ({other})"
        for kind, _, table, own, others in constraints
        if kind == "f"
        for column, other in zip(own, others, strict=True)
    }
    return SourceTable(
        relation.name,
        relation.written,
        relation.written,
        tuple(
            SourceColumn(
                name,
                types[name.lower()],
                not required,
                None if labels is None else tuple(labels),
                foreign.get(name),
            )
            for name, required, labels in columns
        ),
        tuple(tuple(own) for kind, _, _, own, _ in constraints if kind in "pu"),
        tuple(_checks(condition for kind, condition, *_ in constraints if kind == "c")),
    )


def _written(name: str) -> str:
    return name if name_mistake(name) is None else identifier(name)


def _checks(conditions: Iterator[str]) -> Iterator[str]:
    """The conditions in DuckDB's SQL, where that can be written."""
    for condition in conditions:
        with suppress(SqlglotError):
            yield sqlglot.parse_one(condition, read="postgres").transform(_plain).sql("duckdb")


def _plain(node: exp.Expr) -> Any:
    """PostgreSQL writes ``a IN ('x')`` as ``a = ANY (ARRAY['x'::text])``, and −1 as a text."""
    if isinstance(node, exp.Cast):
        if node.to.this in exp.DataType.TEXT_TYPES:
            return node.this.unnest()
        if node.to.this in exp.DataType.INTEGER_TYPES and node.this.is_string:
            return exp.Literal.number(node.this.name)
    if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any):
        values = node.expression.find(exp.Array)
        if values is not None:
            listed = [value.transform(_plain) for value in values.expressions]
            return exp.In(this=node.this.transform(_plain), expressions=listed)
    return node
