"""Functions of texts whose results could be of any length, and whose work cannot be interrupted.

``replace`` of a replaced text multiplies its length every time. What is joined by ``||`` grows by
what the statement says, and within DuckDB's memory.
"""

from __future__ import annotations

from sqlglot import exp

from tallyveil.errors import UndefinedFunction
from tallyveil.rewriter.engine.database import BOUNDED_REPLACE
from tallyveil.rewriter.sql.check import position

__all__ = ["bound_texts"]


def bound_texts(tree: exp.Expr) -> None:
    """Let every ``replace`` in the tree look at lengths first, in place."""
    for node in list(tree.find_all(exp.Replace)):
        if node.args.get("replacement") is None:
            raise UndefinedFunction(
                "replace takes three arguments: a text, what to look for, and what to put there",
                position=position(node),
            )
        arguments = [node.this, node.expression, node.args["replacement"]]
        node.replace(exp.Anonymous(this=BOUNDED_REPLACE, expressions=arguments))
