"""Questions about answers above the aggregation, such as dp_stddev(n) where n is a count.

    SELECT n, dp_stddev(n) FROM (SELECT count(*) AS n FROM person) AS t

becomes

    SELECT n, t."dp_stddev#0"
    FROM (SELECT count(*) AS n, dp_stddev(count(*)) AS "dp_stddev#0" FROM person) AS t

The SELECT that counts computes the function as one more column, every query in between selects that
column too, and the column replaces the function where it was written. ``*`` leaves it out. The same
holds of expressions over columns of one query, such as a / n. An expression of subqueries that
count is left for the last pass.

In the same way a window that adds up a query's groups is computed where they are counted, if
nothing in between removes or adds rows: there it is planned as rows of its own
(`private/windows`). Columns that nothing else reads are NULL then, so that they are not bought.

A query that never has rows has no answers either: there the function becomes an expression over its
first argument that has the same type.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Final

from sqlglot import exp

from tallyveil.rewriter.intervals.claims import bounds_of
from tallyveil.rewriter.intervals.quotients import refused
from tallyveil.rewriter.private.windows import is_sum_of_groups
from tallyveil.rewriter.resolve.bound import Bound, Place, items_for
from tallyveil.rewriter.resolve.key_conditions import OF_ALL_ROWS
from tallyveil.rewriter.resolve.probes import WITHOUT_ROWS
from tallyveil.rewriter.resolve.record_queries import (
    aggregates,
    definition_of,
    is_aggregate,
    level_nodes,
    reads_records,
    sources,
)
from tallyveil.rewriter.sql.nodes import all_nodes, ambiguous, as_type, function_name, is_star
from tallyveil.rewriter.sql.vocabulary import ABOUT_ANSWERS

__all__ = ["add_interval_columns"]

_NUMBER: Final = "column "  # and its number: a column of the query that a function is added to
_ROWS_APART: Final = ("where", "qualify", "laterals")
_PLACE: Final = "place "  # stands for a column that a star includes


def add_interval_columns(tree: exp.Expr, bound: Bound) -> None:
    """Replace, in place, every function of an answer above the SELECT that aggregates.

    Raises FeatureNotSupported unless its first argument is a column that is one aggregate and its
    other arguments are the same for every row.
    """
    columns = _IntervalColumns(bound)
    for window in all_nodes(tree, exp.Window):
        above = window.parent_select
        if above is not None and not reads_records(above):
            moved = columns.window_below(window, above)
            if moved is not None:
                window.replace(moved)
    columns.empty_unread()
    bound.forget_columns()
    for function in all_nodes(tree, exp.Anonymous):
        if function_name(function) in ABOUT_ANSWERS:
            select = function.find_ancestor(exp.Select)
            if function.meta_get(WITHOUT_ROWS):
                function.replace(_of_no_row(function))
            elif select is None or not reads_records(select):
                function.replace(columns.replacement(function, select))
    columns.exclude_from_stars(tree)


class _IntervalColumns:
    """The columns that are added to the queries of one statement. Each function of a query's
    columns is added to it once."""

    def __init__(self, bound: Bound) -> None:
        self._bound = bound
        self._names: dict[tuple[int, exp.Expr], str] = {}
        self._starred: dict[str, Place] = {}
        self._passed: dict[int, tuple[exp.Select, exp.Expr, exp.Select]] = {}
        self._names_in: dict[int, list[str]] = {}
        self._numbers = count()

    def replacement(self, function: exp.Anonymous, select: exp.Select | None) -> exp.Expr:
        """What replaces a function written in a SELECT over noisy rows: the column that is added
        to the query which has all of its columns."""
        if not _complete(function) or select is None:
            raise refused(function)
        bounds_of(function)
        written = function.expressions[0].unnest()
        named = _item_named(written, select)
        if named is not None and self._place_of(written, select) is None:
            function.expressions[0].replace(exp.paren(named.copy()))
        copy = function.copy()
        places = list[Place]()
        for column in [*_columns(copy)]:
            place = self._starred.get(column.name) or self._place_of(column, select)
            if place is None or (places and place[0] is not places[0][0]):
                raise refused(function)
            places.append(place)
            column.replace(exp.Var(this=f"{_NUMBER}{place[1]}"))
        if not places and copy.find(exp.Subquery) is not None:
            return function.copy()
        if not places or any(isinstance(n, exp.AggFunc | exp.Window) for n in level_nodes(copy)):
            raise refused(function)
        return self._selected_from(places[0][0], copy)

    def window_below(self, window: exp.Window, select: exp.Select) -> exp.Expr | None:
        """The column for a window of a SELECT that the query in FROM, whose groups it adds up,
        computes instead; None if it would not give the same there."""
        own = sources(select)
        if len(own) != 1 or aggregates(select) or any(map(select.args.get, _ROWS_APART)):
            return None
        query = _query_of(own[0])
        if not isinstance(query, exp.Select) or any(map(query.args.get, OF_ALL_ROWS)):
            return None
        copy = window.copy()
        for column in all_nodes(copy, exp.Column):
            places = self._bound.places(column, select)
            value = self._bound.value(query, places[0][1]) if len(places) == 1 else None
            if not isinstance(value, exp.Expr):
                return None
            column.replace(exp.paren(value.copy()))
        if reads_records(query):
            below: exp.Expr | None = copy if is_sum_of_groups(copy) else None
        else:
            below = None if aggregates(query) else self.window_below(copy, query)
        if below is None:
            return None
        self._passed[id(select)] = select, own[0], query
        return self._added(own[0], query, below, "window")

    def empty_unread(self) -> None:
        """Replace by NULL the columns that no more than windows did read, of the queries that now
        compute these."""
        for select, source, query in sorted(self._passed.values(), key=lambda one: one[0].depth):
            item, names = definition_of(source), {c.name for c in select.find_all(exp.Column)}
            readers = select.root().find_all(exp.Table) if item is not None else ()
            several = sum(definition_of(table) is item for table in readers) > 1
            renamed = source.alias_column_names or (item is not None and item.alias_column_names)
            if several or renamed or any(map(is_star, select.expressions)):
                continue
            for own in query.expressions:
                if isinstance(own, exp.Alias) and own.alias not in names:
                    own.set("this", exp.null())

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

    def _selected_from(self, source: exp.Expr, template: exp.Anonymous) -> exp.Column:
        """The ``template``, a function of the source's columns by numbers: it is added to the query
        there, if it was not yet, and selected from it."""
        query = _query_of(source)
        if query is None:
            raise refused(template)
        return self._added(source, query, template, function_name(template))

    def _added(
        self, source: exp.Expr, query: exp.Expr, template: exp.Expr, called: str
    ) -> exp.Column:
        """A function of the columns of a query in FROM, or an expression of it, as its column."""
        key = id(query), template
        if key not in self._names:
            name = f"{called}#{next(self._numbers)}"
            if isinstance(template, exp.Anonymous):
                self._add(query, template, name)
            else:
                query.append("expressions", exp.alias_(template, name, quoted=True))
            self._names[key] = name
            self._names_in.setdefault(id(query), []).append(name)
        # No other column has such a name, so the subquery needs no alias.
        table = exp.to_identifier(source.alias_or_name or None, quoted=True)
        return exp.column(exp.to_identifier(self._names[key], quoted=True), table)

    def _add(self, query: exp.Expr, template: exp.Anonymous, name: str) -> None:
        """Add a function of a query's columns as the column ``name``, to all sides of a UNION."""
        if isinstance(query, exp.Subquery):
            self._add(query.this, template, name)
        elif isinstance(query, exp.Union) and not query.args["distinct"]:
            for side in (query.this, query.expression):
                self._add(side, template, name)
        elif isinstance(query, exp.Select) and query.args.get("distinct") is None:
            value = self._value_in(query, template)
            query.append("expressions", exp.alias_(value, name, quoted=True))
        else:
            raise refused(template)

    def _value_in(self, select: exp.Select, template: exp.Anonymous) -> exp.Expr:
        """A function of a SELECT's columns as an expression of that SELECT: computed where it
        aggregates records, selected from a query in FROM otherwise."""
        counts, computed = reads_records(select), template.copy()
        for column in [one for one in computed.find_all(exp.Var) if one.name.startswith(_NUMBER)]:
            value = self._bound.value(select, int(column.name.removeprefix(_NUMBER)))
            if isinstance(value, tuple):
                item: exp.Expr = exp.column(f"{_PLACE}{len(self._starred)}")
                self._starred[item.name] = value
            else:
                item = exp.paren(value.copy()) if value is not None else exp.null()
            if counts and not any(map(is_aggregate, level_nodes(item))):
                raise refused(template)
            column.replace(item)
        if counts:
            return computed
        if aggregates(select):
            raise refused(template)
        return self.replacement(computed, select)


def _columns(function: exp.Anonymous) -> Iterator[exp.Column]:
    """The columns in a function's first argument, but for those of subqueries."""
    for node in function.expressions[0].dfs(prune=lambda node: isinstance(node, exp.Query)):
        if isinstance(node, exp.Column):
            yield node


def _complete(function: exp.Anonymous) -> bool:
    return len(function.expressions) == ABOUT_ANSWERS[function_name(function)]


def _of_no_row(function: exp.Anonymous) -> exp.Expr:
    """An expression of the function's type, for a query without rows."""
    if not _complete(function):
        raise refused(function)
    bounds_of(function)
    answer = exp.paren(function.expressions[0].copy())
    if any(function_name(one) in ABOUT_ANSWERS for one in answer.find_all(exp.Anonymous)):
        raise refused(function)
    if function_name(function) in ("dp_interval_low", "dp_interval_high"):
        return answer
    nothing = as_type(exp.null(), "DOUBLE")
    return exp.Case(ifs=[exp.If(this=exp.Is(this=answer, expression=exp.null()), true=nothing)])


def _query_of(source: exp.Expr) -> exp.Expr | None:
    """The query that an item of FROM stands for; None for a table."""
    holder = source if isinstance(source, exp.Subquery) else definition_of(source)
    return None if holder is None else holder.this


def _item_named(name: exp.Expr, select: exp.Select) -> exp.Expr | None:
    """The value to which the SELECT gives this name as an alias; None for another expression."""
    if not isinstance(name, exp.Column) or name.table:
        return None
    items = [item for item in select.expressions if item.alias_or_name == name.name]
    return items[0].unalias().unnest() if len(items) == 1 else None
