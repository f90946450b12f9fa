"""Division of noisy values, where a divisor can be zero though the true one never is."""

from __future__ import annotations

from sqlglot import exp

from tallyveil.rewriter.private.linear import is_constant

__all__ = ["null_on_zero"]


def null_on_zero(tree: exp.Expr, *kinds: type[exp.Expr]) -> None:
    """Make ``a / b`` NULL where b is zero, in place, for divisors that are not constant.

    An empty group's count, say, is zero or noise around it; an error would spoil the other rows.
    """
    for division in list(tree.find_all(*kinds)):
        divisor = division.expression
        if not is_constant(divisor):
            zero = exp.Literal.number(0)
            division.set("expression", exp.Nullif(this=divisor.copy(), expression=zero))
