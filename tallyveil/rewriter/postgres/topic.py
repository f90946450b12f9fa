"""The types of a file of rules.

``RULES`` of such a file maps classes of nodes to their rules. ``MACROS`` are the functions that its
rules call and DuckDB lacks; `engine.public_database` creates them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import TypeAlias

from sqlglot import exp

from tallyveil.errors import UndefinedFunction
from tallyveil.rewriter.resolve.bound import Bound
from tallyveil.rewriter.sql.nodes import function_name
from tallyveil.rewriter.sql.types import family, postgres_type

__all__ = ["Rule", "Rules", "each", "need_family", "takes"]

Rule: TypeAlias = Callable[..., exp.Expr | None]
"""A function of a node and the statement's `Bound`."""

Rules: TypeAlias = Mapping[type[exp.Expr], tuple[Rule, ...]]


def each(kinds: Iterable[type[exp.Expr]], *rules: Rule) -> Rules:
    """The same rules for several kinds of nodes."""
    return dict.fromkeys(kinds, rules)


def takes(*families: str | None, hint: str) -> Rule:
    """The rule of a function whose argument must be of one of these families."""

    def rule(node: exp.Expr, bound: Bound) -> None:
        second = node.args.get("expression") if isinstance(node, exp.AggFunc) else None
        for argument in (node.this, *([] if second is None else [second])):
            need_family(node, argument, families, hint, bound)

    return rule


def need_family(
    node: exp.Expr, argument: exp.Expr, families: Container[str | None], hint: str, bound: Bound
) -> None:
    """Raise UndefinedFunction for an argument of another family. DuckDB would convert it;
    PostgreSQL has no such function.
    """
    kind = bound.type_of(argument)
    if kind is not None and family(kind) not in families:
        raise UndefinedFunction(
            f"function {function_name(node)}({postgres_type(kind)}) does not exist", hint=hint
        )
