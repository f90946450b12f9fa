"""Comparisons and choices between values, which PostgreSQL requires to be of one family.

DuckDB converts text to a number, or a number to text, where PostgreSQL reports an error. It reads a
number with an exponent as a double, where PostgreSQL compares exactly, and does not read '{1,2}' as
an array.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from sqlglot import exp

from tallyveil.errors import (
    FeatureNotSupported,
    InvalidTextRepresentation,
    SQLSyntaxError,
    UndefinedFunction,
    WrongObjectType,
)
from tallyveil.rewriter.postgres.casts import WHOLE, array_literals, read_truth
from tallyveil.rewriter.postgres.dates import check_clock_text, check_time_text
from tallyveil.rewriter.postgres.topic import Rules, each
from tallyveil.rewriter.resolve.bound import Bound
from tallyveil.rewriter.sql.nodes import COMPARISONS, position
from tallyveil.rewriter.sql.types import INTEGERS, family, is_literal_text, postgres_type

__all__ = ["RULES"]


_LONGEST: Final = 38  # digits of an exact number in DuckDB


def compare(node: exp.Expr, bound: Bound) -> None:
    """Check two sides, the ends of BETWEEN, or the values of IN."""
    operands = [node.args.get(name) for name in ("this", "expression", "low", "high")]
    parts = [*(operand for operand in operands if operand is not None), *node.expressions]
    _one_family(parts, bound)
    for part in parts:
        inner = part.unnest()
        literal = inner.this.unnest() if isinstance(inner, exp.Neg) else inner
        if isinstance(literal, exp.Literal) and not literal.is_string:
            literal.set("this", _without_exponent(literal.this))


def choice(node: exp.Func, bound: Bound) -> None:
    parts = [node.this, *node.expressions]
    _one_family(parts, bound)
    if not isinstance(node, exp.Coalesce) and "INTERVAL" in map(bound.type_of, parts):
        # DuckDB's do not know that a day is 24 hours.
        raise FeatureNotSupported(
            "greatest and least of intervals are not answered",
            hint="Write CASE WHEN a > b THEN a ELSE b END.",
            position=position(node),
        )


def case(node: exp.Case, bound: Bound) -> None:
    branches = [branch.args["true"] for branch in node.args["ifs"]]
    default = node.args.get("default")
    _one_family([*branches, *([default] if default is not None else [])], bound)
    if node.this is not None:
        _one_family([node.this, *(branch.this for branch in node.args["ifs"])], bound)


def is_test(node: exp.Is, bound: Bound) -> None:
    if not isinstance(node.expression.unnest(), exp.Null | exp.Boolean):
        raise FeatureNotSupported("IS takes NULL, TRUE, FALSE or UNKNOWN")


_GROUPS = (exp.Group, exp.Rollup, exp.Cube, exp.GroupingSets, exp.Values, exp.Distinct)


def row(node: exp.Tuple, bound: Bound) -> None:
    """DuckDB compares rows as wholes; PostgreSQL's comparison with a NULL inside is NULL."""
    if isinstance(node.parent, exp.Predicate):
        rows = (one for one in node.parent.iter_expressions() if isinstance(one, exp.Tuple))
        if len({len(one.expressions) for one in rows}) > 1:
            raise SQLSyntaxError("unequal number of entries in row expressions")
    if not isinstance(node.parent, _GROUPS):
        raise FeatureNotSupported(
            "a row in parentheses is not answered here",
            hint="Write a = 1 AND b = 2, and for (a, b) < (1, 2): a < 1 OR (a = 1 AND b < 2).",
        )


def _without_exponent(number: str) -> str:
    """The number in digits alone, unless these are too many for an exact one."""
    if "e" not in number.lower():
        return number
    plain = f"{Decimal(number):f}"
    return plain if len(plain) <= _LONGEST else number


def _one_family(parts: Sequence[exp.Expr], bound: Bound) -> None:
    kinds = [bound.type_of(part) for part in parts if not is_literal_text(part)]
    families = {family(kind) for kind in kinds} - {None}
    if len(families) > 1:
        names = sorted({postgres_type(kind) for kind in kinds if kind})
        raise UndefinedFunction(
            f"values of types {' and '.join(names)} cannot be compared or mixed",
            hint="Cast one of them: attribute::text, '3'::int.",
        )
    if kinds and all(kind in INTEGERS for kind in kinds):
        for part in parts:
            literal = part.unnest()
            if literal.is_string and not WHOLE.fullmatch(literal.this):
                raise InvalidTextRepresentation(
                    f'invalid input syntax for type integer: "{literal.this}"',
                    position=position(part),
                )
    if families == {"time"}:
        for part in parts:
            check_time_text(part, postgres_type(next(kind for kind in kinds if kind)))
    if kinds and set(kinds) == {"TIME"}:
        for part in parts:
            check_clock_text(part)
    if families == {"truth"}:
        for part in parts:
            read_truth(part)


def any_element(node: exp.Any, bound: Bound) -> exp.Expr | None:
    """``x = ANY ('{…}')``, with or without a cast, as drivers write a list."""
    wanted = node.this.unnest()
    inner = wanted.this if isinstance(wanted, exp.Cast) else wanted
    if not isinstance(inner, exp.Literal) or not inner.is_string:
        return None
    if isinstance(wanted, exp.Cast):
        kind = wanted.to
        if kind.this is not exp.DType.ARRAY:
            raise WrongObjectType("op ANY/ALL (array) requires array on right side")
    else:
        comparison = node.parent
        beside = comparison.this if comparison is not None else None
        kind = exp.DataType.build(f"{bound.type_of(beside) or 'VARCHAR'}[]", dialect="duckdb")
    values = exp.Array(expressions=array_literals(inner, kind))
    return exp.Any(this=exp.paren(exp.cast(values, kind.copy())))


RULES: Final[Rules] = {
    **each(
        (*COMPARISONS, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Nullif, exp.Between, exp.In), compare
    ),
    exp.Is: (is_test,),
    exp.Tuple: (row,),
    exp.Any: (any_element,),
    exp.Case: (case,),
    **each((exp.Coalesce, exp.Greatest, exp.Least), choice),
}
