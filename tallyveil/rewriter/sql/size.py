"""How long a statement may become when what it names is written out, and a text by `replace`."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from tallyveil import deadline
from tallyveil.errors import StatementTooComplex, UndefinedFunction
from tallyveil.rewriter.sql.nodes import call, position

__all__ = ["BOUNDED_REPLACE", "Size", "bound_texts"]


MAX_NODES: Final = 50_000

# What may become of a text by one call of replace, in characters.
MAX_TEXT: Final = 1_000_000
# The length of the text is looked at before there is too much of it, and each argument stands in
# the list once, since a macro writes its arguments out.
BOUNDED_REPLACE: Final = (
    "__replace(t, f, r) AS list_transform([{'t': t, 'f': f, 'r': r}], lambda x: "
    f"CASE WHEN length(x.t) * (1 + length(x.r)) > {MAX_TEXT} "
    "THEN error('replace could make too long a text here') "
    "ELSE replace(x.t, x.f, x.r) END)[1]"
)


class Size:
    """The nodes written out so far, of ``what``; ``hint`` says how there would be fewer."""

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
    """Let every ``replace`` in the tree look at lengths first, in place.

    ``replace`` of a replaced text multiplies its length every time, and DuckDB cannot be
    interrupted in it. What is joined by ``||`` grows by what the statement says.
    """
    for node in list(tree.find_all(exp.Replace)):
        if node.args.get("replacement") is None:
            raise UndefinedFunction(
                "replace takes three arguments: a text, what to look for, and what to put there",
                position=position(node),
            )
        node.replace(call("__replace", node.this, node.expression, node.args["replacement"]))
