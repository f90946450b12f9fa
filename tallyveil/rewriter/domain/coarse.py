"""Where a column stands whose cells hold many values of the source: bins, and days of timestamps.

An expression that could tell two values of a cell apart has no answer. A cell as a whole may be
grouped by, tested for NULL and counted, and compared with a constant that cuts through no cell.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from tallyveil.rewriter.private.linear import is_constant
from tallyveil.rewriter.resolve.records import OUTER
from tallyveil.rewriter.sql.nodes import COMPARISONS

__all__ = ["CELLS", "compares_with_constant", "comparisons", "place_of"]

# The key under which the meta of an expression above the aggregation says of which attribute its
# values are cells (`private.above`). Cells of one attribute compare as the groups they are.
CELLS: Final = "cells"

Comparison = tuple[type[exp.Expr], exp.Expr]

_EXACT: Final[dict[type[exp.Expr], type[exp.Expr]]] = {
    exp.NullSafeEQ: exp.EQ,
    exp.NullSafeNEQ: exp.NEQ,
}
_WHOLE: Final = (
    exp.Is, exp.Count, exp.Group, exp.Select, exp.Alias, exp.Ordered, exp.Rollup, exp.Cube,
    exp.GroupingSets, exp.Grouping, exp.Distinct, exp.Window,
)  # fmt: skip
_LISTS: Final = (exp.Group, exp.Rollup, exp.Cube, exp.GroupingSets, exp.Distinct)


def place_of(column: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """The column with the brackets around it, and what it then stands in."""
    child = column
    while isinstance(child.parent, exp.Paren):
        child = child.parent
    return child, child.parent


def comparisons(column: exp.Expr) -> list[Comparison] | None:
    """The operators the column stands to the left of, and what stands to the right.

    Nothing where its cells stand as a whole; None where it stands inside another expression.
    """
    found, own = _found(column), column.meta_get(CELLS)
    if found is None or own is None:
        return found
    return [(operator, other) for operator, other in found if other.meta_get(CELLS) != own]


def _found(column: exp.Expr) -> list[Comparison] | None:
    child, parent = place_of(column)
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


def _listed(child: exp.Expr, parent: exp.In) -> list[Comparison] | None:
    """What IN compares with, the rows of VALUES among it."""
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
    """Whether the rows of a window's frame are chosen by how far they are from one."""
    window = ordered.find_ancestor(exp.Window)
    spec = None if window is None else window.args.get("spec")
    if spec is None or spec.args.get("kind") != "RANGE":
        return False
    return any(isinstance(spec.args.get(end), exp.Expr) for end in ("start", "end"))


def compares_with_constant(node: exp.Expr) -> bool:
    """Whether the other side is one value that needs no record to be known."""
    return is_constant(node) and not isinstance(node.unnest(), exp.Any | exp.All)
