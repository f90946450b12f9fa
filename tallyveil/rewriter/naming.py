"""What a result column is called when the statement does not say."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from tallyveil.rewriter.check import function_name, is_star
from tallyveil.rewriter.statements import Dialect

__all__ = ["name_columns"]

_UNNAMED: Final = "?column?"


def name_columns(tree: exp.Expr, dialect: Dialect) -> None:
    """Give every unnamed item of every SELECT in the tree the name its dialect would give."""
    for select in list(tree.find_all(exp.Select)):
        items = [
            item
            if isinstance(item, exp.Alias) or is_star(item)
            else exp.alias_(item, _name(item, dialect), quoted=True, copy=False)
            for item in select.expressions
        ]
        select.set("expressions", items)


def _name(item: exp.Expr, dialect: Dialect) -> str:
    if isinstance(item, exp.Column):
        return item.name
    return _postgres_name(item) if dialect == "postgres" else _duckdb_name(item)


def _postgres_name(item: exp.Expr) -> str:
    """As PostgreSQL's FigureColname does: the column, the function, the cast's operand, case."""
    match item:
        case exp.Column():
            return item.name
        case exp.Paren() | exp.Filter() | exp.Window():
            return _postgres_name(item.this)
        case exp.Cast():
            inner = _postgres_name(item.this)
            return inner if inner != _UNNAMED else _type_name(item)
        case exp.Case():
            default = item.args.get("default")
            inner = _postgres_name(default) if isinstance(default, exp.Column) else _UNNAMED
            return inner if inner != _UNNAMED else "case"
        case exp.Subquery():
            first = item.this.expressions[0] if item.this.expressions else None
            return _postgres_name(first.unalias()) if first is not None else _UNNAMED
        case exp.Alias():
            return item.alias
        case exp.Dot():
            return _postgres_name(item.expression)
        case exp.Boolean():
            return "bool"
        case exp.And() | exp.Or() | exp.Not():
            return _UNNAMED
        case exp.Func():
            return function_name(item)
    return _UNNAMED


def _type_name(item: exp.Cast) -> str:
    names = {"INT": "int4", "BIGINT": "int8", "SMALLINT": "int2", "DOUBLE": "float8"}
    names |= {"DECIMAL": "numeric", "BOOLEAN": "bool"}
    kind = str(item.to.this.value)
    return names.get(kind, kind.lower())


def _duckdb_name(item: exp.Expr) -> str:
    if isinstance(item, exp.Count) and isinstance(item.this, exp.Star):
        return "count_star()"
    text = item.sql("duckdb", normalize_functions="lower")
    return text.replace("count(*)", "count_star()")
