"""Division and rounding.

PostgreSQL divides integers to an integer, raises on a zero divisor, and rounds halves of a double
to the even number, but halves of a numeric away from zero.
"""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported, UndefinedFunction
from tallyveil.rewriter.postgres.build import as_type, call
from tallyveil.rewriter.postgres.inexact import refuse_inexact
from tallyveil.rewriter.resolve.scope import Scope
from tallyveil.rewriter.sql.check import function_name, position
from tallyveil.rewriter.sql.types import INTEGERS, NUMERICS, family, is_literal_text, spoken

__all__ = [
    "add_up",
    "divide",
    "divide_whole",
    "exact_operands",
    "need_number",
    "remainder",
    "round_half",
    "truncate",
]


def divide(node: exp.Div, scope: Scope) -> exp.Expr:
    """DuckDB's ``//`` raises on zero; it truncates integers and divides doubles as they are."""
    left, right = node.this, node.expression
    kinds = scope.type_of(left), scope.type_of(right)
    if "INTERVAL" in kinds:
        raise FeatureNotSupported(
            "dividing an interval is not answered",
            hint="Write the interval you mean: INTERVAL '36 hours'.",
            position=position(node),
        )
    if all(kind in INTEGERS for kind in kinds) or None in kinds:
        return exp.IntDiv(this=left, expression=right)
    left, right = _scaled(left, right, kinds[0])
    return exp.IntDiv(this=as_type(left, "DOUBLE"), expression=right)


def _scaled(left: exp.Expr, right: exp.Expr, kind: str | None) -> tuple[exp.Expr, exp.Expr]:
    """``a / 0.1`` as ``a·10 / 1``: both are then exact, and so the quotient rounds correctly."""
    if not isinstance(right, exp.Literal) or "." not in right.this or "e" in right.this.lower():
        return left, right
    decimals = len(right.this.rstrip("0").partition(".")[2])
    if not 0 < decimals <= 6 or not (kind in INTEGERS or kind == "NUMERIC"):
        return left, right
    base = as_type(left, "BIGINT") if kind in INTEGERS else exp.paren(left, copy=False)
    divisor = int(Decimal(right.this).scaleb(decimals))
    scaled = exp.Mul(this=base, expression=exp.Literal.number(10**decimals))
    return scaled, exp.Literal.number(divisor)


def divide_whole(node: exp.IntDiv, scope: Scope) -> None:
    """``div(a, b)`` of integers only: of numerics it is a truncated quotient."""
    kinds = scope.type_of(node.this), scope.type_of(node.expression)
    if not all(kind in INTEGERS for kind in kinds):
        raise FeatureNotSupported(
            "div of numbers that are not integers is not answered",
            hint="Write trunc(a / b).",
            position=position(node),
        )


def exact_operands(node: exp.Expr, scope: Scope) -> None:
    """Arithmetic on a quotient has an exact answer only where nothing hinges on its last digit."""
    if scope.type_of(node) == "INEXACT":
        refuse_inexact(node, scope)


def need_number(node: exp.Func, scope: Scope) -> None:
    """DuckDB takes a boolean for 0 or 1."""
    kind = scope.type_of(node.this)
    if kind is not None and family(kind) != "number" and not is_literal_text(node.this):
        raise UndefinedFunction(
            f"function {function_name(node)}({spoken(kind)}) does not exist",
            hint="Give it a number.",
            position=position(node),
        )


def remainder(node: exp.Mod, scope: Scope) -> None:
    """PostgreSQL has none of double precision."""
    if "DOUBLE" in (scope.type_of(node.this), scope.type_of(node.expression)):
        raise UndefinedFunction(
            "mod of double precision does not exist",
            hint="Cast the number to numeric(p, s) or to bigint.",
            position=position(node),
        )


def add_up(node: exp.AggFunc, scope: Scope) -> None:
    """DuckDB adds up booleans, and reads numbers from texts."""
    kind = scope.type_of(node.this)
    if family(kind) in ("truth", "text", "time"):
        raise UndefinedFunction(
            f"function {function_name(node)}({spoken(kind)}) does not exist",
            hint="count(*) FILTER (WHERE …) counts the records a condition holds for.",
            position=position(node),
        )


def round_half(node: exp.Round, scope: Scope) -> exp.Expr | None:
    kind = scope.type_of(node.this)
    if node.args.get("decimals") is not None:
        _need_numeric(node, kind, "round")
        _need_exact(node, scope)
        return None
    if kind is None and scope.at_record_level(node):
        raise FeatureNotSupported(
            "round of a value of unknown type is not answered",
            hint="Cast it: numeric(p, s) rounds halves away from zero, double precision to even.",
            position=position(node),
        )
    if kind == "DOUBLE":
        return call("round_even", node.this, exp.Literal.number(0))
    return None


def truncate(node: exp.Trunc, scope: Scope) -> None:
    if node.args.get("decimals") is not None:
        _need_numeric(node, scope.type_of(node.this), "trunc")
        _need_exact(node, scope)


def _need_exact(node: exp.Expr, scope: Scope) -> None:
    if scope.type_of(node) == "INEXACT":
        refuse_inexact(node, scope, smooth=False)


def _need_numeric(node: exp.Expr, kind: str | None, name: str) -> None:
    if kind == "DOUBLE":
        raise UndefinedFunction(
            f"function {name}(double precision, integer) does not exist",
            hint="Cast the number to numeric(p, s) instead.",
            position=position(node),
        )
    if kind is not None and kind not in (*INTEGERS, *NUMERICS):
        raise UndefinedFunction(
            f"{name} takes a number, not a {spoken(kind)}", position=position(node)
        )
