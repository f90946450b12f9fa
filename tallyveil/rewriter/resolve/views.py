"""The custodian's views: read once, in PostgreSQL's SQL, and put where a statement names them.

A view means the same to every analyst, whatever the dialect of the statement that names it. It
sees the tables and the views declared before it, so that none can stand for itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from sqlglot import exp
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers

from tallyveil.errors import PolicyError, StatementError
from tallyveil.rewriter.resolve.catalog import Catalog
from tallyveil.rewriter.resolve.names import (
    DEFAULT_SCHEMAS,
    common_table,
    references,
    refuse_reserved_names,
)
from tallyveil.rewriter.sql.check import check, function_name, position
from tallyveil.rewriter.sql.instants import asks_the_time
from tallyveil.rewriter.sql.naming import name_columns
from tallyveil.rewriter.sql.size import Size
from tallyveil.rewriter.sql.statements import parse_query, split
from tallyveil.rewriter.sql.vocabulary import SESSION_FUNCTIONS
from tallyveil.rewriter.sql.written_out import write_out

__all__ = ["expand_views", "expanded_views", "read_views", "refuse_changing"]

# The key under which a subquery's meta says that it stands for a view. Copies of it say so too.
_VIEW: Final = "view"


def read_views(catalog: Catalog, declared: Mapping[str, str]) -> Catalog:
    """The catalog with the views.

    Raises PolicyError for one that no statement could use.
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
    tree = normalize_identifiers(parse_query(sql, "postgres").copy(), dialect="postgres")
    write_out(tree)
    check(tree)
    refuse_reserved_names(tree)
    refuse_changing(tree, "a view")
    expand_views(tree, catalog)
    list(references(tree, catalog))
    name_columns(tree, "postgres", sql)
    return tree


def refuse_changing(tree: exp.Expr, what: str) -> None:
    """Raises StatementError where the query means something else at another time, or to somebody
    else."""
    for node in tree.find_all(exp.Func, exp.Parameter, exp.Placeholder):
        if not isinstance(node, exp.Func) or function_name(node) in SESSION_FUNCTIONS:
            raise StatementError(
                f"{what} depends on its tables only, on no session or parameter",
                position=position(node),
            )
    for node in filter(asks_the_time, tree.find_all(exp.Func)):
        raise StatementError(
            f"{what} depends on its tables only, not on the time it is asked at",
            position=position(node),
        )


def expand_views(tree: exp.Expr, catalog: Catalog) -> None:
    """Put every view that the tree names in its place.

    Errors inside one point at its name.
    """
    size = Size("the views", "Name each view less often.")
    for table in list(tree.find_all(exp.Table)) if catalog.views else ():
        view = catalog.views.get(table.name)
        if view is None or table.db not in DEFAULT_SCHEMAS:
            continue
        if not table.db and common_table(table, table.name) is not None:
            continue
        copy = view.copy()
        size.add(copy)
        start = position(table)
        for node in copy.walk():
            if "start" in node.meta and start is not None:
                node.meta["start"] = start - 1
        renamed = table.args.get("alias")
        columns = list(renamed.columns) if renamed is not None else []
        alias = exp.TableAlias(
            this=exp.to_identifier(table.alias or table.name, quoted=True), columns=columns
        )
        subquery = exp.Subquery(this=copy, alias=alias)
        subquery.meta[_VIEW] = True
        table.replace(subquery)


def expanded_views(tree: exp.Expr) -> list[exp.Expr]:
    """The subqueries that stand for views and lie in no other one."""
    found: list[exp.Expr] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        if node.meta.get(_VIEW):
            found.append(node)
        else:
            stack.extend(node.iter_expressions())
    return found
