"""Texts that stand for true or false: DuckDB reads fewer than PostgreSQL."""

from __future__ import annotations

from sqlglot import exp

from tallyveil.errors import InvalidTextRepresentation
from tallyveil.rewriter.sql.check import position
from tallyveil.truth import truth

__all__ = ["read_truth"]


def read_truth(node: exp.Expr) -> None:
    """Write a string constant as DuckDB reads it. Raises InvalidTextRepresentation."""
    literal = node.unnest()
    if not literal.is_string:
        return
    value = truth(literal.name)
    if value is None:
        raise InvalidTextRepresentation(
            f'invalid input syntax for type boolean: "{literal.name[:40]}"',
            hint="Write true or false.",
            position=position(literal) or position(node),
        )
    literal.set("this", str(value).lower())
