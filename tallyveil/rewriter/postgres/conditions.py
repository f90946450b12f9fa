"""Conditions, which PostgreSQL requires to be of type boolean.

DuckDB takes a number for true unless it is 0, and casts a text.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from tallyveil.errors import DatatypeMismatch
from tallyveil.rewriter.postgres.casts import read_truth
from tallyveil.rewriter.postgres.topic import Rules, each
from tallyveil.rewriter.resolve.bound import Bound
from tallyveil.rewriter.sql.nodes import position
from tallyveil.rewriter.sql.types import is_literal_text, postgres_type

__all__ = ["RULES"]


def clause(node: exp.Expr, bound: Bound) -> None:
    """WHERE, HAVING or NOT."""
    word = "FILTER" if isinstance(node.parent, exp.Filter) else node.key.upper()
    _require(node.this, word, bound)


def connector(node: exp.Connector, bound: Bound) -> None:
    for side in (node.this, node.expression):
        _require(side, node.key.upper(), bound)


def case(node: exp.Case, bound: Bound) -> None:
    if node.this is None:
        for branch in node.args["ifs"]:
            _require(branch.this, "CASE/WHEN", bound)


def join(node: exp.Join, bound: Bound) -> None:
    if node.args.get("on") is not None:
        _require(node.args["on"], "JOIN/ON", bound)


def truth_test(node: exp.Is, bound: Bound) -> None:
    value = node.expression.unnest()
    if isinstance(value, exp.Boolean):
        _require(node.this, f"IS {str(value.this).upper()}", bound)


def _require(condition: exp.Expr, clause: str, bound: Bound) -> None:
    """Raise DatatypeMismatch if the condition is known to be of another type."""
    if is_literal_text(condition):
        read_truth(condition)
        return
    kind = bound.type_of(condition)
    if kind not in (None, "BOOLEAN"):
        raise DatatypeMismatch(
            f"argument of {clause} must be type boolean, not type {postgres_type(kind)}",
            hint="Compare it with a value: age > 0.",
            position=position(condition),
        )


RULES: Final[Rules] = {
    **each((exp.Where, exp.Having, exp.Not), clause),
    **each((exp.And, exp.Or), connector),
    exp.Case: (case,),
    exp.Join: (join,),
    exp.Is: (truth_test,),
}
