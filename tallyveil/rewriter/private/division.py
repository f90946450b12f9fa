"""Division of noisy values, where a divisor can be zero though the true one never is."""

from __future__ import annotations

from sqlglot import exp

from tallyveil.rewriter.private.linear import is_constant

__all__ = ["null_on_zero"]


def null_on_zero(tree: exp.Expr, *kinds: type[exp.Expr], constant: bool) -> None:
    """Make ``a / b`` NULL where b is zero, in place; ``constant``: also for a b that is constant.

    An empty group's count, say, is zero or noise around it; an error would spoil the other rows,
    and what they cost. A statement that costs nothing may say that it divides by 0.
    """
    for division in list(tree.find_all(*kinds)):
        divisor = division.expression
        if not is_constant(divisor) or (constant and not _is_another_number(divisor)):
            zero = exp.Literal.number(0)
            division.set("expression", exp.Nullif(this=divisor.copy(), expression=zero))


def _is_another_number(divisor: exp.Expr) -> bool:
    number = divisor.unnest()
    while isinstance(number, exp.Neg | exp.Cast):
        number = number.this.unnest()
    return isinstance(number, exp.Literal) and not number.is_string and float(number.name) != 0
