"""Where the last digit of a quotient decides, there is no exact translation."""

from __future__ import annotations

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported
from tallyveil.rewriter.resolve.scope import Scope
from tallyveil.rewriter.sql.check import position

__all__ = ["refuse_inexact"]

_SMOOTH = (
    exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Abs, exp.Coalesce,
)  # fmt: skip


def refuse_inexact(node: exp.Expr, scope: Scope, *, smooth: bool = True) -> None:
    """Raise unless the value is only summed up, or is one of noisy rows.

    There an error in the last digit changes the answer by as much, and no record changes sides.
    ``smooth`` says that the node itself passes an error on as it is; a rounding does not.
    """
    if not scope.at_record_level(node):
        return
    child, parent = node, node.parent
    while parent is not None and _passes_on(parent, child):
        child, parent = parent, parent.parent
    if smooth and isinstance(parent, exp.Sum | exp.Avg):
        return
    raise FeatureNotSupported(
        "arithmetic on a numeric quotient is not answered where its last digit could decide",
        hint="Divide last, or in double precision: (a * 3)::float8 / b.",
        position=position(node),
    )


def _passes_on(parent: exp.Expr, child: exp.Expr) -> bool:
    """Whether a small error of the child is one of the parent: arithmetic, or a CASE's result."""
    if isinstance(parent, exp.If | exp.Case):
        return parent.this is not child
    if isinstance(parent, exp.Cast):
        return parent.to.this is exp.DType.DOUBLE
    return isinstance(parent, _SMOOTH)
