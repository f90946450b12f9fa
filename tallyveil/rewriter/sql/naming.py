"""Names of result columns without an alias, quoting of names, and checks of what a SELECT refers to
by position or by name alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sqlglot import exp

from tallyveil.errors import DuplicateAlias, InvalidColumnReference, SQLSyntaxError
from tallyveil.quoting import identifier
from tallyveil.rewriter.sql.nodes import function_name, is_star, position, rendered, whole_number
from tallyveil.rewriter.sql.statement_text import Dialect

__all__ = ["check_references", "name_columns", "written_name"]


_UNNAMED: Final = "?column?"
_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?", re.ASCII)

# Classes of functions that may also stand for operators: ^ ~ ^@ |/ AND OR.
_OPERATORS = (
    exp.Pow, exp.RegexpLike, exp.RegexpILike, exp.StartsWith, exp.Sqrt, exp.Cbrt, exp.And, exp.Or,
)  # fmt: skip


def name_columns(tree: exp.Expr, dialect: Dialect, sql: str) -> None:
    """Give every unnamed item of every SELECT in the tree the name its dialect would give.

    ``sql`` is the statement's text, with functions as the analyst calls them.
    """
    for select in list(tree.find_all(exp.Select)):
        for item in list(select.expressions):
            if not isinstance(item, exp.Alias) and not is_star(item):
                name = _postgres_name(item, sql)[0] if dialect == "postgres" else _duckdb_name(item)
                # `exp.alias_` would put a subquery's name inside it, as in FROM.
                named = exp.Alias(alias=exp.to_identifier(name, quoted=True))
                item.replace(named)
                named.set("this", item)


def written_name(name: str) -> str:
    """The name as SQL that both dialects read, in double quotes if PostgreSQL needs them. An
    attribute that a join adds has its table's name before a point."""
    return name if _PLAIN.fullmatch(name) else identifier(name)


def _postgres_name(item: exp.Expr, sql: str) -> tuple[str, bool]:
    """The name that PostgreSQL's FigureColname gives, and whether a CASE or a cast around the item
    takes that name too.
    """
    match item:
        case exp.Column() | exp.Alias():
            return item.alias_or_name, True
        case exp.Paren() | exp.Filter() | exp.Window():
            return _postgres_name(item.this, sql)
        case exp.Case():
            default = item.args.get("default")
            inner, good = _postgres_name(default, sql) if default is not None else (_UNNAMED, False)
            return (inner, True) if good else ("case", False)
        case exp.Subquery():
            first = item.this.expressions[0] if item.this.expressions else None
            return _postgres_name(first, sql)[0] if first is not None else _UNNAMED, True
        case exp.Dot():
            return _postgres_name(item.expression, sql)
        case exp.Trim() if item.meta_get("start") is None:
            side = item.text("position")
            return {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "btrim"), True
        case exp.Interval():
            return "interval", False
        case exp.Cast() if item.meta_get("bound"):
            return _UNNAMED, False
        case exp.AtTimeZone():
            return "timezone", True
    start = item.meta_get("start")
    if not isinstance(item, exp.Literal | exp.National | exp.RawString) and start is not None:
        return sql[start : item.meta["end"] + 1].lower(), True
    if isinstance(item, exp.Cast):
        inner, good = _postgres_name(item.this, sql)
        return (inner, True) if good else (_type_name(item), False)
    named = isinstance(item, exp.Func) and not isinstance(item, _OPERATORS)
    return (function_name(item), True) if named else (_UNNAMED, False)


def _type_name(item: exp.Cast) -> str:
    names = {"INT": "int4", "BIGINT": "int8", "SMALLINT": "int2", "DOUBLE": "float8"}
    names |= {"DECIMAL": "numeric", "BOOLEAN": "bool", "FLOAT": "float4", "CHAR": "bpchar"}
    element = item.to
    while element.this is exp.DType.ARRAY and element.expressions:
        element = element.expressions[0]
    kind = str(element.this.value)
    return names.get(kind, kind.lower())


def _duckdb_name(item: exp.Expr) -> str:
    if isinstance(item, exp.Column):
        return item.name
    if isinstance(item, exp.Count) and isinstance(item.this, exp.Star):
        return "count_star()"
    text = rendered(item, "duckdb", normalize_functions="lower")
    return text.replace("count(*)", "count_star()")


def check_references(tree: exp.Expr, dialect: Dialect) -> None:
    """Raise SQLSyntaxError, InvalidColumnReference or DuplicateAlias for wrong references."""
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
        if isinstance(key, exp.Neg) and whole_number(key.this) is not None:
            raise InvalidColumnReference(
                f"{clause} position -{key.this.name} is not in select list",
                hint="Give the number of a column, counted from 1, or its name.",
                position=position(key),
            )
        if not isinstance(key, exp.Literal) or key.is_string or key.meta_get("named"):
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
