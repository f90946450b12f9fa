"""A caution where ORDER BY and LIMIT show empty groups first: an average is NULL where the noisy
count is not positive, and PostgreSQL sorts NULLs before all values in descending order."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from tallyveil.rewriter.private.moments import MOMENTS
from tallyveil.rewriter.query_plan import Caution
from tallyveil.rewriter.sql.nodes import position, unfiltered

__all__ = ["nulls_first", "sorted_by"]

_MAY_BE_NULL: Final[tuple[type[exp.Expr], ...]] = (exp.Avg, *MOMENTS)


def nulls_first(select: exp.Select) -> tuple[Caution, ...]:
    """The caution, if a SELECT shows the first rows by an average whose NULLs come first."""
    order = select.args.get("order")
    if order is None or not (select.args.get("limit") or select.args.get("fetch")):
        return ()
    for part in order.expressions:
        node = sorted_by(part.this, select)
        if part.args.get("nulls_first") and not node.find(exp.Coalesce) and _may_be_null(node):
            return (
                Caution(
                    "ORDER BY puts groups without an average first",
                    detail="An average is NULL where the noisy count is not positive,"
                    " and NULL comes before all values in this order.",
                    hint="Add NULLS LAST after the column in ORDER BY.",
                    position=position(part.this),
                ),
            )
    return ()


def sorted_by(node: exp.Expr, select: exp.Select) -> exp.Expr:
    """The item that a position or an alias in ORDER BY stands for."""
    items: list[exp.Expr] = select.expressions
    if isinstance(node, exp.Literal) and not node.is_string:
        return items[int(node.this) - 1]
    if isinstance(node, exp.Column) and not node.table:
        return next((item for item in items if item.alias == node.name), node)
    return node


def _may_be_null(node: exp.Expr) -> bool:
    return any(isinstance(unfiltered(one), _MAY_BE_NULL) for one in node.walk())
