"""Sums that split into parts with different attributes: Σ (a + b) = Σ a + Σ b.

Evaluated together, a and b need the product of their numbers of cells. If that is too many, the sum
is split into a few aggregates, each with its own noise: together these spread the less, the fewer
they are. A record counts in each part if no part is NULL, as it counts in the whole.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Final

from sqlglot import exp

from tallyveil.policy.domain import Domain
from tallyveil.rewriter.domain.components import attributes_of
from tallyveil.rewriter.domain.domain_relation import MAX_CELLS
from tallyveil.rewriter.domain.evaluate import Types
from tallyveil.rewriter.private.linear import Linear, Term, linear
from tallyveil.rewriter.resolve.branches import RECORD
from tallyveil.rewriter.sql.nodes import conjunction, unfiltered

__all__ = ["has_too_many_cells", "not_null", "split_total"]

_TOGETHER: Final = 1 << 17  # cells that parts are evaluated on together, in about 0.1 s
_SINCE: Final = exp.cast(exp.Literal.string("2000-01-01"), exp.DType.DATE)


def has_too_many_cells(domain: Domain, node: exp.Expr) -> bool:
    """Whether the attributes in the expression have too many cells together."""
    return _cells(domain, node) > MAX_CELLS


def _cells(domain: Domain, node: exp.Expr) -> int:
    return math.prod(axis.size for axis in domain.project(attributes_of(node)))


def split_total(domain: Domain, node: exp.Expr) -> list[exp.Expr]:
    """Split a COUNT or SUM, with its FILTER, into aggregates over fewer attributes that add up to
    it; only itself if it cannot or need not be split.
    """
    aggregate = unfiltered(node)
    if type(aggregate) not in (exp.Sum, exp.Count) or isinstance(aggregate.this, exp.Star):
        return [node]
    if not has_too_many_cells(domain, aggregate.this):
        return [node]
    form = linear(aggregate.this, lambda value: True) or Linear((), ())
    found = [*form.terms, *(Term(negative, None, value) for negative, value in form.constants)]
    types = Types(domain)
    terms = [(term, types(term.aggregate) == "DATE") for term in found]
    dates = Counter((term.negative, term.scale) for term, is_date in terms if is_date)
    if any(dates[not negative, scale] != times for (negative, scale), times in dates.items()):
        return [node]  # dates that do not cancel: not a number of days
    parts = _parts([_written(term, days=is_date) for term, is_date in terms])
    if len(parts) < 2:
        return [node]
    given = [node.expression.this] if isinstance(node, exp.Filter) else []
    if isinstance(aggregate, exp.Count):
        return [_filtered(exp.Count(this=exp.Star()), [*given, *not_null(domain, parts)])]
    parts = _packed(domain, parts)
    return [
        _filtered(
            exp.Sum(this=part.copy()),
            [*given, *not_null(domain, [other for other in parts if other is not part])],
        )
        for part in parts
    ]


def _packed(domain: Domain, parts: list[exp.Expr]) -> list[exp.Expr]:
    """Add up parts, one after the other, while they have few cells together."""
    packed = parts[:1]
    for part in parts[1:]:
        together = exp.Add(this=packed[-1], expression=part)
        if _cells(domain, together) <= _TOGETHER:
            packed[-1] = together
        else:
            packed.append(part)
    return packed


def _written(term: Term, *, days: bool) -> exp.Expr:
    """The SQL of a term, with its sign; with ``days``, a date as days since _SINCE."""
    written = exp.paren(term.aggregate)
    if days:
        written = exp.paren(exp.Sub(this=written, expression=_SINCE.copy()), copy=False)
    if term.scale is not None:
        product = exp.Mul(this=exp.paren(term.scale), expression=written)
        written = exp.paren(product, copy=False)
    return exp.paren(exp.Neg(this=written), copy=False) if term.negative else written


def _parts(terms: list[exp.Expr]) -> list[exp.Expr]:
    """Add up terms that share attributes; constants join the first sum."""
    parts: list[tuple[frozenset[str], exp.Expr]] = []
    for term in sorted(terms, key=lambda term: not attributes_of(term)):
        mentioned = attributes_of(term)
        touching = [part for part in parts if part[0] & mentioned] if mentioned else parts[:1]
        whole = term
        for names, part in touching:
            whole, mentioned = exp.Add(this=part, expression=whole), mentioned | names
        parts = [part for part in parts if part not in touching]
        parts.append((mentioned, whole))
    return [part for _, part in parts]


def not_null(domain: Domain, parts: Iterable[exp.Expr]) -> list[exp.Expr]:
    """A condition IS NOT NULL for each part that may be NULL."""
    return [
        exp.Not(this=exp.Is(this=exp.paren(part), expression=exp.Null()))
        for part in parts
        if not _never_null(domain, part)
    ]


def _never_null(domain: Domain, part: exp.Expr) -> bool:
    plain = (exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Paren, exp.Literal, exp.Column, exp.Identifier)
    if not all(isinstance(node, plain) for node in part.walk()):
        return False
    columns = list(part.find_all(exp.Column))
    return all(c.table == RECORD and domain[c.name].null_cell is None for c in columns)


def _filtered(aggregate: exp.Expr, conditions: list[exp.Expr]) -> exp.Expr:
    if not conditions:
        return aggregate
    whole = conjunction([exp.paren(condition) for condition in conditions])
    return exp.Filter(this=aggregate, expression=exp.Where(this=whole))
