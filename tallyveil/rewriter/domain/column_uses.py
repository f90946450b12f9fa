"""How a statement uses a column: what it is compared with, or as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from sqlglot import exp

from tallyveil.rewriter.resolve.record_queries import OUTER
from tallyveil.rewriter.sql.nodes import COMPARISONS, is_constant

__all__ = ["CELLS", "Constant", "compares_with_constant", "comparisons", "standing_in"]

Constant: TypeAlias = Callable[[exp.Expr], Any]
"""Evaluates a constant expression."""

# The key in the meta of an expression above the aggregation for the attribute whose cells are its
# values (`private.above`). Cells of one attribute may be compared with each other, as groups.
CELLS: Final = "cells"

_Comparison = tuple[type[exp.Expr], exp.Expr]

_EXACT: Final[dict[type, type[exp.Expr]]] = {exp.NullSafeEQ: exp.EQ, exp.NullSafeNEQ: exp.NEQ}
_WHOLE: Final = (
    exp.Is, exp.Count, exp.Group, exp.Select, exp.Alias, exp.Ordered, exp.Rollup, exp.Cube,
    exp.GroupingSets, exp.Grouping, exp.Distinct, exp.Window,
)  # fmt: skip
_LISTS: Final = (exp.Group, exp.Rollup, exp.Cube, exp.GroupingSets, exp.Distinct)


def standing_in(column: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """The column with the brackets around it, and the parent of these."""
    child = column
    while isinstance(child.parent, exp.Paren):
        child = child.parent
    return child, child.parent


def comparisons(column: exp.Expr) -> list[_Comparison] | None:
    """The comparisons of the column, each as an operator and its right side.

    Empty if its cells are used as a whole; None if it is inside another expression.
    """
    found, own = _all_comparisons(column), column.meta_get(CELLS)
    if found is None or own is None:
        return found
    return [(operator, other) for operator, other in found if other.meta_get(CELLS) != own]


def _all_comparisons(column: exp.Expr) -> list[_Comparison] | None:
    child, parent = standing_in(column)
    if column.meta_get(OUTER) and not isinstance(parent, exp.Predicate):
        return None
    if isinstance(parent, exp.Ordered) and _by_distance(parent):
        return None
    if isinstance(parent, _WHOLE):
        return []
    if isinstance(parent, exp.Tuple) and isinstance(parent.parent, _LISTS):
        return []
    if isinstance(parent, exp.Between) and parent.this is child:
        return [(exp.GTE, parent.args["low"]), (exp.LTE, parent.args["high"])]
    if isinstance(parent, exp.In):
        return _listed(child, parent)
    if parent is None:
        return None
    operator = _EXACT.get(type(parent), type(parent))
    if operator not in COMPARISONS:
        return None
    if parent.this is child:
        return [(operator, parent.expression)]
    return [(COMPARISONS[operator].flipped, parent.this)]


def _listed(child: exp.Expr, parent: exp.In) -> list[_Comparison] | None:
    """The comparisons of IN, also with the rows of VALUES."""
    query = parent.args.get("query")
    if query is not None:
        return [(exp.EQ, query if parent.this is child else parent.this)]
    if parent.this is not child:
        return None
    found: list[exp.Expr] = []
    for value in parent.expressions:
        rows = value.expressions if isinstance(value, exp.Values) else [value]
        found += [row.expressions[0] if row is not value else row for row in rows]
    return [(exp.EQ, value) for value in found]


def _by_distance(ordered: exp.Ordered) -> bool:
    """Whether a window's frame selects rows by their distance from the current row's value."""
    window = ordered.find_ancestor(exp.Window)
    spec = None if window is None else window.args.get("spec")
    if spec is None or spec.args.get("kind") != "RANGE":
        return False
    return any(isinstance(spec.args.get(end), exp.Expr) for end in ("start", "end"))


def compares_with_constant(node: exp.Expr) -> bool:
    """Whether the other side is one value that depends on no record."""
    return is_constant(node) and not isinstance(node.unnest(), exp.Any | exp.All)
