"""Questions about answers above the aggregation, such as dp_stddev(n) where n is a count.

    SELECT n, dp_stddev(n) FROM (SELECT count(*) AS n FROM person) AS t

becomes

    SELECT n, t."dp_stddev(n)#0"
    FROM (SELECT count(*) AS n, dp_stddev(count(*)) AS "dp_stddev(n)#0" FROM person) AS t

The SELECT that counts computes the function as one more column, every query in between selects that
column too, and the column replaces the function where it was written. ``*`` leaves it out.

A query that never has rows has no answers either: there the function becomes an expression over its
first argument that has the same type.
"""

from __future__ import annotations

from itertools import count

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported
from tallyveil.rewriter.private.claims import bounds_of
from tallyveil.rewriter.resolve.bound import Bound, Place, items_for
from tallyveil.rewriter.resolve.probes import WITHOUT_ROWS
from tallyveil.rewriter.resolve.record_queries import (
    aggregates,
    definition_of,
    is_aggregate,
    level_nodes,
    reads_records,
)
from tallyveil.rewriter.sql.nodes import ambiguous, as_type, function_name, is_star, position
from tallyveil.rewriter.sql.vocabulary import ABOUT_ANSWERS

__all__ = ["add_interval_columns"]


def add_interval_columns(tree: exp.Expr, bound: Bound) -> None:
    """Replace, in place, every function of an answer above the SELECT that aggregates.

    Raises FeatureNotSupported unless its first argument is a column that is one aggregate and its
    other arguments are the same for every row.
    """
    columns = _IntervalColumns(bound)
    for function in list(tree.find_all(exp.Anonymous)):
        if function_name(function) in ABOUT_ANSWERS:
            select = function.find_ancestor(exp.Select)
            if function.meta_get(WITHOUT_ROWS):
                function.replace(_of_no_row(function))
            elif select is None or not reads_records(select):
                function.replace(columns.replacement(function, select))
    columns.exclude_from_stars(tree)


class _IntervalColumns:
    """The columns that are added to the queries of one statement. Each function of a query's column
    is added to it once."""

    def __init__(self, bound: Bound) -> None:
        self._bound = bound
        self._names: dict[tuple[int, int, str, tuple[exp.Expr, ...]], str] = {}
        self._names_in: dict[int, list[str]] = {}
        self._numbers = count()

    def replacement(self, function: exp.Anonymous, select: exp.Select | None) -> exp.Expr:
        """The column that replaces a function written in a SELECT over noisy rows."""
        answer = function.expressions[0].unnest() if function.expressions else None
        if not _complete(function) or select is None or not isinstance(answer, exp.Column):
            raise _refused(function)
        bounds_of(function)
        place = self._place_of(answer, select)
        if place is None:
            renamed = _column_named(answer, select)
            place = None if renamed is None else self._place_of(renamed, select)
        return self._selected_from(place, function)

    def exclude_from_stars(self, tree: exp.Expr) -> None:
        """Leave the added columns out of every ``*`` that would include them."""
        for select in tree.find_all(exp.Select) if self._names_in else ():
            for item in filter(is_star, select.expressions):
                queries = map(_query_of, items_for(item, select))
                names = [name for query in queries for name in self._names_in.get(id(query), ())]
                star = item.this if isinstance(item, exp.Column) else item
                if names:
                    star.set("except_", [exp.to_identifier(name, quoted=True) for name in names])

    def _place_of(self, column: exp.Column, select: exp.Select) -> Place | None:
        """The query in FROM that has the column, and the column's number; None if none has it."""
        places = self._bound.places(column, select)
        found = [place for place in places if _query_of(place[0]) is not None]
        if len(found) > 1:
            raise ambiguous(column)
        return found[0] if found else None

    def _selected_from(self, place: Place | None, function: exp.Anonymous) -> exp.Column:
        """The function of the column at ``place``: it is added to the query there, if it was not
        yet, and selected from it."""
        query = None if place is None else _query_of(place[0])
        if place is None or query is None:
            raise _refused(function)
        source, number = place
        key = (id(query), number, function_name(function), tuple(function.expressions[1:]))
        if key not in self._names:
            written = function.expressions[0].unnest().name
            name = f"{function_name(function)}({written})#{next(self._numbers)}"
            self._add(query, number, function, name)
            self._names[key] = name
            self._names_in.setdefault(id(query), []).append(name)
        # No other column has such a name, so the subquery needs no alias.
        table = exp.to_identifier(source.alias_or_name or None, quoted=True)
        return exp.column(exp.to_identifier(self._names[key], quoted=True), table)

    def _add(self, query: exp.Expr, number: int, function: exp.Anonymous, name: str) -> None:
        """Add the function of a query's column as the column ``name``, to all sides of a UNION."""
        if isinstance(query, exp.Subquery):
            self._add(query.this, number, function, name)
        elif isinstance(query, exp.Union) and not query.args["distinct"]:
            for side in (query.this, query.expression):
                self._add(side, number, function, name)
        elif isinstance(query, exp.Select) and query.args.get("distinct") is None:
            value = self._value_in(query, number, function)
            query.append("expressions", exp.alias_(value, name, quoted=True))
        else:
            raise _refused(function)

    def _value_in(self, select: exp.Select, number: int, function: exp.Anonymous) -> exp.Expr:
        """The function of a SELECT's column, as an expression of that SELECT: computed where it
        aggregates records, selected from a query in FROM otherwise."""
        column = self._bound.value(select, number)
        item = column.unnest() if isinstance(column, exp.Expr) else None
        if reads_records(select):
            if item is None or not any(map(is_aggregate, level_nodes(item))):
                raise _refused(function)
            bounds = [bound.copy() for bound in function.expressions[1:]]
            computed = exp.Anonymous(this=function.this, expressions=[item.copy(), *bounds])
            computed.meta.update(function.meta)
            return computed
        if aggregates(select):
            raise _refused(function)
        place = column if isinstance(column, tuple) else None
        if isinstance(item, exp.Column):
            place = self._place_of(item, select)
        return self._selected_from(place, function)


def _complete(function: exp.Anonymous) -> bool:
    return len(function.expressions) == ABOUT_ANSWERS[function_name(function)]


def _of_no_row(function: exp.Anonymous) -> exp.Expr:
    """An expression of the function's type, for a query without rows."""
    if not _complete(function):
        raise _refused(function)
    bounds_of(function)
    answer = exp.paren(function.expressions[0].copy())
    if any(function_name(one) in ABOUT_ANSWERS for one in answer.find_all(exp.Anonymous)):
        raise _refused(function)
    if function_name(function) in ("dp_interval_low", "dp_interval_high"):
        return answer
    nothing = as_type(exp.null(), "DOUBLE")
    return exp.Case(ifs=[exp.If(this=exp.Is(this=answer, expression=exp.null()), true=nothing)])


def _query_of(source: exp.Expr) -> exp.Expr | None:
    """The query that an item of FROM stands for; None for a table."""
    holder = source if isinstance(source, exp.Subquery) else definition_of(source)
    return None if holder is None else holder.this


def _column_named(name: exp.Column, select: exp.Select) -> exp.Column | None:
    """The column of FROM that the SELECT gives this name as an alias; None for other values."""
    items = [item for item in select.expressions if item.alias_or_name == name.name]
    value = items[0].unalias().unnest() if len(items) == 1 and not name.table else None
    return value if isinstance(value, exp.Column) else None


def _refused(function: exp.Expr) -> FeatureNotSupported:
    name = function_name(function)
    also, sample = ("", "n") if ABOUT_ANSWERS[name] == 1 else (", and two numbers", "n, 0, 100")
    return FeatureNotSupported(
        f"{name} takes an aggregate, or a column that is one{also}",
        hint=f"SELECT n, {name}({sample}) FROM (SELECT count(*) AS n FROM …) AS t",
        position=position(function),
    )
