"""Conditions on groups that pick some of them. BI tools write such filters around a query:

    SELECT … FROM (SELECT a, count(*) AS n FROM t GROUP BY a) AS q WHERE a = 3

A condition on group keys alone holds for all records of a group or for none. So it is copied to the
WHERE of the SELECT that aggregates, and only the groups it picks are bought. It stays where it was,
which changes nothing.

Copied are comparisons of keys with constants: they cannot fail, whatever other conditions exclude.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from tallyveil.rewriter.resolve.bound import Bound
from tallyveil.rewriter.resolve.record_queries import aggregates, definition_of, reads_records
from tallyveil.rewriter.sql.nodes import conjunction, conjuncts, is_star, position, whole_number

__all__ = ["OF_ALL_ROWS", "group_keys", "pick_by_keys"]

_COMPARISONS: Final = (
    exp.And,
    exp.Between,
    exp.Boolean,
    exp.EQ,
    exp.GT,
    exp.GTE,
    exp.In,
    exp.Is,
    exp.LT,
    exp.LTE,
    exp.Literal,
    exp.NEQ,
    exp.Neg,
    exp.Not,
    exp.Null,
    exp.Or,
    exp.Paren,
)

# Clauses after which a row depends on others, or on how many there are.
OF_ALL_ROWS: Final = ("distinct", "fetch", "limit", "offset", "qualify", "sample", "windows")


def pick_by_keys(tree: exp.Expr, bound: Bound) -> None:
    """Copy such conditions inwards, in place: outer SELECTs first."""
    for select in list(tree.find_all(exp.Select)):
        having = select.args.get("having")
        if having is not None:
            # DuckDB lets an alias stand in HAVING, perhaps for another expression than the key's.
            aliases = {i.alias for i in select.expressions if isinstance(i, exp.Alias)}
            keys = [
                key
                for key in group_keys(select)
                if key.name not in aliases or _item(select, key.name) == key
            ]
            parts = [part.copy() for part in conjuncts(having.this) if _compares(part, keys)]
            _add(select, "where", parts)
        inner = _inner(select)
        where = select.args.get("where")
        if inner is not None and where is not None and not reads_records(select):
            found = [_below(part, select, inner, bound) for part in conjuncts(where.this)]
            clause = "having" if aggregates(inner) else "where"
            _add(inner, clause, [part for part in found if part is not None])


def group_keys(select: exp.Select) -> list[exp.Expr]:
    """The expressions it groups by; none for grouping sets."""
    group = select.args.get("group")
    if group is None or any(value for key, value in group.args.items() if key != "expressions"):
        return []
    groups = []
    for each in group.expressions:
        number = whole_number(each) or 0
        known = 1 <= number <= len(select.expressions)
        groups.append(select.expressions[number - 1].unalias() if known else each)
    return groups


def _inner(select: exp.Select) -> exp.Select | None:
    """The one query it reads, if each of its rows comes from one row, or one group, there, and
    nothing else reads it."""
    source = select.args.get("from_")
    if source is None or select.args.get("joins") or select.args.get("laterals"):
        return None
    item, named = source.this, definition_of(source.this)
    if named is not None:
        tables = [one for one in item.root().find_all(exp.Table) if definition_of(one) is named]
        if len(tables) > 1 or named.alias_column_names:
            return None
        item = named
    query = item.this if isinstance(item, exp.Subquery | exp.CTE) else None
    if not isinstance(query, exp.Select) or source.this.alias_column_names:
        return None
    if any(query.args.get(clause) for clause in OF_ALL_ROWS) or query.find(exp.Window):
        return None
    return query


def _below(part: exp.Expr, select: exp.Select, inner: exp.Select, bound: Bound) -> exp.Expr | None:
    """The condition over what the inner query reads, or over its groups; None if it is none."""
    columns = list(part.find_all(exp.Column))
    if not columns or not _compares(part, columns):
        return None
    items = {}
    for column in columns:
        clear = len(bound.places(column, select)) == 1
        item = _item(inner, column.name) if clear else None
        if item is None:
            return None
        items[column.sql()] = item
    keys = group_keys(inner) if aggregates(inner) else list(items.values())
    if any(item not in keys for item in items.values()):
        return None
    if not aggregates(inner) and not all(isinstance(i, exp.Column) for i in items.values()):
        return None
    whole = exp.Paren(this=part.copy())
    for column in list(whole.find_all(exp.Column)):
        item, start = items[column.sql()].copy(), position(column)
        for node in item.walk():
            # Messages about it are about the condition as it is written.
            if node.meta_get("start") is not None and start is not None:
                node.meta["start"] = start - 1
        column.replace(item)
    return whole


def _item(select: exp.Select, name: str) -> exp.Expr | None:
    """The expression that a SELECT names so; None if it is not clear which."""
    if select.expressions == [exp.Star()]:
        return exp.column(name, quoted=True)
    if any(map(is_star, select.expressions)):
        return None
    found = [item.unalias() for item in select.expressions if item.alias_or_name == name]
    return found[0] if len(found) == 1 else None


def _compares(part: exp.Expr, keys: Sequence[exp.Expr]) -> bool:
    """Whether it compares some of the keys with constants."""
    stack, some = [part], False
    while stack:
        node = stack.pop()
        if node in keys:
            some = True
        elif isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
            continue
        elif isinstance(node, _COMPARISONS) and not node.args.get("query"):
            stack += node.iter_expressions()
        else:
            return False
    return some


def _add(select: exp.Select, clause: str, parts: list[exp.Expr]) -> None:
    if not parts:
        return
    before = select.args.get(clause)
    whole = conjunction([*([] if before is None else [before.this]), *parts])
    select.set(clause, (exp.Having if clause == "having" else exp.Where)(this=whole))
