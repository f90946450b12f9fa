"""What a SELECT refers to by its place or its name alone: positions, aliases, what DISTINCT leaves.

DuckDB has words of its own for these mistakes, or takes them.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from tallyveil.errors import DuplicateAlias, InvalidColumnReference, SQLSyntaxError
from tallyveil.rewriter.sql.check import is_star, position
from tallyveil.rewriter.sql.statements import Dialect

__all__ = ["check_references"]


def check_references(tree: exp.Expr, dialect: Dialect) -> None:
    """Raise SQLSyntaxError, InvalidColumnReference and DuplicateAlias."""
    for select in tree.find_all(exp.Select):
        _check_positions(select)
        if dialect == "postgres":
            _check_aliases(select)
            _check_distinct(select)


def _check_positions(select: exp.Select) -> None:
    items = select.expressions
    if any(map(is_star, items)):
        return
    for clause, key in _keys(select):
        if not isinstance(key, exp.Literal) or key.is_string or "named" in key.meta:
            continue
        if not key.this.isdigit():
            raise SQLSyntaxError(f"non-integer constant in {clause}", position=position(key))
        if not 1 <= int(key.this) <= len(items):
            raise InvalidColumnReference(
                f"{clause} position {key.this} is not in select list", position=position(key)
            )


def _keys(select: exp.Select) -> Iterator[tuple[str, exp.Expr]]:
    order, group = select.args.get("order"), select.args.get("group")
    for part in order.expressions if order is not None else ():
        yield "ORDER BY", part.this
    for key in group.expressions if group is not None else ():
        yield "GROUP BY", key


def _check_aliases(select: exp.Select) -> None:
    first, joins = select.args.get("from_"), select.args.get("joins") or ()
    seen: set[str] = set()
    for source in [] if first is None else [first.this, *(join.this for join in joins)]:
        name = source.alias_or_name
        if name and name in seen:
            raise DuplicateAlias(
                f'table name "{name}" specified more than once',
                hint="Give each of them an alias.",
                position=position(source),
            )
        seen.add(name)


def _check_distinct(select: exp.Select) -> None:
    items, order = select.expressions, select.args.get("order")
    if order is None or select.args.get("distinct") is None or any(map(is_star, items)):
        return
    names = {name for item in items for name in (item.alias_or_name, item.unalias().name)}
    for part in order.expressions:
        if isinstance(part.this, exp.Column) and part.this.name not in names:
            raise InvalidColumnReference(
                "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
                position=position(part.this),
            )
