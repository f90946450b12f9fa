"""Questions about answers above the aggregation: ``dp_stddev(n) FROM (SELECT count(*) AS n …)``.

The SELECT that counts computes the function as one more column, under an internal name. Every
query between forwards that column, and it replaces the function where that was written. ``*`` does
not include it.
"""

from __future__ import annotations

from itertools import count

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported
from tallyveil.rewriter.private.claims import bounds_of
from tallyveil.rewriter.resolve.lookup import Columns, Place, items_for
from tallyveil.rewriter.resolve.names import Catalog
from tallyveil.rewriter.resolve.records import (
    aggregates,
    definition_of,
    is_aggregate,
    level_nodes,
    reads_records,
)
from tallyveil.rewriter.sql.nodes import ambiguous, function_name, is_star, position
from tallyveil.rewriter.sql.vocabulary import ABOUT_ANSWERS

__all__ = ["add_interval_columns"]


def add_interval_columns(tree: exp.Expr, catalog: Catalog) -> None:
    """Replace, in place, every function of an answer above the SELECT that aggregates.

    Raises FeatureNotSupported unless its first argument is a column that is one aggregate and its
    other arguments are the same for every row.
    """
    added = _Added(catalog)
    for node in list(tree.find_all(exp.Anonymous)):
        if function_name(node) in ABOUT_ANSWERS:
            select = node.find_ancestor(exp.Select)
            if select is None or not reads_records(select):
                node.replace(added.column(node, select))
    added.hide(tree)


class _Added:
    """The columns added to queries."""

    def __init__(self, catalog: Catalog) -> None:
        self._columns = Columns(catalog)
        self._names: dict[tuple[int, int, str, tuple[exp.Expr, ...]], str] = {}
        self._by_query: dict[int, list[str]] = {}
        self._numbers = count()

    def column(self, node: exp.Anonymous, select: exp.Select | None) -> exp.Expr:
        """The column that replaces the function in a SELECT over noisy rows."""
        answer = node.expressions[0].unnest() if node.expressions else None
        whole = len(node.expressions) == ABOUT_ANSWERS[function_name(node)]
        if not whole or select is None or not isinstance(answer, exp.Column):
            raise _refused(node)
        bounds_of(node)
        found = self._place(answer, select)
        item = _item(answer, select) if found is None else None
        return self._forwarded(found if item is None else self._place(item, select), node)

    def hide(self, tree: exp.Expr) -> None:
        """Exclude the added columns from ``*``."""
        for select in tree.find_all(exp.Select) if self._by_query else ():
            for item in select.expressions:
                if not is_star(item):
                    continue
                queries = map(_query, items_for(item, select))
                names = [name for query in queries for name in self._by_query.get(id(query), ())]
                star = item.this if isinstance(item, exp.Column) else item
                if names:
                    star.set("except_", [exp.to_identifier(name, quoted=True) for name in names])

    def _place(self, column: exp.Column, select: exp.Select) -> Place | None:
        """The query in FROM that has the column, and the column's number; None if none has it."""
        found = [p for p in self._columns.places(column, select) if _query(p[0]) is not None]
        if len(found) > 1:
            raise ambiguous(column)
        return found[0] if found else None

    def _forwarded(self, place: Place | None, node: exp.Anonymous) -> exp.Column:
        """The function of the column at ``place``, added to its query, as a column."""
        query = None if place is None else _query(place[0])
        if place is None or query is None:
            raise _refused(node)
        source, number = place
        key = (id(query), number, function_name(node), tuple(node.expressions[1:]))
        if key not in self._names:
            written = node.expressions[0].unnest().name
            name = f"{function_name(node)}({written})#{next(self._numbers)}"
            self._add(query, number, node, name)
            self._names[key] = name
            self._by_query.setdefault(id(query), []).append(name)
        # No other column has such a name, so the subquery needs no alias.
        table = exp.to_identifier(source.alias_or_name or None, quoted=True)
        return exp.column(exp.to_identifier(self._names[key], quoted=True), table)

    def _add(self, query: exp.Expr, number: int, node: exp.Anonymous, name: str) -> None:
        if isinstance(query, exp.Subquery):
            self._add(query.this, number, node, name)
        elif isinstance(query, exp.Union) and not query.args["distinct"]:
            for side in (query.this, query.expression):
                self._add(side, number, node, name)
        elif isinstance(query, exp.Select) and query.args.get("distinct") is None:
            value = self._value(query, number, node)
            query.append("expressions", exp.alias_(value, name, quoted=True))
        else:
            raise _refused(node)

    def _value(self, select: exp.Select, number: int, node: exp.Anonymous) -> exp.Expr:
        """The function as an expression of a SELECT that has the column."""
        found = self._columns.value(select, number)
        item = found.unnest() if isinstance(found, exp.Expr) else None
        if reads_records(select):
            if item is None or not any(map(is_aggregate, level_nodes(item))):
                raise _refused(node)
            bounds = [bound.copy() for bound in node.expressions[1:]]
            asked = exp.Anonymous(this=node.this, expressions=[item.copy(), *bounds])
            asked.meta.update(node.meta)
            return asked
        if aggregates(select):
            raise _refused(node)
        if isinstance(item, exp.Column):
            found = self._place(item, select)
        return self._forwarded(found if isinstance(found, tuple) else None, node)


def _query(source: exp.Expr) -> exp.Expr | None:
    """The query that an item of FROM stands for, or None."""
    holder = source if isinstance(source, exp.Subquery) else definition_of(source)
    return None if holder is None else holder.this


def _item(column: exp.Column, select: exp.Select) -> exp.Column | None:
    """The column of FROM to which the SELECT gives this name; None if it names another value."""
    items = [item for item in select.expressions if item.alias_or_name == column.name]
    value = items[0].unalias().unnest() if len(items) == 1 and not column.table else None
    return value if isinstance(value, exp.Column) else None


def _refused(node: exp.Expr) -> FeatureNotSupported:
    name = function_name(node)
    also, sample = ("", "n") if ABOUT_ANSWERS[name] == 1 else (", and two numbers", "n, 0, 100")
    return FeatureNotSupported(
        f"{name} takes an aggregate, or a column that is one{also}",
        hint=f"SELECT n, {name}({sample}) FROM (SELECT count(*) AS n FROM …) AS t",
        position=position(node),
    )
