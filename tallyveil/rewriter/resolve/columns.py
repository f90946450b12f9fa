"""Which attribute or which item of the SELECT each column name in a private block means.

Queries nested in an expression may mention columns of the query around them:
``EXISTS (SELECT 1 FROM region r WHERE r.state = person.state)`` asks the public table about each
record. Columns that no FROM inside has are looked up in the records' and marked, so that they are
resolved with the rest of the expression; evaluated on the domain, the nested query then means what
it means on the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from tallyveil.errors import AmbiguousColumn, FeatureNotSupported
from tallyveil.rewriter.resolve.branches import (
    FIELD,
    UNION,
    Records,
    is_resolved,
    own_columns,
    public_queries,
)
from tallyveil.rewriter.resolve.lookup import Columns
from tallyveil.rewriter.resolve.names import Catalog
from tallyveil.rewriter.resolve.records import OUTER, holds_noise, own_nodes, reads_records, sources
from tallyveil.rewriter.sql.nodes import ambiguous, function_name, position
from tallyveil.rewriter.sql.vocabulary import ABOUT_ANSWERS

__all__ = ["mark_outer_columns", "raw_rows", "resolve_columns"]


def raw_rows(select: exp.Select) -> FeatureNotSupported:
    return FeatureNotSupported(
        "rows of a protected table are not answered",
        hint="Ask for counts: SELECT attribute, count(*) FROM table GROUP BY attribute. "
        "SELECT DISTINCT attribute lists the declared values, free of charge.",
        position=position(select.expressions[0]) if select.expressions else None,
    )


def resolve_columns(select: exp.Select, records: Records) -> None:
    """Point every column of the block at what FROM has, or at the item its alias names."""
    items: dict[str, list[exp.Alias]] = {}
    for item in select.expressions:
        if isinstance(item, exp.Alias):
            items.setdefault(item.alias, []).append(item)
    for node in own_nodes(select):
        if isinstance(node, exp.Column):
            if isinstance(node.this, exp.Star):
                raise raw_rows(select)
            _resolve(node, items, records)
    if any(isinstance(item.unalias(), exp.Star) for item in select.expressions):
        raise raw_rows(select)


def _resolve(node: exp.Column, items: Mapping[str, Sequence[exp.Alias]], records: Records) -> None:
    called = () if node.table or node.meta_get(OUTER) else items.get(node.name, ())
    item = _item(node, called)
    if item is None or not _alias_wins(node, records):
        node.replace(_value(node, records))
    elif not isinstance(node.parent, exp.Ordered):
        # Alone in ORDER BY the name stays: the statement over the noisy rows has the item too.
        _replace_alias(node, item, records)


def _value(node: exp.Column, records: Records) -> exp.Expr:
    """A flat FROM has the value itself, a union of several a column of its own."""
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
    """ORDER BY name means an item; elsewhere, also in a window, an attribute comes first."""
    clause = node.find_ancestor(exp.Where, exp.Group, exp.Having, exp.Order, exp.Select)
    if isinstance(clause, exp.Order):
        if isinstance(clause.parent, exp.Window):
            return not records.knows(node.name)
        return isinstance(node.parent, exp.Ordered) or not records.knows(node.name)
    if records.knows(node.name):
        return False
    return isinstance(clause, exp.Group | exp.Having) or _is_about_answers(node)


def _is_about_answers(node: exp.Column) -> bool:
    """Whether the item around is about an answer: dp_interval_high(n) − n means the item n."""
    item: exp.Expr = node
    while isinstance(item.parent, exp.Expr) and not isinstance(item.parent, exp.Select):
        item = item.parent
    return any(function_name(f) in ABOUT_ANSWERS for f in item.find_all(exp.Anonymous))


def _replace_alias(node: exp.Column, item: exp.Expr, records: Records) -> None:
    if any(c is node for c in item.find_all(exp.Column)):
        raise AmbiguousColumn(f'"{node.name}" is defined by itself', position=position(node))
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
    copy.meta["named"] = True  # a number called by its name is no place in the SELECT
    plain = isinstance(copy, exp.Column | exp.Func | exp.Paren | exp.Literal)
    node.replace(copy if plain else exp.paren(copy, copy=False))


def mark_outer_columns(part: exp.Expr, records: Records, catalog: Catalog) -> list[exp.Column]:
    """Mark, in the queries nested in ``part``, the columns of the records.

    Returns those that neither the query itself nor the records have.

    Raises FeatureNotSupported, AmbiguousColumn where PostgreSQL and DuckDB might not agree whose a
    column is.
    """
    unknown = []
    for query in public_queries(part):
        found = []
        for column in _Search(records, catalog).free(query, ()):
            if _has(records, column):
                column.meta[OUTER] = True
                found.append(column)
            elif not is_resolved(column):
                unknown.append(column)
        _refuse_aggregates_of_the_record(query, found)
        if found and not isinstance(query.parent, exp.Exists):
            _refuse_limits(query)
    return unknown


class _Search:
    def __init__(self, records: Records, catalog: Catalog) -> None:
        self._records = records
        self._columns = Columns(catalog)

    def free(self, node: exp.Expr, around: Sequence[exp.Select]) -> Iterator[exp.Column]:
        """The columns below ``node`` that no FROM inside or ``around`` it has."""
        if isinstance(node, exp.Column):
            if not isinstance(node.this, exp.Star) and not self._is_inner(node, around):
                yield node
            return
        if not isinstance(node, exp.Select):
            for child in node.iter_expressions():
                yield from self.free(child, around)
            return
        if reads_records(node):
            return  # a block of its own
        inside = [node, *around]
        items = {id(source) for source in sources(node)}
        for child in node.iter_expressions():
            if isinstance(child, exp.From | exp.Join):
                for part in child.iter_expressions():
                    yield from self.free(part, around if id(part) in items else inside)
            else:
                yield from self.free(child, inside)

    def _is_inner(self, column: exp.Column, around: Sequence[exp.Select]) -> bool:
        for select in around:
            if self._has(select, column):
                return True
            if column.table:
                continue
            ours = self._records.knows(column.name)
            if _names_item(select, column):
                if not ours:
                    return True
                raise ambiguous(column, "Write it with the name of its table.")
            if not all(map(self._columns.are_known, sources(select))):
                if not ours:
                    return True
                raise FeatureNotSupported(
                    f'whether the subquery has a column "{column.name}" is not clear here',
                    hint="Write it with the name of its table.",
                    position=position(column),
                )
        return False

    def _has(self, select: exp.Select, column: exp.Column) -> bool:
        """Names that differ in case only are one: DuckDB would take the inner one."""
        tables = sources(select)
        if column.table:
            return any(table.alias_or_name.lower() == column.table.lower() for table in tables)
        names = (name for table in tables for name in self._columns.names(table))
        return any(name.lower() == column.name.lower() for name in names)


def _names_item(select: exp.Select, column: exp.Column) -> bool:
    """Whether an item that is something else is called by the column's name."""
    return any(
        item.alias_or_name.lower() == column.name.lower()
        for item in select.expressions
        if not (isinstance(item.unalias(), exp.Column) and item.unalias().name == column.name)
    )


def _has(records: Records, column: exp.Column) -> bool:
    if column.table:
        return any(field.table == column.table for field in records.fields)
    return records.knows(column.name)


def _refuse_aggregates_of_the_record(query: exp.Expr, outer: Sequence[exp.Column]) -> None:
    """In SQL such an aggregate belongs to the query around, and would combine records."""
    marked = {id(column) for column in outer}
    for node in query.find_all(exp.AggFunc) if outer else ():
        whole = node.parent if isinstance(node.parent, exp.Filter) else node
        columns = list(whole.find_all(exp.Column))
        if columns and all(id(column) in marked for column in columns):
            raise FeatureNotSupported(
                f"{function_name(node)} of the record's own attributes, inside a subquery, is "
                "not answered",
                hint="Aggregate columns of the public table there.",
                position=position(node),
            )


def _refuse_limits(query: exp.Expr) -> None:
    """Which of several rows comes first may differ each time."""
    for node in query.find_all(exp.Limit, exp.Fetch, exp.Offset):
        raise FeatureNotSupported(
            "LIMIT in a subquery about the record is not answered",
            hint="Take the min or max of what it finds, or ask whether it EXISTS.",
            position=position(node) or position(query),
        )
