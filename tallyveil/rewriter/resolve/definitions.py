"""Replace the names of common tables and of the custodian's views by their definitions.

A WITH item without noisy rows means the same wherever its definition is written, so records and
public rows can be followed from FROM to FROM. One that aggregates records is not replaced: it is
released once, however often it is named.

A view is read once, in PostgreSQL's SQL, and means the same to every analyst, in any dialect of the
statement that names it. It sees the tables and the views declared before it, so that no view can
refer to itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from sqlglot import exp
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers

from tallyveil import deadline
from tallyveil.errors import PolicyError, StatementError
from tallyveil.rewriter.resolve.catalog_names import (
    DEFAULT_SCHEMAS,
    Catalog,
    refuse_reserved_names,
    resolve_tables,
)
from tallyveil.rewriter.resolve.record_queries import (
    common_table,
    definition_of,
    holds_noise,
    mark_records,
)
from tallyveil.rewriter.sql.check import check
from tallyveil.rewriter.sql.naming import check_references, name_columns
from tallyveil.rewriter.sql.nodes import all_nodes, function_name, own_alias, position
from tallyveil.rewriter.sql.short_forms import write_out
from tallyveil.rewriter.sql.size import Size
from tallyveil.rewriter.sql.statement_text import parse_query, split
from tallyveil.rewriter.sql.timestamps import asks_the_time
from tallyveil.rewriter.sql.vocabulary import SESSION_FUNCTIONS

__all__ = ["expand_views", "expanded_views", "inline_common_tables", "read_declared", "read_views"]


def inline_common_tables(tree: exp.Expr) -> None:
    """Replace, in place, every name of a common table without noisy rows by its definition. Then
    mark which queries yield records.

    Raises StatementTooComplex if the statement would grow beyond MAX_NODES.
    """
    named: dict[int, list[exp.Table]] = {}
    for table in tree.find_all(exp.Table):
        definition = definition_of(table)
        if definition is not None:
            named.setdefault(id(definition), []).append(table)
    size = Size("the common tables", "Name each common table less often.")
    for item in list(_completed(tree)) if named else ():
        deadline.check()
        mark_records(item.this)
        if holds_noise(item.this):
            continue
        for table in named.get(id(item), ()):
            copy = item.this.copy()
            size.add(copy)
            table.replace(exp.Subquery(this=copy, alias=_alias(table, item)))
        clause = item.parent
        item.pop()
        if clause is not None and not clause.expressions:
            clause.pop()
    mark_records(tree)


def _completed(node: exp.Expr) -> Iterator[exp.CTE]:
    """Yield the common tables, each after those that its definition may name."""
    parts = sorted(node.iter_expressions(), key=lambda part: not isinstance(part, exp.With))
    for part in parts:
        yield from _completed(part)
    if isinstance(node, exp.CTE):
        yield node


def _alias(table: exp.Table, item: exp.CTE) -> exp.TableAlias:
    alias = own_alias(table)
    if not alias.columns:
        alias.set("columns", [column.copy() for column in item.args["alias"].columns])
    return alias


# The key in the meta of a subquery, and of its copies, that replaces a view.
_VIEW: Final = "view"


def read_views(catalog: Catalog, declared: Mapping[str, str]) -> Catalog:
    """Return the catalog with the views.

    Raises PolicyError for a view that no statement could use.
    """
    for name, sql in declared.items():
        try:
            tree = _read(sql, catalog)
        except StatementError as error:
            raise PolicyError("the policy has a mistake", [f"views.{name}.sql: {error}"]) from error
        catalog = replace(catalog, views={**catalog.views, name: tree})
    return catalog


def _read(sql: str, catalog: Catalog) -> exp.Expr:
    if len(split(sql, "postgres")) != 1:
        raise StatementError("expected one SELECT")
    tree = read_declared(sql, "a view", catalog)
    refuse_reserved_names(tree)
    resolve_tables(tree, catalog)
    name_columns(tree, "postgres", sql)
    return tree


def read_declared(sql: str, what: str, catalog: Catalog) -> exp.Expr:
    """The tree of ``what`` the custodian declares in PostgreSQL's SQL, with views expanded."""
    tree = normalize_identifiers(parse_query(sql, "postgres").copy(), dialect="postgres")
    write_out(tree)
    check(tree)
    check_references(tree, "postgres")
    _refuse_changing(tree, what)
    expand_views(tree, catalog)
    return tree


def _refuse_changing(tree: exp.Expr, what: str) -> None:
    """Raise StatementError if the query may mean something else at another time or in another
    session."""
    for node in tree.find_all(exp.Func, exp.Parameter, exp.Placeholder):
        if not isinstance(node, exp.Func) or function_name(node) in SESSION_FUNCTIONS:
            raise StatementError(
                f"{what} must depend on its tables only, not on a session or parameter",
                position=position(node),
            )
    for node in filter(asks_the_time, tree.find_all(exp.Func)):
        raise StatementError(
            f"{what} must depend on its tables only, not on the time",
            position=position(node),
        )


def expand_views(tree: exp.Expr, catalog: Catalog) -> None:
    """Replace, in place, every name of a view by its definition.

    Errors inside a view have the position of its name.
    """
    size = Size("the views", "Name each view less often.")
    for table in all_nodes(tree, exp.Table) if catalog.views else ():
        view = catalog.views.get(table.name)
        if view is None or table.db not in DEFAULT_SCHEMAS:
            continue
        if not table.db and common_table(table, table.name) is not None:
            continue
        copy = view.copy()
        size.add(copy)
        start = position(table)
        for node in copy.walk():
            if node.meta_get("start") is not None and start is not None:
                node.meta["start"] = start - 1
        subquery = exp.Subquery(this=copy, alias=own_alias(table))
        subquery.meta[_VIEW] = True
        table.replace(subquery)


def expanded_views(tree: exp.Expr) -> list[exp.Expr]:
    """The outermost subqueries that replace views."""

    def is_view(node: exp.Expr) -> bool:
        return node.meta_get(_VIEW) is not None

    return [node for node in tree.dfs(prune=is_view) if is_view(node)]
