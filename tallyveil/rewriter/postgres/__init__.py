"""Translation from PostgreSQL's SQL to DuckDB's: each construct is translated exactly, or refused.

Each file has the rules of one topic. A rule takes a node and the statement's `Bound`. It returns
the node's replacement for DuckDB, or None to keep the node, or raises. `translate` applies to each
node, outer nodes first, the rules of its class.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from tallyveil.rewriter.postgres import (
    arithmetic,
    casts,
    comparisons,
    conditions,
    dates,
    identifiers,
    texts,
)
from tallyveil.rewriter.postgres.topic import Rules
from tallyveil.rewriter.resolve.bound import Bound
from tallyveil.rewriter.sql.nodes import all_nodes, visit

__all__ = ["MACROS", "translate"]

_TOPICS: Final[tuple[Rules, ...]] = (
    identifiers.RULES, arithmetic.RULES, casts.RULES, comparisons.RULES, conditions.RULES,
    texts.RULES, dates.RULES,
)  # fmt: skip
MACROS: Final = (*arithmetic.MACROS, *casts.MACROS, *texts.MACROS, *dates.MACROS)
"""Each as in CREATE MACRO: ``name(arguments) AS expression``."""


_RULES: Final = {
    kind: tuple(rule for topic in _TOPICS for rule in topic.get(kind, ()))
    for kind in {kind for topic in _TOPICS for kind in topic}
}


def translate(tree: exp.Expr, bound: Bound) -> None:
    """Translate the statement in place.

    Outer nodes come first: a rule sees its node's parts as the analyst wrote them, and puts each
    of them exactly once into its replacement.

    Raises StatementError at the first construct that has no exact translation.
    """

    def apply(node: exp.Expr) -> None:
        for rule in _RULES.get(type(node), ()):
            replacement = rule(node, bound)
            if replacement is not None:
                node.replace(replacement)
                break

    visit(all_nodes(tree, exp.Expr), apply)
