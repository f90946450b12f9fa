"""Which attribute or which item of the SELECT each column name in a private block means."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from tallyveil.errors import (
    AmbiguousColumn,
    FeatureNotSupported,
    UndefinedColumn,
    UndefinedTable,
)
from tallyveil.policy.domain import Domain
from tallyveil.rewriter.check import function_name, position

__all__ = ["RECORD", "own_nodes", "raw_rows", "resolve_columns"]

RECORD: Final = "__record"

_CLAUSES = ("where", "group", "having", "order")


def own_nodes(select: exp.Select) -> list[exp.Expr]:
    """The nodes of a SELECT's clauses, without the queries nested in them."""
    nodes: list[exp.Expr] = []
    clauses = [select.args.get(name) for name in _CLAUSES]
    stack = [*select.expressions, *(clause for clause in clauses if clause is not None)]
    while stack:
        node = stack.pop()
        nodes.append(node)
        stack.extend(c for c in node.iter_expressions() if not isinstance(c, exp.Query))
    return nodes


def raw_rows(select: exp.Select) -> FeatureNotSupported:
    return FeatureNotSupported(
        "rows of a protected table are not answered",
        hint="Ask for counts: SELECT attribute, count(*) FROM table GROUP BY attribute. "
        "SELECT DISTINCT attribute lists the declared values, free of charge.",
        position=position(select.expressions[0]) if select.expressions else None,
    )


def resolve_columns(select: exp.Select, domain: Domain) -> None:
    """Point every column of the block at an attribute, or at the item its alias names."""
    table = select.args["from_"].this
    qualifier = table.alias or table.name
    alias = table.args.get("alias")
    if alias is not None and alias.columns:
        raise FeatureNotSupported(
            "renaming the columns of a protected table is not answered", position=position(alias)
        )
    for node in own_nodes(select):
        if isinstance(node, exp.Column):
            if isinstance(node.this, exp.Star):
                raise raw_rows(select)
            _resolve(node, select, domain, qualifier)
    if any(isinstance(item.unalias(), exp.Star) for item in select.expressions):
        raise raw_rows(select)


def _resolve(node: exp.Column, select: exp.Select, domain: Domain, qualifier: str) -> None:
    if node.table and node.table != qualifier:
        raise UndefinedTable(
            f'missing FROM-clause entry for table "{node.table}"', position=position(node)
        )
    item = None if node.table else _item(node, select)
    if item is None or not _alias_wins(node, domain):
        _point_at_attribute(node, domain)
    elif not isinstance(node.parent, exp.Ordered):
        # Alone in ORDER BY the name stays: the statement over the noisy rows has the item too.
        _replace_alias(node, item, domain)


def _item(node: exp.Column, select: exp.Select) -> exp.Expr | None:
    items = [
        i.this for i in select.expressions if isinstance(i, exp.Alias) and i.alias == node.name
    ]
    if any(item != items[0] for item in items[1:]) and not node.find_ancestor(exp.Alias):
        raise AmbiguousColumn(
            f'column reference "{node.name}" is ambiguous', position=position(node)
        )
    return items[0] if items else None


def _point_at_attribute(node: exp.Column, domain: Domain) -> None:
    if node.name not in domain or node.args.get("catalog"):
        raise UndefinedColumn(
            f'column "{node.name}" does not exist',
            hint=f"The attributes of {domain.table} are {', '.join(domain.names)}.",
            position=position(node),
        )
    node.this.set("quoted", True)  # alike, however it was written
    node.set("table", exp.to_identifier(RECORD, quoted=True))
    node.set("db", None)
    if domain[node.name].kind == "bins":
        node.meta["binned"] = True


def _alias_wins(node: exp.Column, domain: Domain) -> bool:
    """PostgreSQL: ORDER BY name means an item; elsewhere an attribute of that name comes first."""
    clause = node.find_ancestor(exp.Where, exp.Group, exp.Having, exp.Order, exp.Select)
    if isinstance(clause, exp.Order):
        return isinstance(node.parent, exp.Ordered) or node.name not in domain
    interval = node.find_ancestor(exp.Anonymous)
    if interval is not None and function_name(interval).startswith("dp_"):
        return node.name not in domain
    return isinstance(clause, exp.Group | exp.Having) and node.name not in domain


def _replace_alias(node: exp.Column, item: exp.Expr, domain: Domain) -> None:
    if any(c is node for c in item.find_all(exp.Column)):
        raise AmbiguousColumn(f'"{node.name}" is defined by itself', position=position(node))
    if item.find(exp.Query):
        raise FeatureNotSupported(
            f'the subquery called "{node.name}" is not answered here',
            hint="Put the aggregation into a subquery of its own and use the name above it.",
            position=position(node),
        )
    copy = item.copy()
    copy.meta["named"] = True  # a number called by its name is no place in the SELECT
    for column in copy.find_all(exp.Column):
        if column.table != RECORD:
            _point_at_attribute(column, domain)
    plain = isinstance(copy, exp.Column | exp.Func | exp.Paren | exp.Literal)
    node.replace(copy if plain else exp.paren(copy, copy=False))
