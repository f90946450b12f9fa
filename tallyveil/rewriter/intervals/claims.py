"""The two numbers of ``dp_probability(answer, low, high)``: they depend on no record and no row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from sqlglot import exp

from tallyveil.errors import (
    DatatypeMismatch,
    DivisionByZero,
    FeatureNotSupported,
    InvalidParameterValue,
    InvalidTextRepresentation,
    NumericValueOutOfRange,
)
from tallyveil.rewriter.engine.public_cursor import PublicCursor
from tallyveil.rewriter.sql.nodes import function_name, is_constant, position

__all__ = ["Evaluator", "bounds_of", "claim_ends", "evaluator"]

Evaluator: TypeAlias = Callable[[exp.Expr], Fraction | None]
"""The value of a constant, None for ±∞ and NULL: no bound. A double has the value of the shortest
decimal that reads as it, so that 0.3 is 3/10."""

_Ends: TypeAlias = tuple[Fraction | None, Fraction | None]

_DIVISIONS = (exp.Div, exp.IntDiv, exp.Mod)


def bounds_of(node: exp.Anonymous) -> list[exp.Expr]:
    """The arguments after the answer.

    Raises FeatureNotSupported if one may differ between rows.
    """
    bounds = list(node.expressions[1:])
    for bound in bounds:
        if not is_constant(bound):
            raise FeatureNotSupported(
                f"{function_name(node)} takes numbers that are the same for every row",
                hint="Write constants or parameters: dp_probability(count(*), 0, 100), or NULL for "
                "no bound. Compare columns with dp_interval_low and dp_interval_high.",
                position=position(bound) or position(node),
            )
    return bounds


def claim_ends(
    node: exp.Anonymous, constants: Sequence[tuple[bool, exp.Expr]], evaluate: Evaluator
) -> _Ends:
    """Return ``low`` and ``high`` of a claim about the aggregates alone.

    They are reduced by the ``constants`` that the answer adds, or subtracts if marked True.

    Raises InvalidParameterValue unless low ≤ high, low < ∞ and high > −∞.
    """
    low, high = (evaluate(bound) for bound in bounds_of(node))
    if low is not None and high is not None and low > high:
        raise InvalidParameterValue(
            f"{function_name(node)} takes the lower bound first: {_text(low)} is greater than "
            f"{_text(high)}",
            hint="dp_probability(answer, low, high)",
            position=position(node),
        )
    shift = Fraction(0)
    for negative, constant in constants:
        added = evaluate(constant)
        if added is None:
            raise NumericValueOutOfRange("a number is out of range", position=position(node))
        shift += -added if negative else added
    return low if low is None else low - shift, high if high is None else high - shift


def evaluator(cursor: PublicCursor) -> Evaluator:
    """Return a function that evaluates constants in DuckDB.

    It raises DivisionByZero, DatatypeMismatch for a value that is not a number,
    InvalidTextRepresentation for a text that is not, InvalidParameterValue for NaN or an infinity
    on the wrong side, and the errors of DuckDB.
    """

    def value(node: exp.Expr) -> object:
        inner = node.unnest()
        return _read(inner) if inner.is_string else cursor.constant(node)

    def evaluate(node: exp.Expr) -> Fraction | None:
        for division in node.find_all(*_DIVISIONS):
            if value(division.expression) == 0:
                raise DivisionByZero("division by zero", position=position(division))
        return _exact(value(node), node)

    return evaluate


def _read(text: exp.Expr) -> float:
    """Read a number in quotes, such as 'infinity'."""
    try:
        return float(text.name)
    except ValueError:
        raise InvalidTextRepresentation(
            f'invalid input syntax for type double precision: "{text.name[:40]}"',
            position=position(text),
        ) from None


def _exact(value: object, node: exp.Expr) -> Fraction | None:
    match value:
        case bool():
            pass
        case None:
            return None
        case int() | Decimal():
            return Fraction(value)
        case float() if math.isinf(value):
            first = isinstance(node.parent, exp.Anonymous) and node.parent.expressions[1] is node
            if (value < 0) == first:
                return None
            raise InvalidParameterValue(
                "a lower bound must be less than infinity, an upper bound greater than -infinity",
                hint="dp_probability(answer, low, high), with NULL for no bound",
                position=position(node),
            )
        case float() if not math.isnan(value):
            return Fraction(repr(value))
        case float():
            raise InvalidParameterValue("a bound must not be NaN", position=position(node))
    raise DatatypeMismatch(
        "the bounds of dp_probability must be numbers",
        hint="Write dp_probability(count(*), 0, 100), or NULL for no bound.",
        position=position(node),
    )


def _text(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else format(float(value), ".10g")
