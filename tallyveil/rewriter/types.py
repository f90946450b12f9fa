"""The static types of expressions, as far as dialects and parameters need to know them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlglot import exp

__all__ = ["INTEGERS", "static_type"]

INTEGERS: Final = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"})

_STRINGS = (
    exp.Lower, exp.Upper, exp.Substring, exp.Trim, exp.Left, exp.Right, exp.Replace,
    exp.SplitPart, exp.Reverse, exp.Concat, exp.ConcatWs, exp.DPipe,
)  # fmt: skip
_COUNTS = (exp.Length, exp.StrPosition, exp.Ascii, exp.Count)
_DATE_PARTS = (
    exp.Year, exp.Quarter, exp.Month, exp.Week, exp.WeekOfYear, exp.Day, exp.DayOfMonth,
    exp.DayOfWeek, exp.DayOfWeekIso, exp.DayOfYear,
)  # fmt: skip
_TRUTHS = (exp.Predicate, exp.Not, exp.And, exp.Or, exp.Boolean)
_SAME = (exp.Paren, exp.Neg, exp.Sum, exp.Abs, exp.Filter, exp.Nullif, exp.Min, exp.Max)


def static_type(node: exp.Expr | None, columns: Mapping[str, str]) -> str | None:
    """The DuckDB type of an expression, None where it takes DuckDB to tell.

    ``columns`` has the types of the attributes, by name.
    """
    match node:
        case exp.Column():
            return columns.get(node.name) or _derived(node, columns)
        case exp.Literal():
            return _literal(node)
        case exp.Cast() | exp.TryCast():
            return node.to.sql("duckdb")
    if isinstance(node, _SAME):
        return static_type(node.this, columns)
    if isinstance(node, _STRINGS):
        return "VARCHAR"
    if isinstance(node, _COUNTS + _DATE_PARTS):
        return "BIGINT"
    if isinstance(node, _TRUTHS):
        return "BOOLEAN"
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Mod | exp.IntDiv):
        return _wider(static_type(node.this, columns), static_type(node.expression, columns))
    if isinstance(node, exp.Div):
        return "DOUBLE"
    if isinstance(node, exp.Coalesce | exp.Greatest | exp.Least):
        return _common([node.this, *node.expressions], columns)
    if isinstance(node, exp.Case):
        branches = [branch.args.get("true") for branch in node.args["ifs"]]
        default = node.args.get("default")
        return _common([*branches, *([default] if default else [])], columns)
    return None


def _literal(node: exp.Literal) -> str:
    if node.is_string:
        return "VARCHAR"
    if not node.this.isdigit():
        return "DOUBLE"
    return "INTEGER" if int(node.this) < 2**31 else "BIGINT"


def _wider(left: str | None, right: str | None) -> str | None:
    if left in INTEGERS and right in INTEGERS:
        return "BIGINT" if "BIGINT" in (left, right) else left
    return left if left == right else None


def _common(nodes: list[exp.Expr | None], columns: Mapping[str, str]) -> str | None:
    types = [static_type(node, columns) for node in nodes if not isinstance(node, exp.Null)]
    if types and all(kind in INTEGERS for kind in types):
        return "BIGINT" if "BIGINT" in types else types[0]
    return types[0] if types and len(set(types)) == 1 else None


def _derived(column: exp.Column, columns: Mapping[str, str]) -> str | None:
    """The type of an item of a subquery or common table that has the column's name."""
    root = column.root()
    items = [
        item.this
        for select in root.find_all(exp.Select)
        for item in select.expressions
        if isinstance(item, exp.Alias)
        and item.alias == column.name
        and not any(n is column for n in item.find_all(exp.Column))
    ]
    return _common(list(items), columns) if items else None
