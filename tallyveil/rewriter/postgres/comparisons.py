"""Comparisons and choices between values: PostgreSQL wants them of one family.

DuckDB converts text to a number, or a number to text, where PostgreSQL reports an error. And it
takes a number with an exponent for a double, where PostgreSQL compares exactly.
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
    StatementError,
    UndefinedFunction,
)
from tallyveil.rewriter.postgres.casts import WHOLE
from tallyveil.rewriter.postgres.time_texts import check_time_text
from tallyveil.rewriter.postgres.truth_texts import read_truth
from tallyveil.rewriter.resolve.scope import Scope
from tallyveil.rewriter.sql.check import position
from tallyveil.rewriter.sql.types import INTEGERS, family, is_literal_text, spoken

__all__ = ["between", "case", "compare", "row", "test", "values", "within"]


_LONGEST: Final = 38  # digits of an exact number of DuckDB's


def compare(node: exp.Binary, scope: Scope) -> None:
    _compared(node, [node.this, node.expression], scope)


def between(node: exp.Between, scope: Scope) -> None:
    _compared(node, [node.this, node.args["low"], node.args["high"]], scope)


def within(node: exp.In, scope: Scope) -> None:
    _compared(node, [node.this, *node.expressions], scope)


def values(node: exp.Func, scope: Scope) -> None:
    _one_family(node, [node.this, *node.expressions], scope)


def case(node: exp.Case, scope: Scope) -> None:
    branches = [branch.args["true"] for branch in node.args["ifs"]]
    default = node.args.get("default")
    _one_family(node, [*branches, *([default] if default is not None else [])], scope)
    if node.this is not None:
        _one_family(node, [node.this, *(branch.this for branch in node.args["ifs"])], scope)


def test(node: exp.Is, scope: Scope) -> None:
    if not isinstance(node.expression.unnest(), exp.Null | exp.Boolean):
        raise FeatureNotSupported("IS takes NULL, TRUE, FALSE or UNKNOWN", position=position(node))


_GROUPS = (exp.Group, exp.Rollup, exp.Cube, exp.GroupingSets, exp.Values)


def row(node: exp.Tuple, scope: Scope) -> None:
    """DuckDB compares rows as wholes; PostgreSQL's comparison with a NULL inside is NULL."""
    if isinstance(node.parent, exp.Predicate):
        rows = (one for one in node.parent.iter_expressions() if isinstance(one, exp.Tuple))
        if len({len(one.expressions) for one in rows}) > 1:
            raise SQLSyntaxError(
                "unequal number of entries in row expressions", position=position(node)
            )
    if not isinstance(node.parent, _GROUPS):
        raise FeatureNotSupported(
            "rows in parentheses are not compared here",
            hint="Write a = 1 AND b = 2.",
            position=position(node),
        )


def _compared(node: exp.Expr, parts: Sequence[exp.Expr], scope: Scope) -> None:
    _one_family(node, parts, scope)
    for part in parts:
        inner = part.unnest()
        literal = inner.this.unnest() if isinstance(inner, exp.Neg) else inner
        if isinstance(literal, exp.Literal) and not literal.is_string:
            literal.set("this", _without_exponent(literal.this))


def _without_exponent(number: str) -> str:
    """The same number in its digits, unless these are too many for an exact one."""
    if "e" not in number.lower():
        return number
    plain = f"{Decimal(number):f}"
    return plain if len(plain) <= _LONGEST else number


def _one_family(node: exp.Expr, parts: Sequence[exp.Expr], scope: Scope) -> None:
    firm = [scope.type_of(part) for part in parts if not is_literal_text(part)]
    families = {family(kind) for kind in firm} - {None}
    if len(families) > 1:
        raise _mismatch(node, sorted({spoken(kind) for kind in firm if kind}))
    if firm and all(kind in INTEGERS for kind in firm):
        for part in parts:
            literal = part.unnest()
            if literal.is_string and not WHOLE.fullmatch(literal.this):
                raise InvalidTextRepresentation(
                    f'invalid input syntax for type integer: "{literal.this}"',
                    position=position(part),
                )
    if families == {"time"}:
        for part in parts:
            check_time_text(part, spoken(next(kind for kind in firm if kind)))
    if families == {"truth"}:
        for part in parts:
            read_truth(part)


def _mismatch(node: exp.Expr, kinds: list[str]) -> StatementError:
    return UndefinedFunction(
        f"values of types {' and '.join(kinds)} do not go together",
        hint="Cast one of them: attribute::text, '3'::int.",
        position=position(node),
    )
