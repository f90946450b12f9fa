"""The relations that a statement may name, and which of them each name in FROM means."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported, UndefinedTable
from tallyveil.policy.domain import Domain, Key
from tallyveil.rewriter.resolve.record_queries import KIND, Kind, common_table, sources
from tallyveil.rewriter.sql.nodes import meant, position, visit

__all__ = [
    "DEFAULT_SCHEMAS", "Absent", "Catalog", "forget_databases", "forget_schemas", "refuse_catalogs",
    "refuse_reserved_names",
    "resolve_tables",
]  # fmt: skip


class Absent(NamedTuple):
    """No record of a day up to ``through``, by the attribute ``days``, has one of these ``cells``
    of an attribute: the days were published before the cells were declared."""

    attribute: str
    cells: tuple[int, ...]
    days: str
    through: dt.date


@dataclass(frozen=True)
class Catalog:
    """``public`` maps each public table to its columns and their DuckDB types; ``views`` maps
    each view to its syntax tree, which is shared: copy before changing it; ``keys`` maps each keyed
    table to its key, ``units`` those with a column of units to it and to the most rows of one, 0 if
    it is not known which rows are one's; ``shown`` maps each table that grows to its attribute of
    days and the last one that is over, and ``absent`` to cells without records."""

    domains: Mapping[str, Domain]
    relations: frozenset[str] = frozenset()
    public: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    views: Mapping[str, exp.Expr] = field(default_factory=dict)
    keys: Mapping[str, Key] = field(default_factory=dict)
    units: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    shown: Mapping[str, tuple[str, dt.date]] = field(default_factory=dict)
    absent: Mapping[str, Sequence[Absent]] = field(default_factory=dict)


DEFAULT_SCHEMAS = ("", "public", "main")
_CATALOG_SCHEMAS = ("pg_catalog", "information_schema")
_ALONE = (
    "If the server has catalogs, a statement may read them if it reads nothing else. EXPLAIN and"
    " PREPARE may not."
)
_RESERVED = ("__noisy", "__record", "__dp_", "__domain_", "__public_", "__joined_")
_RESERVED_COLUMN = re.compile(r"__(?:[kgcluv]\d+|cell|row)")


def resolve_tables(tree: exp.Expr, catalog: Catalog) -> None:
    """Store in the meta of every table in the tree what kind of relation it names.

    Raises UndefinedTable, which reveals nothing about the source.
    """

    def resolve(table: exp.Table) -> None:
        if _is_catalog(table):
            _refuse_mixed(table, tree, catalog)
        table.meta[KIND] = _kind(table, catalog)

    visit(tree.find_all(exp.Table), resolve)


def refuse_catalogs(tree: exp.Expr, catalog: Catalog) -> None:
    """Refuse tables of PostgreSQL's catalogs, before anything that is asked of them."""

    def refuse(table: exp.Table) -> None:
        _refuse_mixed(table, tree, catalog)
        _kind(table, catalog)

    visit(filter(_is_catalog, tree.find_all(exp.Table)), refuse)


def refuse_reserved_names(tree: exp.Expr) -> None:
    """Refuse the names of internal relations, so that the statement cannot shadow any."""
    for node in tree.find_all(exp.TableAlias, exp.Column):
        relation = node.table if isinstance(node, exp.Column) else node.name
        reserved = relation.lower().startswith(_RESERVED)
        if reserved or (
            isinstance(node, exp.Column) and _RESERVED_COLUMN.fullmatch(node.name.lower())
        ):
            raise FeatureNotSupported(
                f'the name "{relation if reserved else node.name}" is reserved here',
                hint="Choose a name that does not start with __.",
                position=position(node),
            )


def forget_databases(tree: exp.Expr) -> None:
    """Write clinic.public.person as public.person. The server has one database, which a client may
    call by any name."""
    for node in tree.find_all(exp.Table, exp.Column):
        node.set("catalog", None)


def forget_schemas(tree: exp.Expr) -> None:
    """Write schema.table.column as table.column if it names a table in FROM."""
    for column in tree.find_all(exp.Column):
        if column.args.get("db") is None:
            continue
        select = column.find_ancestor(exp.Select)
        while select is not None:
            if any(_is_of(column, source) for source in sources(select)):
                column.set("db", None)
                break
            select = select.find_ancestor(exp.Select)


def _is_of(column: exp.Column, source: exp.Expr) -> bool:
    if not isinstance(source, exp.Table) or source.alias or source.name != column.table:
        return False
    both = {column.db, source.db}
    return len(both) == 1 or (source.meta_get(KIND) != "common" and both <= {*DEFAULT_SCHEMAS})


def _kind(table: exp.Table, catalog: Catalog) -> Kind:
    if not isinstance(table.this, exp.Identifier):
        raise FeatureNotSupported(
            "table functions are not answered",
            hint="SELECT from a protected table; SELECT * FROM dp.attributes lists them.",
        )
    name, schema = table.name, table.db
    if not schema and common_table(table, name) is not None:
        return "common"
    if f"{schema}.{name}" in catalog.relations:
        return "dp"
    if schema in DEFAULT_SCHEMAS and name in catalog.domains:
        return "protected"
    if schema in DEFAULT_SCHEMAS and name in catalog.public:
        return "public"
    written = ".".join(part.name for part in table.parts)
    every = (
        *catalog.domains,
        *catalog.public,
        *catalog.views,
        *catalog.relations,
    )
    raise UndefinedTable(
        f'relation "{written}" does not exist',
        detail=_ALONE if _is_catalog(table) else None,
        hint=f"{meant(written, sorted(every))}SELECT * FROM dp.attributes lists the tables and"
        " attributes.",
    )


def _is_catalog(table: exp.Table) -> bool:
    if table.db:
        return table.db in _CATALOG_SCHEMAS
    return table.name.startswith("pg_") and common_table(table, table.name) is None


def _refuse_mixed(table: exp.Table, tree: exp.Expr, catalog: Catalog) -> None:
    for other in tree.find_all(exp.Table):
        if other.db in DEFAULT_SCHEMAS and other.name in catalog.domains:
            raise FeatureNotSupported(
                "a statement cannot read both a protected table and the catalog",
                detail=f"{table.name} is in the catalog, {other.name} is protected.",
                hint="Use two statements. Counts may be joined with dp.attributes.",
            )
