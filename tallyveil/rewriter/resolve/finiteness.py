"""Whether a date or a timestamp may be infinite: declared days are not, public columns may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from tallyveil.policy.domain import Attribute
from tallyveil.rewriter.resolve.lookup import Lookup

__all__ = ["Finiteness", "is_infinite"]

# What is finite of finite parts. A text that is put together may say infinity.
_PLAIN: Final = (
    exp.Paren, exp.Cast, exp.DataType, exp.Case, exp.If, exp.Coalesce, exp.Null, exp.Literal,
    exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Interval, exp.Var, exp.DateTrunc, exp.TimestampTrunc,
    exp.DateFromParts, exp.Predicate, exp.Connector, exp.Boolean,
)  # fmt: skip


def is_infinite(node: exp.Expr) -> bool:
    """Of a constant, whether it says infinity."""
    while isinstance(node, exp.Paren | exp.Cast):
        node = node.this
    return node.is_string and node.name.strip().lower().lstrip("+-").startswith("inf")


class Finiteness(Lookup[bool]):
    """Whether all dates and timestamps that an expression can be are known to be finite."""

    def _expression(self, node: exp.Expr) -> bool:
        if not isinstance(node, _PLAIN) or is_infinite(node):
            return False
        return self._united([self.of(part) for part in node.iter_expressions()])

    def _public(self, table: str, name: str) -> bool:
        return False

    def _attribute(self, table: str, attribute: Attribute) -> bool:
        return attribute.sql_type != "VARCHAR"

    def _united(self, sides: Sequence[bool | None]) -> bool:
        return all(sides)

    def _values(self, values: Sequence[exp.Expr]) -> bool:
        return self._united([self.of(value) for value in values])
