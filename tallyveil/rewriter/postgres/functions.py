"""Roots, powers and logarithms where they have no value: PostgreSQL raises, DuckDB goes on with
NaN or infinity, which compare as greater than every number.

Over noisy rows they go on, as DuckDB has it: noise may lead where no true value does.
"""

from __future__ import annotations

from sqlglot import exp

from tallyveil.rewriter.postgres.build import call
from tallyveil.rewriter.resolve.scope import Scope

__all__ = ["exponential", "logarithm", "power", "root"]


def root(node: exp.Sqrt, scope: Scope) -> exp.Expr | None:
    return call("__pg_sqrt", node.this) if scope.at_record_level(node) else None


def logarithm(node: exp.Ln | exp.Log, scope: Scope) -> exp.Expr | None:
    if not scope.at_record_level(node):
        return None
    if isinstance(node, exp.Ln):
        return call("__pg_ln", node.this)
    base = node.args.get("expression")
    if base is None:
        return call("__pg_log", node.this)
    # Both have to be positive: the guards change no value that there is.
    node.set("this", call("__pg_positive", node.this))
    node.set("expression", call("__pg_positive", base))
    return None


def exponential(node: exp.Exp, scope: Scope) -> exp.Expr | None:
    return call("__pg_exp", node.this) if scope.at_record_level(node) else None


def power(node: exp.Pow, scope: Scope) -> exp.Expr | None:
    if not scope.at_record_level(node):
        return None
    return call("__pg_power", node.this, node.expression)
