"""Division as the client's dialect means it.

PostgreSQL divides integers to an integer and raises on a zero divisor. For what is evaluated on
the domain that error is kept: it depends on the domain only. Over noisy rows a divisor can be
zero where the true one never is (an empty group's count, say); there the result is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from tallyveil.rewriter.types import INTEGERS, static_type

__all__ = ["mark_integer_division", "null_on_zero", "raise_on_zero"]


def mark_integer_division(tree: exp.Expr, columns: Mapping[str, str]) -> None:
    """Turn PostgreSQL's ``/`` of two integers into integer division, innermost first."""
    for node in reversed(list(tree.find_all(exp.Div))):
        left, right = node.this, node.expression
        if static_type(left, columns) in INTEGERS and static_type(right, columns) in INTEGERS:
            node.replace(exp.IntDiv(this=left, expression=right))


def raise_on_zero(node: exp.Expr) -> exp.Expr:
    """For the domain: ``a / 0`` is an error, as DuckDB has it for ``//`` and ``%`` already."""
    return _guard(node, _raise, exp.Div)


def null_on_zero(node: exp.Expr) -> exp.Expr:
    """For noisy rows: ``a / 0`` is NULL."""
    return _guard(node, _null, exp.Div, exp.IntDiv, exp.Mod)


_ZERO = exp.Literal.number(0)


def _raise(divisor: exp.Expr) -> exp.Expr:
    error = exp.Anonymous(this="error", expressions=[exp.Literal.string("division by zero")])
    is_zero = exp.EQ(this=exp.paren(divisor.copy()), expression=_ZERO.copy())
    return exp.Case(ifs=[exp.If(this=is_zero, true=error)], default=divisor)


def _null(divisor: exp.Expr) -> exp.Expr:
    return exp.Nullif(this=divisor, expression=_ZERO.copy())


def _guard(
    node: exp.Expr, guard: Callable[[exp.Expr], exp.Expr], *kinds: type[exp.Expr]
) -> exp.Expr:
    copy = node.copy()
    for division in list(copy.find_all(*kinds)):
        divisor = division.expression
        if isinstance(divisor, exp.Literal) and float(divisor.this) != 0:
            continue
        division.set("expression", guard(divisor.copy()))
    return copy
