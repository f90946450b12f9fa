"""The types of a file of rules.

``RULES`` of such a file maps classes of nodes to their rules. ``MACROS`` are the functions that its
rules call and DuckDB lacks; `engine.public_database` creates them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from sqlglot import exp

from tallyveil.rewriter.resolve.scope import Scope

__all__ = ["Rule", "Rules", "each", "takes"]

Rule: TypeAlias = Callable[..., exp.Expr | None]
"""A function of a node and the statement's `Scope`."""

Rules: TypeAlias = Mapping[type[exp.Expr], tuple[Rule, ...]]


def each(kinds: Iterable[type[exp.Expr]], *rules: Rule) -> Rules:
    """The same rules for several kinds of nodes."""
    return dict.fromkeys(kinds, rules)


def takes(*families: str | None, hint: str) -> Rule:
    """The rule of a function whose argument must be of one of these families."""

    def rule(node: exp.Expr, scope: Scope) -> None:
        scope.need_family(node, node.this, families, hint)

    return rule
