"""What a file of rules is made of.

``RULES`` of such a file maps classes of nodes to their rules, and ``MACROS`` are the functions that
these call and DuckDB has not got: `engine.database` creates them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from sqlglot import exp

from tallyveil.rewriter.resolve.scope import Scope

__all__ = ["Rule", "Rules", "each", "takes"]

Rule: TypeAlias = Callable[..., exp.Expr | None]
"""Takes a node and the statement's `Scope`."""

Rules: TypeAlias = Mapping[type[exp.Expr], tuple[Rule, ...]]


def each(kinds: Iterable[type[exp.Expr]], *rules: Rule) -> Rules:
    """The same rules for several kinds of nodes."""
    return dict.fromkeys(kinds, rules)


def takes(*families: str | None, hint: str) -> Rule:
    """The rule of a function whose argument is of one of these families."""

    def rule(node: exp.Expr, scope: Scope) -> None:
        scope.need_family(node, node.this, families, hint)

    return rule
