"""A binned attribute may be grouped by, tested for NULL and compared at its edges, no more.

Within a bin ``[a, b)`` the cube does not know the values, so an expression that could tell two of
them apart has no answer. In the domain relation a bin stands as its lower edge, which decides
``x < c`` and ``x >= c`` rightly exactly when c is an edge or lies outside all bins.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

from sqlglot import exp

from tallyveil.errors import BinCut
from tallyveil.policy.domain import Attribute
from tallyveil.rewriter.domain.coarse import compares_with_constant, comparisons
from tallyveil.rewriter.resolve.records import OUTER
from tallyveil.rewriter.sql.check import position
from tallyveil.rewriter.sql.naming import written_name

__all__ = ["check_bins"]


def check_bins(column: exp.Expr, attribute: Attribute, constant: Callable[[exp.Expr], Any]) -> None:
    """Raise BinCut unless the place where the column stands respects the bins.

    ``constant`` evaluates a constant expression.
    """
    found = comparisons(column)
    if found is None:
        place = "a subquery" if column.meta.get(OUTER) else "an expression"
        _cut(attribute, column, f"it stands inside {place}")
    for operator, other in found:
        if not compares_with_constant(other):
            _cut(attribute, column, "it is compared with something that is not a constant")
        _meet(attribute, operator, constant(other), column)


def _meet(attribute: Attribute, kind: type[exp.Expr], value: Any, where: exp.Expr) -> None:
    """Whether ``attribute <kind> value`` is the same for all values of each bin."""
    if value is None:
        return  # NULL for every value
    edges = attribute.edges or ()
    number = _number(attribute, value, where)
    if number < edges[0] or number >= edges[-1] or (kind is exp.GTE and number == edges[0]):
        return
    if kind in (exp.LT, exp.GTE) and number in edges:
        return
    below = max(e for e in edges if e <= number)
    above = min(e for e in edges if e > number)
    if number in edges:
        _cut(attribute, where, f"only < {value} and >= {value} meet the edge {value}")
    _cut(attribute, where, f"{value} lies inside the bin [{below}, {above})", (below, above))


def _number(attribute: Attribute, value: Any, where: exp.Expr) -> int | float | Decimal:
    """The constant as it is compared with the edges: exactly, or as a double with doubles."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        _cut(attribute, where, "it is compared with something that is not a number")
    try:
        number = float(value) if attribute.sql_type == "DOUBLE" else Decimal(value)
    except (ValueError, InvalidOperation):
        _cut(attribute, where, "it is compared with something that is not a number")
    if math.isnan(number):
        _cut(attribute, where, "it is compared with NaN")
    return number


def _cut(
    attribute: Attribute,
    where: exp.Expr,
    why: str,
    nearest: tuple[int | float, int | float] | None = None,
) -> NoReturn:
    name, edges = written_name(attribute.name), attribute.edges or ()
    hint = f"Compare {name} with an edge by < or >=: its edges are {', '.join(map(str, edges))}."
    if nearest is not None:
        hint = f"The nearest edges are {nearest[0]} and {nearest[1]}: use {name} < or >= one."
    raise BinCut(
        f"the predicate cuts through a bin of {attribute.name}",
        detail=f"{attribute.name} is known only by bins [a, b): {why}.",
        hint=hint,
        position=position(where),
    )
