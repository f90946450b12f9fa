"""What a result column is called when the statement does not say, and how names are written."""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from tallyveil.rewriter.sql.check import function_name, is_star
from tallyveil.rewriter.sql.statements import Dialect

__all__ = ["name_columns", "written_name"]

_UNNAMED: Final = "?column?"
_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*", re.ASCII)

# Functions to the parser, which an operator can stand for: ^ ~ ^@ |/ AND OR.
_OPERATORS = (
    exp.Pow, exp.RegexpLike, exp.RegexpILike, exp.StartsWith, exp.Sqrt, exp.Cbrt, exp.And, exp.Or,
)  # fmt: skip


def name_columns(tree: exp.Expr, dialect: Dialect, sql: str) -> None:
    """Give every unnamed item of every SELECT in the tree the name its dialect would give.

    ``sql`` is the statement's text, where functions stand as the analyst calls them.
    """
    for select in list(tree.find_all(exp.Select)):
        items = [
            item
            if isinstance(item, exp.Alias) or is_star(item)
            else _named(item, _name(item, dialect, sql))
            for item in select.expressions
        ]
        select.set("expressions", items)


def written_name(name: str) -> str:
    """The name as SQL that both dialects read: in double quotes where PostgreSQL needs them."""
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def _named(item: exp.Expr, name: str) -> exp.Alias:
    """`exp.alias_` would put a subquery's name inside it, as in FROM."""
    return exp.Alias(this=item, alias=exp.to_identifier(name, quoted=True))


def _name(item: exp.Expr, dialect: Dialect, sql: str) -> str:
    if isinstance(item, exp.Column):
        return item.name
    return _postgres_name(item, sql) if dialect == "postgres" else _duckdb_name(item)


def _postgres_name(item: exp.Expr, sql: str) -> str:
    """As PostgreSQL's FigureColname does: the column, the function, the cast's operand, case."""
    return _figured(item, sql)[0]


def _figured(item: exp.Expr, sql: str) -> tuple[str, bool]:
    """The name, and whether it is good enough for a CASE or a cast around it to go by."""
    match item:
        case exp.Column() | exp.Alias():
            return item.alias_or_name, True
        case exp.Paren() | exp.Filter() | exp.Window():
            return _figured(item.this, sql)
        case exp.Case():
            default = item.args.get("default")
            inner, good = _figured(default, sql) if default is not None else (_UNNAMED, False)
            return (inner, True) if good else ("case", False)
        case exp.Subquery():
            first = item.this.expressions[0] if item.this.expressions else None
            return _figured(first, sql)[0] if first is not None else _UNNAMED, True
        case exp.Dot():
            return _figured(item.expression, sql)
        case exp.Trim() if "start" not in item.meta:
            side = item.text("position")
            return {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side, "btrim"), True
        case exp.Interval():
            return "interval", False
        case exp.Cast() if "bound" in item.meta:
            return _UNNAMED, False
        case exp.AtTimeZone():
            return "timezone", True
    if not isinstance(item, exp.Literal | exp.National | exp.RawString) and "start" in item.meta:
        return sql[item.meta["start"] : item.meta["end"] + 1].lower(), True
    if isinstance(item, exp.Cast):
        inner, good = _figured(item.this, sql)
        return (inner, True) if good else (_type_name(item), False)
    named = isinstance(item, exp.Func) and not isinstance(item, _OPERATORS)
    return (function_name(item), True) if named else (_UNNAMED, False)


def _type_name(item: exp.Cast) -> str:
    names = {"INT": "int4", "BIGINT": "int8", "SMALLINT": "int2", "DOUBLE": "float8"}
    names |= {"DECIMAL": "numeric", "BOOLEAN": "bool", "FLOAT": "float4", "CHAR": "bpchar"}
    kind = str(item.to.this.value)
    return names.get(kind, kind.lower())


def _duckdb_name(item: exp.Expr) -> str:
    if isinstance(item, exp.Count) and isinstance(item.this, exp.Star):
        return "count_star()"
    text = item.sql("duckdb", normalize_functions="lower")
    return text.replace("count(*)", "count_star()")
