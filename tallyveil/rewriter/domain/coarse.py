"""Where a column stands whose cells hold many values of the source: bins, and days of timestamps.

An expression that could tell two values of a cell apart has no answer. A cell as a whole may be
grouped by, tested for NULL and counted, and compared with a constant that cuts through no cell.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from sqlglot import exp

from tallyveil.rewriter.private.linear import is_constant
from tallyveil.rewriter.resolve.records import OUTER

__all__ = ["Comparison", "compares_with_constant", "comparisons", "place_of"]

Comparison = tuple[type[exp.Expr], exp.Expr]

_FLIPPED: Final = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}
_OPERATORS: Final = MappingProxyType(
    {
        **{kind: kind for kind in (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ, exp.NEQ)},
        exp.NullSafeEQ: exp.EQ,
        exp.NullSafeNEQ: exp.NEQ,
    }
)
_WHOLE: Final = (
    exp.Is, exp.Count, exp.Group, exp.Select, exp.Alias, exp.Ordered, exp.Rollup, exp.Cube,
    exp.GroupingSets, exp.Grouping,
)  # fmt: skip
_GROUPS: Final = (exp.Group, exp.Rollup, exp.Cube, exp.GroupingSets)


def place_of(column: exp.Column) -> tuple[exp.Expr, exp.Expr | None]:
    """The column with the brackets around it, and what it then stands in."""
    child: exp.Expr = column
    while isinstance(child.parent, exp.Paren):
        child = child.parent
    return child, child.parent


def comparisons(column: exp.Column) -> list[Comparison] | None:
    """The operators the column stands to the left of, and what stands to the right.

    Nothing where its cells stand as a whole; None where it stands inside another expression.
    """
    child, parent = place_of(column)
    if column.meta.get(OUTER) and not isinstance(parent, exp.Predicate):
        return None
    if isinstance(parent, _WHOLE):
        return []
    if isinstance(parent, exp.Tuple) and isinstance(parent.parent, _GROUPS):
        return []
    if isinstance(parent, exp.Between) and parent.this is child:
        return [(exp.GTE, parent.args["low"]), (exp.LTE, parent.args["high"])]
    if isinstance(parent, exp.In) and parent.this is child and not parent.args.get("query"):
        return [(exp.EQ, value) for value in parent.expressions]
    operator = _OPERATORS.get(type(parent))
    if operator is None or parent is None:
        return None
    if parent.this is child:
        return [(operator, parent.expression)]
    return [(_FLIPPED.get(operator, operator), parent.this)]


def compares_with_constant(node: exp.Expr) -> bool:
    """Whether the other side is one value that needs no record to be known."""
    return is_constant(node) and not isinstance(node.unnest(), exp.Any | exp.All)
