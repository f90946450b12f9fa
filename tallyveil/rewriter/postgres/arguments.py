"""What functions take: PostgreSQL has none of other types, where DuckDB converts the argument."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from tallyveil.errors import UndefinedFunction
from tallyveil.rewriter.resolve.scope import Scope
from tallyveil.rewriter.sql.nodes import function_name
from tallyveil.rewriter.sql.types import family, spoken

__all__ = ["need_family", "takes"]


def need_family(
    node: exp.Expr, argument: exp.Expr, scope: Scope, families: tuple[str | None, ...], hint: str
) -> None:
    """Raise UndefinedFunction for an argument of another family: DuckDB would convert it."""
    kind = scope.type_of(argument)
    if kind is not None and family(kind) not in families:
        raise UndefinedFunction(
            f"function {function_name(node)}({spoken(kind)}) does not exist", hint=hint
        )


def takes(*families: str | None, hint: str) -> Callable[[exp.Func, Scope], None]:
    """The rule of a function whose argument is of one of these families."""
    return lambda node, scope: need_family(node, node.this, scope, families, hint)
