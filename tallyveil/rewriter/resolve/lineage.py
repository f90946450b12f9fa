"""What the values of a column may be: an attribute's cells, constants, anything else.

A group key is a column above the aggregation, and stays what it was: a bin stands as its lower
edge there too, a day as its midnight. What only picks one of several values (MAX, COALESCE, LAG)
leaves them what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from sqlglot import exp

from tallyveil.policy.domain import Attribute
from tallyveil.rewriter.private.linear import is_constant
from tallyveil.rewriter.resolve.lookup import Lookup

__all__ = ["Lineage", "Origin", "Origins", "constants_among", "holder"]


class Origin(NamedTuple):
    """An attribute of a protected table."""

    table: str
    name: str


Origins: TypeAlias = tuple[Origin | exp.Expr | None, ...]
"""The attributes and the constants that a value may be from; None is anything else."""

_ANYTHING: Final[Origins] = (None,)

_PICKING: Final = (
    exp.Paren, exp.Min, exp.Max, exp.AnyValue, exp.Window, exp.Filter, exp.Any, exp.First, exp.Last,
    exp.FirstValue, exp.LastValue, exp.NthValue, exp.IgnoreNulls, exp.RespectNulls,
)  # fmt: skip


class Lineage(Lookup[Origins]):
    """Where the values of one statement's columns are from."""

    def constants(self, node: exp.Expr) -> list[exp.Expr]:
        """The constants that an expression stands for, whatever else it may be."""
        return constants_among(self.of(node))

    def _expression(self, node: exp.Expr) -> Origins:
        if isinstance(node, exp.Cast) and isinstance(node.this, exp.Null):
            return ()
        parts = _picked(node)
        if parts:
            return self._united([self.of(part) for part in parts])
        if isinstance(node, exp.Null):
            return ()
        return (node,) if is_constant(node) else _ANYTHING

    def _public(self, table: str, name: str) -> Origins:
        return _ANYTHING

    def _attribute(self, table: str, attribute: Attribute) -> Origins:
        return (Origin(table, attribute.name),)

    def _united(self, sides: Sequence[Origins | None]) -> Origins:
        """Each attribute once."""
        found = [one for side in sides for one in (_ANYTHING if side is None else side)]
        plain = dict.fromkeys(one for one in found if not isinstance(one, exp.Expr))
        return (*plain, *(one for one in found if isinstance(one, exp.Expr)))

    def _values(self, values: Sequence[exp.Expr]) -> Origins:
        return self._united([self.of(value) for value in values])


def constants_among(origins: Origins | None) -> list[exp.Expr]:
    return [one for one in origins or () if isinstance(one, exp.Expr)]


def _picked(node: exp.Expr) -> list[exp.Expr]:
    """The expressions one of which is the value."""
    match node:
        case exp.Coalesce():
            return [node.this, *node.expressions]
        case exp.Case():
            return [*(branch.args["true"] for branch in node.args["ifs"]), *_default(node)]
        case exp.Lag() | exp.Lead():
            return [node.this, *_default(node)]
    return [node.this] if isinstance(node, _PICKING) and not node.expressions else []


def _default(node: exp.Expr) -> list[exp.Expr]:
    default = node.args.get("default")
    return [] if default is None else [default]


def holder(node: exp.Expr) -> exp.Expr | None:
    """The expression around that may have the node's value for its own."""
    around = node.parent
    if isinstance(around, exp.If):
        around = around.parent
    if around is None or not any(part is node for part in _picked(around)):
        return None
    return around
