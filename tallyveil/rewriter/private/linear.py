"""Linear combinations of aggregates: a·count(*) − b·sum(x) + c is one linear query and c.

As one row it costs its own sensitivity. As separate rows the aggregates would cost the sum of
theirs, and their noise would add up. A noisy divisor can be zero though the true one never is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from sqlglot import exp

from tallyveil.rewriter.sql.nodes import all_nodes, is_constant, unfiltered
from tallyveil.rewriter.sql.vocabulary import QUANTILES

__all__ = ["Linear", "Term", "is_statistic", "linear", "null_on_zero", "number_of"]


@dataclass(frozen=True)
class Term:
    """``± scale · aggregate``; ``scale`` is a constant expression, None for 1."""

    negative: bool
    scale: exp.Expr | None
    aggregate: exp.Expr


@dataclass(frozen=True)
class Linear:
    """Σ terms + Σ constants, each with its sign."""

    terms: tuple[Term, ...]
    constants: tuple[tuple[bool, exp.Expr], ...]

    @property
    def cancels(self) -> bool:
        """Whether the terms add up to 0 for all values of the aggregates."""
        sums: dict[exp.Expr, Fraction] = {}
        for term in self.terms:
            scale = Fraction(1) if term.scale is None else number_of(term.scale) or Fraction(0)
            sums[term.aggregate] = sums.get(term.aggregate, Fraction(0)) + (
                -scale if term.negative else scale
            )
        return not any(sums.values())

    def __neg__(self) -> Linear:
        return Linear(
            tuple(Term(not t.negative, t.scale, t.aggregate) for t in self.terms),
            tuple((not negative, c) for negative, c in self.constants),
        )

    def __add__(self, other: Linear) -> Linear:
        return Linear(self.terms + other.terms, self.constants + other.constants)


_COMBINED: Final[Mapping[type[exp.Expr], Callable[[Fraction, Fraction], Fraction]]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
}


def number_of(node: exp.Expr) -> Fraction | None:
    """The exact value of an expression built of numbers only; None for another, which may be
    NULL.
    """
    match node:
        case exp.Literal():
            return None if node.is_string else Fraction(node.this)
        case exp.Paren():
            return number_of(node.this)
        case exp.Neg():
            inner = number_of(node.this)
            return None if inner is None else -inner
        case exp.Cast():
            return number_of(node.this) if node.to.this in exp.DataType.NUMERIC_TYPES else None
        case exp.Add() | exp.Sub() | exp.Mul():
            left, right = number_of(node.this), number_of(node.expression)
            if left is not None and right is not None:
                return _COMBINED[type(node)](left, right)
    return None


def is_statistic(node: exp.Expr) -> bool:
    """Whether it is a distinct count, a quantile or a mode, which are not linear."""
    inner = unfiltered(node)
    distinct = isinstance(inner, exp.Count) and isinstance(inner.this, exp.Distinct)
    return distinct or isinstance(inner, (exp.ApproxDistinct, exp.Mode, *QUANTILES))


def _is_total(node: exp.Expr) -> bool:
    return isinstance(unfiltered(node), exp.Count | exp.Sum) and not is_statistic(node)


def linear(node: exp.Expr, combines: Callable[[exp.Expr], bool] = _is_total) -> Linear | None:
    """Return the node as a linear combination of expressions for which ``combines`` holds, such as
    aggregates; None if it is not one.

    Division stays an operation on noisy rows: PostgreSQL's integer division is not linear, and
    dividing by a constant after adding noise gives the same as before.
    """
    if isinstance(node, exp.Paren):
        return linear(node.this, combines)
    if number_of(node) is not None:
        return Linear((), ((False, node),))
    if isinstance(node, exp.Neg):
        inner = linear(node.this, combines)
        return None if inner is None else -inner
    if isinstance(node, exp.Add | exp.Sub):
        left, right = linear(node.this, combines), linear(node.expression, combines)
        if left is None or right is None:
            return None
        return left + (-right if isinstance(node, exp.Sub) else right)
    if isinstance(node, exp.Mul):
        for scale, other in ((node.this, node.expression), (node.expression, node.this)):
            inner = linear(other, combines) if number_of(scale) is not None else None
            if inner is not None:
                return _scaled(scale, inner)
    return Linear((Term(False, None, node),), ()) if combines(node) else None


def _scaled(scale: exp.Expr, inner: Linear) -> Linear:
    return Linear(
        tuple(Term(t.negative, _product(scale, t.scale), t.aggregate) for t in inner.terms),
        tuple((negative, _product(scale, c)) for negative, c in inner.constants),
    )


def _product(left: exp.Expr, right: exp.Expr | None) -> exp.Expr:
    if right is None:
        return left
    return exp.Mul(this=exp.paren(left.copy()), expression=exp.paren(right.copy()))


def null_on_zero(tree: exp.Expr, *kinds: type[exp.Expr], constant: bool) -> None:
    """Make ``a / b`` NULL where b is zero, in place; with ``constant``, also for a constant b.

    The count of an empty group, for example, is zero or noise around it. An error would withhold
    the other rows, which are charged already. A statement that charges nothing may divide by 0.
    """
    for division in all_nodes(tree, *kinds):
        divisor = division.expression
        if not is_constant(divisor) or (constant and not number_of(divisor)):
            zero = exp.Literal.number(0)
            division.set("expression", exp.Nullif(this=divisor.copy(), expression=zero))
