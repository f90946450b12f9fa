"""Limits of a statement's size once its names are written out, and of texts made by `replace`."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from tallyveil import deadline
from tallyveil.errors import StatementTooComplex, UndefinedFunction
from tallyveil.rewriter.sql.nodes import all_nodes, call, position

__all__ = ["BOUNDED_REPLACE", "Size", "bound_texts"]


MAX_NODES: Final = 50_000

# The longest text, in characters, that one call of replace may make.
MAX_TEXT: Final = 1_000_000
# It checks the length before it replaces. Each argument is in the list once, since a macro repeats
# an argument wherever it uses it.
BOUNDED_REPLACE: Final = (
    "__replace(t, f, r) AS list_transform([{'t': t, 'f': f, 'r': r}], lambda x: "
    f"CASE WHEN length(x.t) * (1 + length(x.r)) > {MAX_TEXT} "
    "THEN error('replace could make too long a text here') "
    "ELSE replace(x.t, x.f, x.r) END)[1]"
)


class Size:
    """The number of nodes that writing out ``what`` made; ``hint`` says how to have fewer."""

    def __init__(self, what: str, hint: str) -> None:
        self._what = what
        self._hint = hint
        self._nodes = 0

    def add(self, *parts: exp.Expr) -> None:
        deadline.check()
        for part in parts:
            for _ in part.walk():
                self.count(1)

    def count(self, nodes: int) -> None:
        """Raises StatementTooComplex beyond MAX_NODES."""
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise StatementTooComplex(
                f"{self._what}, written out, have more than {MAX_NODES} parts", hint=self._hint
            )


def bound_texts(tree: exp.Expr) -> None:
    """Make every ``replace`` in the tree check the length of its result first, in place.

    Each ``replace`` of a replaced text multiplies its length, and DuckDB cannot be interrupted in
    it. ``||`` needs no bound: it adds only what the statement writes.
    """
    for node in all_nodes(tree, exp.Replace):
        if node.args.get("replacement") is None:
            raise UndefinedFunction(
                "replace takes three arguments: a text, the text to find, and its replacement",
                position=position(node),
            )
        node.replace(call("__replace", node.this, node.expression, node.args["replacement"]))
