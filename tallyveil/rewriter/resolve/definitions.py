"""Common tables and the custodian's views, put in the place of their names.

A WITH item that holds no noisy rows means the same wherever its definition stands, so records and
public rows can be followed from FROM to FROM. One that aggregates records stays where it is: it is
released once, however often it is named.

A view is read once, in PostgreSQL's SQL, and means the same to every analyst, whatever the dialect
of the statement that names it. It sees the tables and the views declared before it, so that none
can stand for itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers

from tallyveil import deadline
from tallyveil.errors import PolicyError, StatementError
from tallyveil.rewriter.resolve.names import (
    DEFAULT_SCHEMAS,
    Catalog,
    Reference,
    references,
    refuse_reserved_names,
)
from tallyveil.rewriter.resolve.records import common_table, holds_noise
from tallyveil.rewriter.sql.check import check
from tallyveil.rewriter.sql.instants import asks_the_time
from tallyveil.rewriter.sql.naming import name_columns
from tallyveil.rewriter.sql.nodes import function_name, own_alias, position
from tallyveil.rewriter.sql.short_forms import write_out
from tallyveil.rewriter.sql.size import Size
from tallyveil.rewriter.sql.statements import parse_query, split
from tallyveil.rewriter.sql.vocabulary import SESSION_FUNCTIONS

__all__ = [
    "expand_views",
    "expanded_views",
    "inline_common_tables",
    "read_views",
    "refuse_changing",
]


def inline_common_tables(tree: exp.Expr, resolved: Sequence[Reference]) -> None:
    """Replace, in place, every name of a common table without noisy rows by its definition.

    Raises StatementTooComplex where the statement would grow beyond MAX_NODES.
    """
    common = [reference for reference in resolved if reference.definition is not None]
    if not common:
        return
    inlining = _Inlining(common)
    inlining.run()
    for clause in list(tree.find_all(exp.With)):
        kept = [item for item in clause.expressions if inlining.stays(item)]
        if kept:
            clause.set("expressions", kept)
        else:
            clause.pop()


class _Inlining:
    """Definitions are completed before they are copied, so that no copy names another."""

    def __init__(self, common: Sequence[Reference]) -> None:
        self._inside: dict[int, list[Reference]] = {}
        self._all = common
        for reference in common:
            node = reference.node.find_ancestor(exp.CTE)
            while node is not None:
                self._inside.setdefault(id(node), []).append(reference)
                node = node.find_ancestor(exp.CTE)
        self._done: set[int] = set()
        self._stays: dict[int, bool] = {}
        self._size = Size("the common tables", "Name each common table less often.")

    def run(self) -> None:
        for reference in self._all:
            self._replace(reference)

    def stays(self, item: exp.CTE) -> bool:
        """Whether a completed definition holds noise."""
        if id(item) not in self._stays:
            deadline.check()
            self._stays[id(item)] = holds_noise(item.this)
        return self._stays[id(item)]

    def _replace(self, reference: Reference) -> None:
        item, table = reference.definition, reference.node
        if item is None or id(table) in self._done:
            return
        self._done.add(id(table))
        for inner in self._inside.get(id(item), ()):
            self._replace(inner)
        if self.stays(item):
            return
        copy = item.this.copy()
        self._size.add(copy)
        table.replace(exp.Subquery(this=copy, alias=_alias(table, item)))


def _alias(table: exp.Table, item: exp.CTE) -> exp.TableAlias:
    alias = own_alias(table)
    if not alias.columns:
        alias.set("columns", [column.copy() for column in item.args["alias"].columns])
    return alias


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
    references(tree, catalog)
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
        subquery = exp.Subquery(this=copy, alias=own_alias(table))
        subquery.meta[_VIEW] = True
        table.replace(subquery)


def expanded_views(tree: exp.Expr) -> list[exp.Expr]:
    """The subqueries that stand for views and lie in no other one."""
    return [n for n in tree.dfs(prune=lambda n: _VIEW in n.meta) if _VIEW in n.meta]
