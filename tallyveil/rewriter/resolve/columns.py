"""Which attribute or which item of the SELECT each column name in a private block means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from tallyveil.errors import (
    AmbiguousColumn,
    FeatureNotSupported,
)
from tallyveil.rewriter.resolve.branches import FIELD, UNION, Records, is_resolved, own_columns
from tallyveil.rewriter.resolve.records import OUTER, holds_noise, own_nodes
from tallyveil.rewriter.sql.nodes import function_name, position
from tallyveil.rewriter.sql.vocabulary import ABOUT_ANSWERS

__all__ = ["raw_rows", "resolve_columns"]


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
        raise AmbiguousColumn(
            f'column reference "{node.name}" is ambiguous', position=position(node)
        )
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
