"""Questions about answers above the aggregation: ``dp_stddev(n) FROM (SELECT count(*) AS n …)``.

The SELECT that counts is asked for the end of the interval too, or whatever is asked about its
answer, under a name of ours, and every query between hands it on, until it can stand for the
function as a column. ``*`` leaves it out.
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

__all__ = ["hand_on_intervals"]


def hand_on_intervals(tree: exp.Expr, catalog: Catalog) -> None:
    """Replace, in place, every function of an answer above the SELECT that aggregates.

    Raises FeatureNotSupported where its first argument is no column that is one aggregate, or
    another argument is not the same for every row.
    """
    handing = _Handing(catalog)
    for node in list(tree.find_all(exp.Anonymous)):
        if function_name(node) in ABOUT_ANSWERS:
            select = node.find_ancestor(exp.Select)
            if select is None or not reads_records(select):
                node.replace(handing.column(node, select))
    handing.leave_out(tree)


class _Handing:
    def __init__(self, catalog: Catalog) -> None:
        self._columns = Columns(catalog)
        self._names: dict[tuple[int, int, str, tuple[exp.Expr, ...]], str] = {}
        self._added: dict[int, list[str]] = {}
        self._numbers = count()

    def column(self, node: exp.Anonymous, select: exp.Select | None) -> exp.Expr:
        """What stands for the function in a SELECT over noisy rows."""
        answer = node.expressions[0].unnest() if node.expressions else None
        whole = len(node.expressions) == ABOUT_ANSWERS[function_name(node)]
        if not whole or select is None or not isinstance(answer, exp.Column):
            raise _refused(node)
        bounds_of(node)
        found = self._place(answer, select)
        item = _item(answer, select) if found is None else None
        return self._handed_on(found if item is None else self._place(item, select), node)

    def leave_out(self, tree: exp.Expr) -> None:
        """Keep what was added out of ``*``."""
        for select in tree.find_all(exp.Select) if self._added else ():
            for item in select.expressions:
                if not is_star(item):
                    continue
                queries = map(_query, items_for(item, select))
                names = [name for query in queries for name in self._added.get(id(query), ())]
                star = item.this if isinstance(item, exp.Column) else item
                if names:
                    star.set("except_", [exp.to_identifier(name, quoted=True) for name in names])

    def _place(self, column: exp.Column, select: exp.Select) -> Place | None:
        """Where a query in FROM has the column, if one does."""
        found = [p for p in self._columns.places(column, select) if _query(p[0]) is not None]
        if len(found) > 1:
            raise ambiguous(column)
        return found[0] if found else None

    def _handed_on(self, place: Place | None, node: exp.Anonymous) -> exp.Column:
        """What is asked about a column of FROM, as another one that its query gives."""
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
            self._added.setdefault(id(query), []).append(name)
        # No other column has such a name, so that a subquery without one of its own is as good.
        table = exp.to_identifier(source.alias_or_name or None, quoted=True)
        return exp.column(exp.to_identifier(self._names[key], quoted=True), table)

    def _add(self, query: exp.Expr, number: int, node: exp.Anonymous, name: str) -> None:
        if isinstance(query, exp.Subquery):
            self._add(query.this, number, node, name)
        elif isinstance(query, exp.Union) and not query.args["distinct"]:
            for side in (query.this, query.expression):
                self._add(side, number, node, name)
        elif isinstance(query, exp.Select) and query.args.get("distinct") is None:
            value = self._asked(query, number, node)
            query.append("expressions", exp.alias_(value, name, quoted=True))
        else:
            raise _refused(node)

    def _asked(self, select: exp.Select, number: int, node: exp.Anonymous) -> exp.Expr:
        """What is asked about one of a SELECT's columns, in its own words."""
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
        return self._handed_on(found if isinstance(found, tuple) else None, node)


def _query(source: exp.Expr) -> exp.Expr | None:
    """The query an item of FROM stands for."""
    holder = source if isinstance(source, exp.Subquery) else definition_of(source)
    return None if holder is None else holder.this


def _item(column: exp.Column, select: exp.Select) -> exp.Column | None:
    """The column of FROM that an item of the same SELECT gives the name."""
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
