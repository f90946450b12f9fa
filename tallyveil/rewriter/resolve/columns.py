"""Resolve each column name in a private block to an attribute or to an item of the SELECT.

Queries nested in an expression may refer to columns of the enclosing query:
``EXISTS (SELECT 1 FROM region r WHERE r.state = person.state)`` queries the public table for each
record. Columns that no FROM inside has are looked up among the records' columns and marked, so that
they are resolved with the rest of the expression. Evaluated on the domain, the nested query then
means the same as on the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from tallyveil.errors import AmbiguousColumn, FeatureNotSupported, UndefinedColumn
from tallyveil.rewriter.resolve.bound import Bound
from tallyveil.rewriter.resolve.branches import (
    FIELD,
    UNION,
    Records,
    is_resolved,
    own_columns,
    public_queries,
)
from tallyveil.rewriter.resolve.record_queries import (
    OUTER,
    holds_noise,
    level_nodes,
    own_nodes,
    reads_records,
    sources,
)
from tallyveil.rewriter.sql.nodes import ambiguous, filtered, function_name, position
from tallyveil.rewriter.sql.vocabulary import ABOUT_ANSWERS

__all__ = [
    "mark_outer_columns", "refuse_aliases_in_order", "refuse_enclosing", "resolve_columns",
    "unaggregated",
]  # fmt: skip


def unaggregated(select: exp.Select) -> FeatureNotSupported:
    """The refusal of a SELECT that aggregates no records: of its window, if it has one."""
    for item in select.expressions:
        if any(isinstance(node, exp.Window) for node in level_nodes(item)):
            return FeatureNotSupported(
                "a window function over records is not answered",
                hint="Aggregate first; windows over the noisy rows are answered: "
                "SELECT attribute, sum(count(*)) OVER () FROM table GROUP BY attribute.",
                position=position(item),
            )
    return _raw_rows(select)


def _raw_rows(select: exp.Select) -> FeatureNotSupported:
    return FeatureNotSupported(
        "rows of a protected table are not answered",
        hint="Ask for counts: SELECT attribute, count(*) FROM table GROUP BY attribute. "
        "SELECT DISTINCT attribute lists the declared values, free of charge.",
        position=position(select.expressions[0]) if select.expressions else None,
    )


def resolve_columns(select: exp.Select, records: Records, bound: Bound) -> None:
    """Replace every column of the block by its value in FROM, or by the item that it names."""
    items: dict[str, list[exp.Alias]] = {}
    for item in select.expressions:
        if isinstance(item, exp.Alias):
            items.setdefault(item.alias, []).append(item)
    for node in own_nodes(select):
        if isinstance(node, exp.Column):
            if isinstance(node.this, exp.Star):
                raise _raw_rows(select)
            _resolve(node, items, records, bound)
    if any(isinstance(item.unalias(), exp.Star) for item in select.expressions):
        raise _raw_rows(select)


def _resolve(
    node: exp.Column, items: Mapping[str, Sequence[exp.Alias]], records: Records, bound: Bound
) -> None:
    called = () if node.table or node.meta_get(OUTER) else items.get(node.name, ())
    item = _item(node, called) if called and _alias_wins(node, records) else None
    if item is None:
        refuse_enclosing(node, records, bound)
        node.replace(_value(node, records))
    elif not isinstance(node.parent, exp.Ordered):
        # Alone in ORDER BY the name stays: the statement over noisy rows has the item too.
        _replace_alias(node, item, records)


def refuse_enclosing(column: exp.Column, records: Records, bound: Bound) -> None:
    """Raise FeatureNotSupported for a column that only a query around the SELECT has."""
    table, name = column.table, column.name
    if any((f.table == table if table else f.name.lower() == name.lower()) for f in records.fields):
        return
    own = column.parent_select
    while own is not None:
        around = own.parent_select
        seen = () if around is None or _is_source(own) else sources(around)
        for source in seen:
            if source.alias_or_name == table if table else name in bound.names(source):
                raise FeatureNotSupported(
                    f'a subquery over records cannot refer to "{table or name}" of the query '
                    "around it",
                    hint="Join the counts of all groups: SELECT r.x, sum(t.n) FROM r JOIN (SELECT"
                    " a, count(*) AS n FROM … GROUP BY a) AS t ON t.a > r.x GROUP BY r.x.",
                    position=position(column),
                )
        own = around


def _is_source(select: exp.Select) -> bool:
    """Whether it is a table of the query around it, and sees no other one of its tables."""
    node: exp.Expr | None = select
    while node is not None and not isinstance(node.parent, exp.Select):
        if isinstance(node, exp.CTE) or (
            isinstance(node.parent, exp.From | exp.Join) and node.arg_key == "this"
        ):
            return True
        node = node.parent
    return False


def _value(node: exp.Column, records: Records) -> exp.Expr:
    """The value of the column if FROM has one branch, else the column of the union."""
    number = records.find(node)
    if len(records.branches) == 1:
        value = records.value(records.branches[0], number, node)
        value.unnest().meta[FIELD] = number
        return value
    column = exp.column(f"u{number}", UNION, quoted=True)
    column.this.meta.update(node.this.meta)
    if node.meta_get(OUTER):
        column.meta[OUTER] = True
    if any(b.values[number].meta_get("coarse") for b in records.branches):
        column.meta["coarse"] = True
    return column


def _item(node: exp.Column, called: Sequence[exp.Alias]) -> exp.Expr | None:
    items = [alias.this for alias in called]
    if any(item != items[0] for item in items[1:]) and not node.find_ancestor(exp.Alias):
        raise ambiguous(node)
    return items[0] if items else None


def _alias_wins(node: exp.Column, records: Records) -> bool:
    """ORDER BY name means an item. Elsewhere, also in a window, an attribute comes first."""
    clause = node.find_ancestor(
        exp.Where, exp.Group, exp.Having, exp.Qualify, exp.Order, exp.Select
    )
    if isinstance(clause, exp.Order):
        if isinstance(clause.parent, exp.Window):
            return not records.knows(node.name)
        return isinstance(node.parent, exp.Ordered) or not records.knows(node.name)
    if records.knows(node.name):
        return False
    return isinstance(clause, exp.Group | exp.Having | exp.Qualify) or _is_about_answers(node)


def _is_about_answers(node: exp.Column) -> bool:
    """Whether its item has a function of answers: in dp_interval_high(n) − n, n is an item."""
    item: exp.Expr = node
    while isinstance(item.parent, exp.Expr) and not isinstance(item.parent, exp.Select):
        item = item.parent
    return any(function_name(f) in ABOUT_ANSWERS for f in item.find_all(exp.Anonymous))


def _replace_alias(node: exp.Column, item: exp.Expr, records: Records) -> None:
    if any(c is node for c in item.find_all(exp.Column)):
        raise AmbiguousColumn(f'"{node.name}" refers to itself', position=position(node))
    holder = exp.Paren(this=item.copy())
    if holds_noise(holder):
        raise FeatureNotSupported(
            f'the subquery called "{node.name}" is not answered here',
            hint="Put the aggregation into a subquery of its own and use the name above it.",
            position=position(node),
        )
    records.size.add(item)
    for column in own_columns(holder):
        if not is_resolved(column):
            column.replace(_value(column, records))
    copy = holder.this
    copy.meta["named"] = True  # a number used by its alias is not a position in the SELECT list
    plain = isinstance(copy, exp.Column | exp.Func | exp.Paren | exp.Literal)
    node.replace(copy if plain else exp.paren(copy, copy=False))


def refuse_aliases_in_order(tree: exp.Expr, bound: Bound) -> None:
    """Raise UndefinedColumn for an alias inside an expression of ORDER BY, as PostgreSQL does.
    Expressions about answers may use one, as in dp_interval_low(n).
    """
    for select in tree.find_all(exp.Select):
        order = select.args.get("order")
        if order is None or not all(map(bound.are_known, sources(select))):
            continue
        names = {item.alias for item in select.expressions if isinstance(item, exp.Alias)}
        for part in order.expressions:
            nodes = level_nodes(part.this.unnest())
            if any(function_name(node) in ABOUT_ANSWERS for node in nodes):
                continue
            for column in (node for node in nodes[1:] if isinstance(node, exp.Column)):
                if column.table or column.name not in names or bound.column_names(column):
                    continue
                raise UndefinedColumn(
                    f'column "{column.name}" does not exist',
                    hint="The name of an item stands alone in ORDER BY. In an expression, write "
                    f"what {column.name} stands for.",
                    position=position(column),
                )


def mark_outer_columns(part: exp.Expr, records: Records, bound: Bound) -> list[exp.Column]:
    """Mark the columns of the records in queries nested in ``part``.

    Returns the columns that neither the query itself nor the records have.

    Raises FeatureNotSupported or AmbiguousColumn if PostgreSQL and DuckDB might resolve a column
    differently.
    """
    unknown = []
    for query in public_queries(part):
        found = []
        for node in query.dfs(prune=_is_block):
            if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
                continue
            if any(_is_inner(node, select, records, bound) for select in _around(node, query)):
                continue
            if _has(records, node):
                node.meta[OUTER] = True
                found.append(node)
            elif not is_resolved(node):
                unknown.append(node)
        _refuse_outer_aggregates(query, found)
        if found and not isinstance(query.parent, exp.Exists):
            _refuse_limits(query)
    return unknown


def _is_block(node: exp.Expr) -> bool:
    return isinstance(node, exp.Select) and reads_records(node)


def _around(column: exp.Column, query: exp.Expr) -> Iterator[exp.Select]:
    """Yield the SELECTs in a query whose FROM a column sees, the innermost first. An item of FROM
    does not see the others."""
    node: exp.Expr | None = column
    in_item = False
    while node is not None and node is not query.parent:
        if isinstance(node, exp.Select):
            if not in_item:
                yield node
            in_item = False
        elif isinstance(node.parent, exp.From | exp.Join) and node.arg_key == "this":
            in_item = True
        node = node.parent


def _is_inner(column: exp.Column, select: exp.Select, records: Records, bound: Bound) -> bool:
    """Whether the column belongs to a SELECT around it. Names that differ in case only match, since
    DuckDB would use the inner column.
    """
    tables = sources(select)
    if column.table:
        return any(table.alias_or_name.lower() == column.table.lower() for table in tables)
    if any(name.lower() == column.name.lower() for one in tables for name in bound.names(one)):
        return True
    in_records = records.knows(column.name)
    if _names_item(select, column):
        if in_records:
            raise ambiguous(column, "Write it with the name of its table.")
        return True
    if all(map(bound.are_known, tables)):
        return False
    if in_records:
        raise FeatureNotSupported(
            f'it is not clear whether the subquery has a column "{column.name}"',
            hint="Write it with the name of its table.",
            position=position(column),
        )
    return True


def _names_item(select: exp.Select, column: exp.Column) -> bool:
    """Whether an item other than the column itself has the column's name."""
    return any(
        item.alias_or_name.lower() == column.name.lower()
        for item in select.expressions
        if not (isinstance(item.unalias(), exp.Column) and item.unalias().name == column.name)
    )


def _has(records: Records, column: exp.Column) -> bool:
    if column.table:
        return any(field.table == column.table for field in records.fields)
    return records.knows(column.name)


def _refuse_outer_aggregates(query: exp.Expr, outer: Sequence[exp.Column]) -> None:
    """Refuse aggregates of the record only: in SQL these belong to the enclosing query."""
    marked = {id(column) for column in outer}
    for node in query.find_all(exp.AggFunc) if outer else ():
        columns = list(filtered(node).find_all(exp.Column))
        if columns and all(id(column) in marked for column in columns):
            raise FeatureNotSupported(
                f"{function_name(node)} of the record's own attributes, inside a subquery, is "
                "not answered",
                hint="Aggregate columns of the public table there.",
                position=position(node),
            )


def _refuse_limits(query: exp.Expr) -> None:
    """Refuse LIMIT and OFFSET, since the order of rows may differ each time."""
    for node in query.find_all(exp.Limit, exp.Fetch, exp.Offset):
        raise FeatureNotSupported(
            "LIMIT in a subquery about the record is not answered",
            hint="Use min or max of its column, or EXISTS.",
            position=position(node) or position(query),
        )
